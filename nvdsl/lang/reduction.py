"""Reductions of a fragment along an axis: in each thread's registers, then between the threads that share the rest.

The elements of a row of an accumulator lie in the four lanes of a quad: two shuffles. Those of a column lie in eight
lanes of each of the four warps: three shuffles, and for the warps shared memory and a named barrier.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from nvdsl.errors import trace_error
from nvdsl.lang.axis import Axis, in_a_warp
from nvdsl.lang.distributed import Grid
from nvdsl.mlir import ir
from nvdsl.mlir.dialects import scf
from nvdsl.ops.warp import WARP_SIZE, lane_id, named_barrier_sync, shuffle_xor, warpgroup_thread
from nvdsl.values import dtypes, select
from nvdsl.values.dtypes import DType
from nvdsl.values.traced import Value, bitcast

if TYPE_CHECKING:
    from nvdsl.lang.array import Array
    from nvdsl.values.typing import Int

OPERATIONS: dict[str, Callable[[Any, Any], Any]] = {
    "sum": lambda a, b: a + b,
    "max": lambda a, b: select.max(a, b),
    "min": lambda a, b: select.min(a, b),
    "any": lambda a, b: a | b,
    "all": lambda a, b: a & b,
}
_CHAINS = 2
"""So many chains of operations run side by side in a thread: one would wait for itself."""


def computed_in(op: str, dtype: DType) -> DType:
    """The type in which a reduction is done: 32 bits where the elements have fewer, so that a sum is rounded once."""
    if dtype.bits >= 32 or dtype is dtypes.bool_ and op != "sum":
        return dtype
    return dtypes.f32 if dtype.is_float else dtypes.u32 if dtype.is_unsigned else dtypes.i32


def given_in(op: str, dtype: DType) -> DType:
    """The type of the result: that of the elements, and i32 for how many bools are true."""
    return dtypes.i32 if dtype is dtypes.bool_ and op == "sum" else dtype


def check(op: str, axis: Any, dtype: DType, shape: tuple[int, int]) -> None:
    """Raise TraceError for an axis, or for elements, that ``op`` does not take."""
    if axis not in (0, 1):
        raise trace_error(
            f"{op}(axis={axis!r}) of a fragment",
            rule="a fragment is reduced along its columns (axis=1, a value for each row) or its rows (axis=0, one for "
            "each column)",
            fix=f"x.{op}(axis=1)",
        )
    is_bool = dtype is dtypes.bool_
    if (op in ("any", "all")) != is_bool and not (is_bool and op == "sum") or not dtype.arithmetic:
        raise trace_error(
            f"{op} of a fragment of {dtype.name}",
            rule="any and all take bools, max and min numbers, sum both; types without arithmetic are converted first",
            fix="compare it first: (x > 0).any(axis=1)" if op in ("any", "all") else "x.to(nv.f32) first",
        )


def in_thread(op: str, grid: Grid, axis: int, dtype: DType) -> list[Value]:
    """What each thread makes of its own elements along ``axis``."""
    lines: Sequence[Sequence[Value]] = grid if axis == 1 else list(zip(*grid, strict=True))
    t = computed_in(op, dtype)
    return [_chains(OPERATIONS[op], [x if x.dtype is t else t(x) for x in line]) for line in lines]


def _chains(function: Callable[[Any, Any], Any], line: Sequence[Value]) -> Value:
    heads = list(line[:_CHAINS])
    for i, x in enumerate(line[_CHAINS:]):
        heads[i % _CHAINS] = function(heads[i % _CHAINS], x)
    result = heads[0]
    for x in heads[1:]:
        result = function(result, x)
    return result


def over_lanes(op: str, x: Value, bits: Sequence[int]) -> Value:
    """``x`` of all lanes of the warp that differ in these bits of their number."""
    for bit in bits:
        x = OPERATIONS[op](x, _from(x, bit))
    return x


def _from(x: Value, bit: int) -> Value:
    """``x`` of the lane whose number differs in ``bit``, for any number."""
    t = x.dtype
    if t.bits == 32:
        return shuffle_xor(x, bit)
    if t.bits == 64:
        bits = dtypes.u64(x) if t is dtypes.index else bitcast(x, dtypes.u64)
        low, high = (dtypes.u64(shuffle_xor(dtypes.u32(part), bit)) for part in (bits, bits >> 32))
        whole = low | high << 32
        return dtypes.index(whole) if t is dtypes.index else bitcast(whole, t)
    return t(shuffle_xor(dtypes.i32(x), bit))  # a bool; shorter numbers have become 32 bits


def over_warps(
    op: str, values: Sequence[Value], axis: Axis, bits: Sequence[int], scratch: Array | None, barrier: Int
) -> list[Value]:
    """``values`` of the warps that hold the same columns, through shared memory; each warp's lanes agree already."""
    t = values[0].dtype
    stored = dtypes.i32 if t is dtypes.bool_ else t
    warps = 1 << len(bits)
    needed = warps * axis.extent
    if scratch is None or scratch.ndim != 1 or scratch.dtype is not stored or scratch.shape[0] < needed:
        raise trace_error(
            f"{op}(axis=0) with {'no scratch memory' if scratch is None else f'scratch memory {scratch!r}'}",
            rule=f"the rows of a column lie in {warps} warps, which meet in shared memory: {stored.name}, an element "
            "for each warp and column",
            fix=f"scratch=nv.smem({needed}, nv.{stored.name}), and barrier= a named barrier of this warpgroup",
        )
    number = warpgroup_thread() // WARP_SIZE
    first = axis.first()
    named_barrier_sync(barrier, axis.threads)  # what was there before has been read
    writes = scf.IfOp((lane_id() & sum(bit for bit in axis.sharing() if bit < WARP_SIZE)) == 0)
    with ir.InsertionPoint(writes.then_block):
        for offset, x in zip(axis.offsets, values, strict=True):
            scratch[number * axis.extent + first + offset] = stored(x)
        scf.yield_([])
    named_barrier_sync(barrier, axis.threads)
    results = []
    for offset in axis.offsets:
        found = [scratch[warp * axis.extent + first + offset] for warp in range(warps)]
        results.append(_chains(OPERATIONS[op], [t(x) for x in found]))
    return results


def along(
    op: str, grid: Grid, axis: int, dtype: DType, kept: Axis, partial: bool, scratch: Array | None, barrier: Int
) -> list[Value]:
    """The values of a reduction along ``axis``, one for each of this thread's places on the axis that is ``kept``."""
    values = in_thread(op, grid, axis, dtype)
    if partial:
        return values
    bits = kept.sharing()
    lanes = [bit for bit in bits if in_a_warp([bit])]
    values = [over_lanes(op, x, lanes) for x in values]
    beyond = [bit for bit in bits if bit not in lanes]
    return over_warps(op, values, kept, beyond, scratch, barrier) if beyond else values
