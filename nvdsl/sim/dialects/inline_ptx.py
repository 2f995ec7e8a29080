"""The user's own PTX (`nvdsl.ops.inline_ptx`): what its meaning in Python says."""

from __future__ import annotations

from typing import Any

import numpy as np

from nvdsl.errors import SimError, Where
from nvdsl.ir.location import where
from nvdsl.ir.operands import string
from nvdsl.mlir import ir
from nvdsl.ops.inline_ptx import MEANING, TYPES, meanings
from nvdsl.sim.access import Accessor
from nvdsl.sim.decode import Decoder, Frame
from nvdsl.sim.registers import Struct
from nvdsl.sim.report import error
from nvdsl.sim.values import LANES, element
from nvdsl.values import dtypes
from nvdsl.values.dtypes import DType


class Memory:
    """The memory at a pointer of inline PTX, for its meaning: one place for each active lane.

    ``dtype`` is nvdsl's; ``offset``: bytes from the pointer on, a number or one for each lane. Accesses are checked as
    others are.
    """

    def __init__(self, warp: Any, space: int, address: Any, at: Where | None) -> None:
        self._warp, self._space, self._address, self._at = warp, space, address, at

    def load(self, dtype: DType, offset: Any = 0) -> Any:
        """What the active lanes find there."""
        access, address = self._access(dtype, offset)
        return _active(self._warp, access.load_each(self._warp, address), dtype)

    def store(self, values: Any, dtype: DType, offset: Any = 0) -> None:
        """Store the active lanes' ``values``."""
        access, address = self._access(dtype, offset)
        access.store_each(self._warp, address, _whole(self._warp, np.asarray(values), dtype, self._at))

    def _access(self, dtype: DType, offset: Any) -> tuple[Accessor, Any]:
        name = dtype.name if dtype.is_float else f"i{dtype.bits}"
        access = Accessor(self._space, element(name), None, 1, self._at)
        if isinstance(self._address, int) and isinstance(offset, int):
            return access, self._address + offset
        whole = np.zeros(LANES, np.int64)
        whole[self._warp.mask] = offset
        return access, self._address + whole


def user_ptx(d: Decoder, op: Any) -> Any:
    at, text = where(op), string(op, "asm_string").strip().partition("\n")[0][:60]
    names = [ir.StringAttr(name).value for name in ir.ArrayAttr(op.attributes[TYPES])]
    count = len(names) - len(op.operands)
    types = [None if name.startswith("!llvm.ptr") else dtypes.by_name(name) for name in names]
    spaces = [int(name.partition("<")[2].rstrip(">") or 0) for name in names if name.startswith("!llvm.ptr")]
    slots, r = d.operands(op), d.result(op) if count else 0
    meaning = meanings.get(string(op, MEANING))

    def step(v: Frame) -> None:
        w = v[0]
        if meaning is None:
            raise error(
                "ptx-without-meaning",
                f"the simulator does not know what inline PTX does: {text!r}",
                at,
                "nv.ptx has a meaning in Python, which the simulator executes in its place",
                "meaning=lambda a, b: ..., of NumPy arrays; or run the kernel on a GPU",
            )
        coming = iter(spaces)
        given = [
            Memory(w, next(coming), v[slot], at) if dtype is None else _active(w, v[slot], dtype)
            for slot, dtype in zip(slots, types[count:], strict=True)
        ]
        found = _results(meaning, given, count, at)
        values = [_whole(w, np.asarray(x), dtype, at) for x, dtype in zip(found, types[:count], strict=True)]
        if count:
            v[r] = values[0] if count == 1 else Struct(values)

    return step


def _results(meaning: Any, given: list[Any], count: int, at: Where | None) -> list[Any]:
    try:
        found = meaning(*given)
    except SimError:
        raise
    except Exception as raised:
        raise _wrong(f"the meaning of inline PTX raised {type(raised).__name__}: {raised}", at) from raised
    results = [] if found is None else list(found) if isinstance(found, tuple) else [found]
    if len(results) != count:
        raise _wrong(f"the meaning of inline PTX returned {len(results)} results, not {count}", at)
    return results


def _wrong(message: str, at: Where | None) -> SimError:
    return error(
        "ptx-meaning",
        message,
        at,
        "a meaning takes a NumPy array for each operand, with a number for each active lane, and returns as many "
        "numbers for each result (several results: a tuple of arrays)",
        "try the function on arrays of 32 numbers",
    )


def _active(w: Any, value: Any, dtype: DType) -> Any:
    """What the active lanes have, as numbers of the type."""
    kind = np.dtype(np.bool_) if dtype.kind == "bool" else dtype.numpy
    signed = np.dtype(f"i{kind.itemsize}") if kind.kind == "u" else kind  # as a register holds it
    whole = np.broadcast_to(np.asarray(value), (LANES,)).astype(signed)
    return whole[w.mask].view(kind)


def _whole(w: Any, values: Any, dtype: DType | None, at: Where | None) -> Any:
    """A register of the warp with the active lanes' results."""
    assert dtype is not None
    kind = np.dtype(np.bool_) if dtype.kind == "bool" else dtype.numpy
    active = int(w.mask.sum())
    if values.shape not in ((), (active,)):
        raise _wrong(f"the meaning of inline PTX returned an array of shape {values.shape} for {active} lanes", at)
    if values.dtype.kind not in "biuf" and values.dtype != kind:
        raise _wrong(f"the meaning of inline PTX returned {values.dtype} where a {dtype.name} belongs", at)
    if values.dtype.kind == "f" and kind.kind in "iub":
        raise _wrong(f"the meaning of inline PTX returned {values.dtype} where a {dtype.name} belongs", at)
    made = values.astype(kind)
    signed = np.dtype(f"i{kind.itemsize}") if kind.kind == "u" else kind
    whole = np.zeros(LANES, signed)
    whole[w.mask] = made.view(signed) if made.shape else made.reshape(1).view(signed)[0]
    return whole
