"""Saying what comes first, where neither the program's order nor its data say it to the compiler.

ptxas orders instructions anew. It keeps an instruction behind what makes its operands, and stores and loads in order;
but a `wgmma_wait` has no operands, and may move up in front of arithmetic that stands before it. The arithmetic then no
longer overlaps with the wgmmas in flight.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from nvdsl.errors import trace_error
from nvdsl.mlir import ir
from nvdsl.mlir.dialects import llvm
from nvdsl.ops import ptx
from nvdsl.values import dtypes, scope
from nvdsl.values.elementwise import Elementwise
from nvdsl.values.traced import Value, as_value, bitcast
from nvdsl.values.typing import Int, Number

_UNLIKELY = 0x5F3A96C1
"""What the values' bits are compared with. If they are equal, an event is counted that nobody looks at."""

_ODD = 0x01000193
"""What the bits joined so far are multiplied by before the next ones are added. An exclusive or of a value with itself,
or with its negative, would be a constant."""


def sched_barrier(*values: Number | Elementwise) -> None:
    """What ``values`` are computed from is computed before the waits and barriers that follow in the program.

    ``values``: numbers of this thread, fragments, or vectors of their rows. Name what depends on all the work: the sum
    of the exponentials and not each of them, since each register costs an instruction. Beside these it costs two: a
    comparison of the values' bits with a constant, and a performance monitor event (``pmevent``) that is predicated on
    its result. ptxas does not know that it never holds, and moves no `wgmma_wait` over it::

        total = weights.sum(axis=1, partial=True)
        nv.sched_barrier(total)                    # the exponentials, then
        nv.wgmma_wait(0)                           # the wait for the products that they overlap with

    Without it ptxas 13.5 moves the wait in front of all of an attention kernel's exponentials. A wait for an mbarrier,
    or a branch on the values, between the work and the wait has the same effect; `sync_warp` and an empty inline
    assembly have none. For the simulator it does nothing. Raises TraceError where there is no value.
    """
    scope.current("nv.sched_barrier")
    bits = [_bits(x) for value in values for x in _numbers(value)]
    if not bits:
        raise trace_error(
            "nv.sched_barrier without a value",
            rule="it keeps the computation of values in front of what follows",
            fix="nv.sched_barrier(total), of what depends on all that is to be done before",
        )
    text = f"{{ .reg .pred p; setp.eq.b32 p, $0, {_UNLIKELY}; @p pmevent 0; }}"
    op = llvm.InlineAsmOp(
        None,
        [_joined(bits)],
        text,
        "r",
        has_side_effects=True,
        asm_dialect=ir.IntegerAttr.get(ir.IntegerType.get_signless(64), 0),
    )
    op.operation.attributes["nvdsl.ptx"] = ir.StringAttr.get(ptx.ORDER)


def _numbers(value: Number | Elementwise) -> list[Value]:
    return value.of_this_thread() if isinstance(value, Elementwise) else [as_value(value)]


def _bits(x: Value) -> Value:
    """32 bits that depend on all of ``x``'s."""
    if x.shape:
        return _joined([_bits(part) for part in x])
    t = x.dtype
    if t.is_float:
        same = {64: dtypes.u64, 32: dtypes.i32, 16: dtypes.u16, 8: dtypes.u8}[t.bits]
        x = bitcast(x, same)
        t = same
    if t.bits == 64:
        return _joined([dtypes.i32(dtypes.u64(x)), dtypes.i32(dtypes.u64(x) >> 32)])
    return dtypes.i32(x)


def _joined(bits: Sequence[Value]) -> Value:
    """32 bits that depend on each of these."""
    return functools.reduce(lambda joined, other: joined * _ODD + other, bits)


def recomputed(value: Int) -> Value:
    """The same i32, from which the compiler computes anew, here, what depends on it.

    What depends on a number from outside of a loop alone is computed once before it, and kept in registers while it
    runs: the descriptors of the wgmmas on a warpgroup's own part of a tile, say, two registers for each 16 columns. It
    emits no instruction::

        own = tile.rows(recomputed(me) * 64, 64)   # in a loop whose accumulators take all registers
    """
    scope.current("recomputed")
    return dtypes.i32(ptx.unpack(ptx.touch(ptx.pack([dtypes.i32(value)])))[0])


@contextmanager
def recomputing() -> Iterator[None]:
    """In it, what depends on the thread's number is computed anew, as `recomputed` says: addresses of fragments, say,
    which a loop with many registers would else keep for what follows it."""
    kernel = scope.current("recomputing")
    before, kernel.recomputing = kernel.recomputing, True
    try:
        yield
    finally:
        kernel.recomputing = before
