"""cp.async: copies of 4, 8 or 16 bytes from global to shared memory that a thread starts and does not wait for.

PTX ISA, "Data Movement and Conversion Instructions: Non-bulk copy": ``cp.async``, ``cp.async.commit_group``,
``cp.async.wait_group``, ``cp.async.mbarrier.arrive``. They belong to the generic proxy: to the thread that waited, the
bytes are as if it had stored them, so that others see them after a barrier, and wgmma and TMA after a proxy fence, too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from nvdsl.errors import trace_error
from nvdsl.hopper import arch
from nvdsl.mlir import ir
from nvdsl.mlir.dialects import nvgpu, nvvm
from nvdsl.ops.mbarrier import Mbarrier
from nvdsl.ops.pointer import index
from nvdsl.values.python_numbers import plain
from nvdsl.values.typing import Index, Int

if TYPE_CHECKING:
    from nvdsl.lang.array import Array


def cp_async(
    target: Array, target_key: Index, source: Array, key: Index, count: int, *, valid: Int | None = None
) -> None:
    """Start to copy ``count`` contiguous elements (``cp.async``; ``nvgpu.device_async_copy``).

    ``target``: an array in shared memory; ``source``: one in global memory, of the same type. Both addresses are
    multiples of the copy's 4, 8 or 16 bytes. ``valid``: so many elements are read, 0 to ``count``, and the others are
    zeros; a copy with ``valid`` 0 reads nothing, whatever ``key`` is. 16 bytes are kept out of L1 (``.cg``).

    Nothing may touch the target until the thread has waited: `cp_async_commit`, then `cp_async_wait`, then a barrier
    for others. Raises TraceError for other sizes, types and memories.
    """
    for array in (target, source):
        if not isinstance(array, ir.Value):
            raise trace_error(
                f"cp.async with {array!r}",
                rule="both sides are arrays; a tile is none: a swizzle lies between its indices and its addresses",
                fix="nv.copy(source, tile, asynchronous=True); or tile.elements((row, col), count), an array of them",
            )
    size = count * target.dtype.bytes
    shared = [_is_shared(array) for array in (target, source)]
    if shared != [True, False] or target.dtype is not source.dtype:
        raise trace_error(
            f"cp.async from {_shown(source)} to {_shown(target)}",
            rule="it copies from global to shared memory, as it is (PTX ISA, cp.async)",
            fix="load, convert and store the elements: nv.copy(source, target)",
        )
    for array in (target, source):
        step = array.strides[-1]
        if not isinstance(step, int) or step != 1:
            raise trace_error(
                f"cp.async with {_shown(array)}, whose last axis has {'a' if isinstance(step, int) else 'an unknown'} "
                f"stride{f' of {step}' if isinstance(step, int) else ''}",
                rule="elements along the last axis lie side by side on both sides (nvgpu.device_async_copy)",
                fix="load and store the elements: nv.copy(source, target) without asynchronous",
            )
    if size not in arch.CP_ASYNC_BYTES:
        raise trace_error(
            f"cp.async of {count} x {target.dtype.name} ({size} bytes)",
            rule="it copies 4, 8 or 16 contiguous bytes (PTX ISA, cp.async)",
            fix="take more elements at a time, or load and store them",
        )
    nvgpu.DeviceAsyncCopyOp(
        target,
        [index(k) for k in _keys(target_key)],
        source,
        [index(k) for k in _keys(key)],
        count,
        srcElements=None if valid is None else index(valid),
        bypassL1=True if size == 16 else None,
        results=[ir.Type.parse("!nvgpu.device.async.token")],
    )


def cp_async_commit() -> None:
    """Close the thread's current group of copies (``cp.async.commit_group``)."""
    nvvm.cp_async_commit_group()


def cp_async_wait(pending: int = 0) -> None:
    """Wait until at most ``pending`` of the thread's newest groups are in flight (``cp.async.wait_group``).

    Each thread waits for its own copies alone: a barrier tells the others. Raises TraceError for a traced number.
    """
    pending = plain(pending)
    if not isinstance(pending, int) or pending < 0:
        raise trace_error(
            f"cp_async_wait({pending if isinstance(pending, int) else '...'})",
            rule="the number of groups is part of the instruction: an int of at least 0 (PTX ISA, cp.async.wait_group)",
            fix="cp_async_wait(stages - 2), or 0 for all",
        )
    nvvm.cp_async_wait_group(pending)


def cp_async_arrive(barrier: Mbarrier) -> None:
    """Arrive at ``barrier`` once all copies that this thread has started are done
    (``cp.async.mbarrier.arrive.noinc``). It counts as one of the barrier's arrivals, and the thread goes on at once.

    Who waits for the phase sees the copies of all threads that arrived so. They need no groups.
    """
    nvvm.cp_async_mbarrier_arrive(barrier.pointer, noinc=True)


def _keys(key: Index) -> tuple[Int, ...]:
    return key if isinstance(key, tuple) else (key,)


def _is_shared(array: Array) -> bool:
    return "workgroup" in str(ir.MemRefType(array.type).memory_space)


def _shown(array: Array) -> str:
    return f"{array!r} in {'shared' if _is_shared(array) else 'global'} memory"
