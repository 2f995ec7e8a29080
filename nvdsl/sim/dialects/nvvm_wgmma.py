"""nvvm, matrices: wgmma, stmatrix, ldmatrix."""

from __future__ import annotations

from typing import Any

import numpy as np

from nvdsl.ir.location import where
from nvdsl.ir.operands import integer, matrix_shape, named, word
from nvdsl.sim import matrix, shadow, undefined
from nvdsl.sim.access import SHARED, Accessor
from nvdsl.sim.decode import Blocking, Decoder, Frame, op
from nvdsl.sim.descriptors import Source
from nvdsl.sim.dialects.memref import tile_behind
from nvdsl.sim.registers import Struct
from nvdsl.sim.uniform import one_value
from nvdsl.sim.values import LANES, element, lanes
from nvdsl.sim.wgmma import state
from nvdsl.sim.wgmma_registers import Kind

_U64 = (1 << 64) - 1

# --- wgmma


@op("nvvm.wgmma.fence.aligned")
def _wgmma_fence(d: Decoder, op: Any) -> Any:
    return lambda v: state(v[0]).fence()


@op("nvvm.wgmma.commit.group.sync.aligned")
def _wgmma_commit(d: Decoder, op: Any) -> Any:
    at = where(op)
    return lambda v: state(v[0]).commit(at)


@op("nvvm.wgmma.wait.group.sync.aligned")
def _wgmma_wait(d: Decoder, op: Any) -> Any:
    pending, at = integer(op, "group"), where(op)
    return Blocking(lambda v: state(v[0]).wait(pending, at))


@op("nvvm.wgmma.mma_async")
def _mma_async(d: Decoder, op: Any) -> Any:
    view = named(op)
    before, a, b = d.named(op, "inouts", "descriptorA", "descriptorB")
    r = d.result(op)
    _, n, _ = matrix_shape(op)
    a_type, b_type, d_type = (word(op, name) for name in ("typeA", "typeB", "typeD"))
    majors = ("k" if word(op, "layoutA") == "row" else "mn", "k" if word(op, "layoutB") == "col" else "mn")
    signs = tuple(1 if word(op, name) == "one" else -1 for name in ("scaleA", "scaleB"))
    names = {"s32": "i32"}
    kind = Kind(n, a_type, b_type, names.get(d_type, d_type), majors, signs, where(op))  # type: ignore[arg-type]
    adds = word(op, "scaleD") == "one"
    kind.sources = Source(d, view.descriptorA), Source(d, view.descriptorB)
    given = undefined.of_struct(d.undefined, view.inouts, kind)

    def step(v: Frame) -> None:
        w = v[0]
        a_descriptor = one_value(v[a], w, kind.at, "the descriptor of A") & _U64
        b_descriptor = one_value(v[b], w, kind.at, "the descriptor of B") & _U64
        mma, sums = state(w), v[before] if adds else None
        rows = given.undefined(v) if w.undefined and sums.__class__ is Struct else None
        v[r] = mma.issue(kind, a_descriptor, b_descriptor, sums, rows)

    return step


# --- matrices


@op("nvvm.stmatrix")
def _stmatrix(d: Decoder, op: Any) -> Any:
    pointer, sources = d.named(op, "ptr", "sources")
    at, transpose = where(op), word(op, "layout") == "col"
    access = Accessor(SHARED, element("i32"), 4, 16, at)
    access.tile = tile_behind(named(op).ptr)
    stored = [undefined.Stored(d, register, at) for register in named(op).sources]

    def step(v: Frame) -> None:
        w = v[0]
        rows = rows_of(w, v[pointer], access, len(sources), "stmatrix", True, at)
        values = np.array([lanes(v[s], element("i32")) for s in sources])
        w.block.smem.version += 1
        matrix.stmatrix(w.block.smem.data, rows, values, transpose)
        if w.undefined and not transpose:
            _forget(v, rows, stored)

    return step


def _forget(v: Frame, rows: Any, stored: list[undefined.Stored]) -> None:
    """Rows of matrices that are undefined count as unwritten. ``rows``: addresses."""
    tracker = v[0].block.shadow
    for i, one in enumerate(stored):
        lanes = one.lanes(v)
        if lanes is not None:
            for row in np.flatnonzero(lanes.reshape(8, 4).all(1)).tolist():
                start = int(rows[8 * i + row])
                tracker.written &= ~shadow.interval(start, start + 16, tracker.shift)[0]


@op("nvvm.ldmatrix")
def _ldmatrix(d: Decoder, op: Any) -> Any:
    (pointer,) = d.operands(op)
    r = d.result(op)
    at, transpose = where(op), word(op, "layout") == "col"
    count = integer(op, "num")
    access = Accessor(SHARED, element("i32"), 4, 16, at)
    access.tile = tile_behind(op.operands[0])

    def step(v: Frame) -> None:
        w = v[0]
        rows = rows_of(w, v[pointer], access, count, "ldmatrix", False, at)
        loaded = matrix.ldmatrix(w.block.smem.data, rows, count, transpose)
        v[r] = loaded[0] if count == 1 else Struct(loaded)

    return step


def rows_of(w: Any, pointer: Any, access: Accessor, count: int, what: str, writes: bool, at: Any) -> Any:
    """The addresses of the 8 * count rows (by the first lanes), checked; 32 of them."""
    addresses = lanes(pointer, element("i64"))
    outer = w.mask
    w.set_mask(np.arange(LANES) < 8 * count)
    found, block, offsets = access.locate(w, addresses, what)
    if w.machine.checks:
        access._check(w, found, block, offsets, what, writes)
    w.set_mask(outer)
    return addresses
