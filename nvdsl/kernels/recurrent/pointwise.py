"""A step's gates and state from sums that are there: for weights that no block can keep, and cells of any shape."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import nvdsl as nv
from nvdsl.kernels.recurrent.cells import Cell
from nvdsl.kernels.recurrent.shapes import Gates, Rows, State, States

_THREADS = 256


@nv.jit
def forward_step(
    x: Gates,
    h: Gates | None,
    bias: nv.Array | None,
    h0: State | None,
    c0: State | None,
    h1: State,
    c1: State | None,
    y: State | None,
    saved: Gates | None,
    saved_c: State | None,
    saved_h: State | None,
    *,
    cell: Cell,
) -> None:
    """One step. ``x``, ``h``: the gates' parts of the inputs and of the hidden state (None: zeros), [gates, batch,
    hidden]; ``bias``: [gates, hidden], of the latter. ``h0``, ``c0``: the state (None: zeros), ``h1``, ``c1``: the new
    one, which may be in the same place; ``y``: h once more. ``saved``: [kinds, batch, hidden], ``saved_c``,
    ``saved_h``: c after the step, h before it."""
    gates, batch, hidden = x.shape

    @nv.kernel(grid=(nv.cdiv(hidden, _THREADS), batch), block=_THREADS)
    def kernel() -> None:
        unit, row = nv.block_id.x * _THREADS + nv.thread_id.x, nv.block_id.y
        if unit < hidden:

            def load(array: Any, *place: Any) -> Any:
                return nv.f32(0.0) if array is None else nv.f32(array[place])

            inputs = [load(x, g, row, unit) for g in range(gates)]
            sums = [load(h, g, row, unit) + load(bias, g, unit) for g in range(gates)]
            before = [load(array, row, unit) for array in (h0, c0)[: cell.states]]
            state, kept = cell.forward(inputs, sums, before)

            def store(values: Sequence[Any], *arrays: Any) -> None:
                for value, array in zip(values, arrays, strict=False):
                    if array is not None:
                        array[row, unit] = value

            store(state, h1, c1)
            store(state, y)
            store(state[1:], saved_c)
            store(before, saved_h)
            if saved is not None:
                for kind, value in enumerate(kept):
                    saved[kind, row, unit] = value

    kernel()


@nv.jit
def backward_step(
    dy: State,
    saved: Gates | None,
    before: State | None,
    after: State,
    product: State | None,
    dh: State | None,
    dc: State | None,
    dx_gates: Gates,
    dh_gates: Gates,
    dh_before: State,
    dc_before: State | None,
    *,
    cell: Cell,
) -> None:
    """The same backwards. ``dh``, ``dc``: of the state after the step, beside ``dy`` and the ``product`` with the
    weights; ``dh_before``: of h before it, likewise without the product of ``dh_gates`` with the weights. None: zeros.
    """
    kinds, batch, hidden = dx_gates.shape

    @nv.kernel(grid=(nv.cdiv(hidden, _THREADS), batch), block=_THREADS)
    def kernel() -> None:
        unit, row = nv.block_id.x * _THREADS + nv.thread_id.x, nv.block_id.y
        if unit < hidden:

            def load(array: Any, *place: Any) -> Any:
                return nv.f32(0.0) if array is None else nv.f32(array[place])

            at = row, unit
            d = [load(dy, *at) + load(product, *at) + load(dh, *at), load(dc, *at)][: cell.states]
            kept = [load(saved, kind, *at) for kind in range(cell.saved)]
            of_x, of_h, d = cell.backward(kept, load(before, *at), load(after, *at), d)
            for kind in range(kinds):
                dx_gates[kind, row, unit] = of_x[kind]
                dh_gates[kind, row, unit] = of_h[kind]
            dh_before[row, unit] = d[0]
            if dc_before is not None:
                dc_before[row, unit] = d[1]

    kernel()


@nv.jit
def add(
    a: Rows,
    b: Rows | None,
    out: Rows,
) -> None:
    """``out = a + b``, [rows, columns]; None: zeros."""
    rows, cols = a.shape

    @nv.kernel(grid=(nv.cdiv(cols, _THREADS), rows), block=_THREADS)
    def kernel() -> None:
        col, row = nv.block_id.x * _THREADS + nv.thread_id.x, nv.block_id.y
        if col < cols:
            out[row, col] = nv.f32(a[row, col]) + (0.0 if b is None else nv.f32(b[row, col]))

    kernel()


@nv.jit
def packed_copy(x: States, out: States) -> None:
    """``out = x``, of any strides."""
    steps, batch, cols = x.shape

    @nv.kernel(grid=(nv.cdiv(cols, _THREADS), batch), block=_THREADS)
    def kernel() -> None:
        col, row = nv.block_id.x * _THREADS + nv.thread_id.x, nv.block_id.y
        if col < cols:
            for step in nv.range(steps, unroll=False):
                out[step, row, col] = x[step, row, col]

    kernel()


@nv.jit
def column_sums(x: Rows, out: nv.Array, also: nv.Array | None, *, parts: int = 64) -> None:
    """``out``, and ``also``: the sum of all rows of ``x``, in f32, always in the same order."""
    rows, cols = x.shape
    sums = nv.empty((parts, cols), nv.f32)

    @nv.kernel(grid=(nv.cdiv(cols, _THREADS), parts), block=_THREADS)
    def of_parts() -> None:
        col, part = nv.block_id.x * _THREADS + nv.thread_id.x, nv.block_id.y
        if col < cols:
            total = nv.f32(0.0)
            for row in nv.range(part, rows, parts, unroll=4):
                total += nv.f32(x[row, col])
            sums[part, col] = total

    @nv.kernel(grid=nv.cdiv(cols, _THREADS), block=_THREADS)
    def of_all() -> None:
        col = nv.block_id.x * _THREADS + nv.thread_id.x
        if col < cols:
            total = nv.f32(0.0)
            for part in nv.range(parts, unroll=4):
                total += sums[part, col]
            out[col] = total
            if also is not None:
                also[col] = total

    of_parts()
    of_all()
