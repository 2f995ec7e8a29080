"""Arithmetic that is not meant to wrap around: sums and products that are no i32 (see `nvdsl.ir.indices`)."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from nvdsl.ir.arith import Binary
from nvdsl.ir.indices import SIGNS
from nvdsl.ir.location import where
from nvdsl.sim.decode import Decoder, Frame
from nvdsl.sim.report import error

_EXACT: dict[str, Callable[[Any, Any], Any]] = {
    "arith.addi": operator.add, "arith.subi": operator.sub, "arith.muli": operator.mul,
}  # fmt: skip


_PLACE = "becomes an index, or is compared with one"


def checked(d: Decoder, op: Any, f: Binary, becomes: str = _PLACE) -> Any:
    """The step of an op whose result ``becomes`` what it should not wrap around for. Of the places of lanes that differ
    it looks at products alone, for what comes near the end of i32 by sums was no place before, and only where the
    first lane or the last wraps: indices rise with the lane."""
    a, b = d.operands(op)
    r, at, name = d.result(op), where(op), op.name
    exactly, is_product = _EXACT[name], name == "arith.muli"
    wide: Any = {"arith.addi": np.add, "arith.subi": np.subtract, "arith.muli": np.multiply}[name]

    def step(v: Frame) -> None:
        x, y = v[a], v[b]
        v[r] = found = f(x, y)
        if found.__class__ is not np.ndarray:
            wrong = exactly(x, y) != found
        elif becomes is not _PLACE:
            wrong = ((wide(x, y, dtype=np.int64) != found) & v[0].mask).any()
        elif is_product:
            ends = (x.item(0), x.item(-1)) if x.__class__ is np.ndarray else (x, x)
            others = (y.item(0), y.item(-1)) if y.__class__ is np.ndarray else (y, y)
            wrong = ends[0] * others[0] != found.item(0) or ends[1] * others[1] != found.item(-1)
            wrong = wrong and ((wide(x, y, dtype=np.int64) != found) & v[0].mask).any()
        else:
            return
        if wrong and v[0].machine.checks:
            raise _beyond(v[0], x, y)

    def _beyond(w: Any, x: Any, y: Any) -> Exception:
        x, y = (np.broadcast_to(np.asarray(n, np.int64), w.mask.shape) for n in (x, y))
        lane = int(np.flatnonzero((exactly(x, y) != exactly(x, y).astype(np.int32)) & w.mask)[0])
        first, second = int(x[lane]), int(y[lane])
        return error(
            "overflow",
            f"{w.name} lane {lane}: {first:,} {SIGNS[name]} {second:,} is {exactly(first, second):,}, beyond i32",
            at,
            f"arithmetic of i32 wraps around, and this {becomes}",
            f"compute in 64 bits: nv.i64(x) {SIGNS[name]} y"
            + ("" if becomes is _PLACE else f", or nv.u32(x) {SIGNS[name]} y where it is meant to wrap"),
        )

    return step
