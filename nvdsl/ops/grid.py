"""A barrier of all blocks of the grid, through a counter in global memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nvdsl.errors import trace_error
from nvdsl.mlir import ir
from nvdsl.mlir.dialects import scf
from nvdsl.ops import memory
from nvdsl.ops.atomics import atomic
from nvdsl.ops.pointer import GLOBAL, element_address
from nvdsl.ops.warp import block_id, grid_dim, linear_thread_id, sync_threads
from nvdsl.values import dtypes, scope
from nvdsl.values.select import select

if TYPE_CHECKING:
    from nvdsl.lang.array import Array

_HALF = 1 << 31


def grid_sync(counter: Array) -> None:
    """Wait for all threads of the grid; what they wrote before is known to all after it (the generic proxy alone: TMA
    and wgmma need `fence_proxy_async` as at any barrier).

    ``counter``: one element of 32 bits in global memory, 0 at first (`nv.zeros`). It serves any number of barriers and
    launches, one after the other. All threads of all blocks come, each time. All blocks run at the same time: the grid
    has at most as many as the GPU holds (132 SMs, times the blocks that fit one), else those that run wait for ever for
    those that don't; the simulator reports it as a deadlock. Raises TraceError for a counter that is none.

    One thread of each block adds, with a release, and looks, with acquires, until the half of the range has changed in
    which the counter is: all but one add 1, and one the rest of a half. (``atom.release.gpu``, ``ld.acquire.gpu``.)
    """
    scope.current("nv.grid_sync")
    if len(counter.shape) != 1 or counter.dtype not in (dtypes.i32, dtypes.u32) or "workgroup" in str(counter.type):
        raise trace_error(
            f"a grid's barrier that counts in {counter!r}",
            rule="the counter is the first element of a 1-D array of 32-bit integers in global memory",
            fix="counter = nv.zeros(1, nv.i32), in the host function",
        )
    others = dtypes.u32(grid_dim.x * grid_dim.y * grid_dim.z) - 1
    is_first = (block_id.x | block_id.y | block_id.z) == 0
    sync_threads()
    branch = scf.IfOp(linear_thread_id() == 0)
    with ir.InsertionPoint(branch.then_block):
        place = element_address(counter, (0,), (1,), GLOBAL)
        before = atomic("add", place, select(is_first, dtypes.u32(_HALF) - others, dtypes.u32(1)), dtypes.u32,
                        order="release")  # fmt: skip
        assert before is not None
        waiting = scf.WhileOp([], [])
        condition, body = waiting.before.blocks.append(), waiting.after.blocks.append()
        with ir.InsertionPoint(condition):
            now = dtypes.u32(memory.load_acquire(counter, 0))
            scf.condition(((now ^ before) & _HALF) == 0, [])
        with ir.InsertionPoint(body):
            scf.yield_([])
        scf.yield_([])
    sync_threads()
