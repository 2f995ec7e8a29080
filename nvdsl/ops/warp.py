"""Threads, warps and warpgroups: ids, elect, setmaxnreg, barriers, shuffles, votes.

PTX ISA, "Special Registers", ``elect.sync``, ``setmaxnreg``, ``bar``/``barrier``, ``shfl.sync``,
``vote.sync``, ``redux.sync``, ``nanosleep``. All ids are i32 values.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn

from nvdsl.errors import TraceError, trace_error
from nvdsl.hopper import arch
from nvdsl.mlir import ir
from nvdsl.mlir.dialects import gpu, nvvm
from nvdsl.ops import ptx
from nvdsl.ops.order import recomputed
from nvdsl.ops.pointer import condition as as_condition
from nvdsl.ops.pointer import i32
from nvdsl.values import dtypes, scope
from nvdsl.values.elementwise import Elementwise
from nvdsl.values.python_numbers import plain
from nvdsl.values.traced import Value, as_value, wrap
from nvdsl.values.typing import Bool, Int, Number

WARP_SIZE = arch.WARP_SIZE
ALL_LANES = (1 << WARP_SIZE) - 1
WARP_GROUP_SIZE = arch.WARPGROUP_SIZE
"""Threads of a warpgroup: four warps, the first at a multiple of four (PTX ISA, "wgmma")."""


class Dim3:
    """Three ids, ``.x``, ``.y`` and ``.z``, each an i32 value that is read where it is written."""

    __nv_number__ = "nv.thread_id.x is one"

    def __init__(self, op: type, doc: str) -> None:
        self._op, self._what, self.__doc__ = op, doc.partition(" (")[0], doc

    def __repr__(self) -> str:
        return f"a triple, of which .x, .y and .z are numbers ({self._what})"

    def _read(self, axis: str) -> Value:
        kernel = scope.current("a thread or block id")
        found = i32(self._op(getattr(gpu.Dimension, axis)).result)
        return recomputed(found) if kernel.recomputing and self._op is gpu.ThreadIdOp else found

    @property
    def x(self) -> Value:
        return self._read("x")

    @property
    def y(self) -> Value:
        return self._read("y")

    @property
    def z(self) -> Value:
        return self._read("z")

    if not TYPE_CHECKING:  # a type checker says that there is none
        __hash__ = object.__hash__

        def __eq__(self, other: object) -> bool:
            if isinstance(other, Dim3):
                return self is other
            raise self._is_no_number(f"== {other!r}")

        def __bool__(self) -> NoReturn:
            raise self._is_no_number("as a condition")

        def _is_no_number(self, use: str) -> TraceError:
            return trace_error(
                f"a thread or block id {use}",
                rule="ids have axes with names, and a number for each",
                fix="nv.thread_id.x, .y or .z; a thread's number in its block is nv.linear_thread_id()",
            )

        def __getitem__(self, key: object) -> NoReturn:
            raise trace_error(
                f"index {key!r} of a thread or block id",
                rule="ids have axes with names",
                fix="nv.thread_id.x, .y and .z; a thread's number in its block is nv.linear_thread_id()",
            )


thread_id = Dim3(gpu.ThreadIdOp, "Index of this thread in its block (``%tid``).")
block_id = Dim3(gpu.BlockIdOp, "Index of this block in the grid (``%ctaid``).")
block_dim = Dim3(gpu.BlockDimOp, "Threads of a block (``%ntid``).")
grid_dim = Dim3(gpu.GridDimOp, "Blocks of the grid (``%nctaid``).")


def linear_thread_id() -> Value:
    """Index of this thread in its block, counted x first; i32."""
    x, y, z = scope.current("linear_thread_id").block
    tid = thread_id.x
    if y > 1 or z > 1:
        tid = tid + thread_id.y * x
    if z > 1:
        tid = tid + thread_id.z * (x * y)
    return tid


def lane_id() -> Value:
    """Index of this thread in its warp, 0..31; i32."""
    return linear_thread_id() % WARP_SIZE


def warp_id() -> Value:
    """Index of this warp in its block; i32, the same register in all lanes.

    A shuffle tells the compiler that the value is uniform, so that branches on it and addresses made from it live in
    uniform registers. It is made once, where the kernel starts and all lanes are there, so that any of them may ask.
    """
    return _at_start("warp_id", WARP_SIZE)


def warpgroup_id() -> Value:
    """The index of this warpgroup (128 threads) in its block, i32. It is uniform in the warp (see `warp_id`)."""
    return _at_start("warpgroup_id", WARP_GROUP_SIZE)


def _at_start(name: str, size: int) -> Value:
    """``linear_thread_id() // size`` of the warp's first lane, found at the kernel's start."""
    kernel = scope.current(name)
    if name not in kernel.at_start:
        block = ir.InsertionPoint.current.block
        while block.owner.name != "gpu.launch":
            block = block.owner.operation.block
        with ir.InsertionPoint.at_block_begin(block):
            kernel.at_start[name] = shuffle(linear_thread_id() // size, 0)
    return kernel.at_start[name]


def warpgroup_thread() -> Value:
    """Index of this thread in its warpgroup, 0..127; i32."""
    return linear_thread_id() % WARP_GROUP_SIZE


def elect() -> Value:
    """True in exactly one lane of a converged warp, i1 (``elect.sync``)."""
    return nvvm.elect_sync()


def setmaxnreg_inc(registers: int) -> None:
    """Raise this warpgroup's registers per thread to ``registers`` (``setmaxnreg.inc.sync.aligned``).

    Waits until other warpgroups of the block have released enough. 24..256, a multiple of 8.
    """
    _setmaxnreg(registers, nvvm.SetMaxRegisterAction.increase)


def setmaxnreg_dec(registers: int) -> None:
    """Lower this warpgroup's registers per thread to ``registers`` (``setmaxnreg.dec.sync.aligned``)."""
    _setmaxnreg(registers, nvvm.SetMaxRegisterAction.decrease)


def _setmaxnreg(registers: int, action: Any) -> None:
    registers = plain(registers)
    low, high, step = arch.SETMAXNREG_MIN, arch.SETMAXNREG_MAX, arch.SETMAXNREG_STEP
    if not isinstance(registers, int) or not low <= registers <= high or registers % step:
        raise trace_error(
            f"setmaxnreg to {registers} registers",
            rule=f"the count is a constant from {low} to {high}, a multiple of {step} (PTX ISA, setmaxnreg)",
            fix="24 or 40 for a producer warpgroup, 232 or 240 for each of two consumers",
        )
    threads = scope.current("setmaxnreg").threads
    if threads % WARP_GROUP_SIZE:
        raise trace_error(
            f"setmaxnreg in a block of {threads} threads",
            rule="all warps of a warpgroup, 128 threads, execute it together (PTX ISA, setmaxnreg)",
            fix="use a block of 128, 256, 384 ... threads",
        )
    nvvm.setmaxregister(registers, action)


def sync_threads() -> None:
    """Barrier of all threads of the block (``bar.sync 0``). Orders their shared and global accesses."""
    scope.current("sync_threads")
    gpu.barrier()


def sync_warp(mask: int = ALL_LANES) -> None:
    """Barrier of the warp's lanes in ``mask`` (``bar.warp.sync``)."""
    nvvm.bar_warp_sync(membermask(mask))


def named_barrier_sync(barrier: Int, threads: int) -> None:
    """Arrive at named barrier ``barrier`` and wait until ``threads`` threads have (``barrier.sync``).

    ``barrier`` is 1..15 (0 is `sync_threads`), an int or a traced value that is uniform in each warp;
    ``threads`` is a multiple of 32, all waiting and arriving threads together.
    """
    _check_named(barrier, threads)
    nvvm.barrier(barrier_id=i32(barrier), number_of_threads=i32(threads))


def named_barrier_any(barrier: Int, threads: int, condition: Bool) -> Value:
    """The same as `named_barrier_sync`, and whether ``condition`` holds in any of the threads (``barrier.red.or``).

    What `vote_any` is for a warp, this is for a warpgroup, in one instruction. All threads of the barrier call it: none
    may come to it by `named_barrier_sync` or `named_barrier_arrive`.
    """
    _check_named(barrier, threads)
    text = (
        "{ .reg .pred p; setp.ne.b32 p, $3, 0; barrier.cta.red.or.aligned.pred p, $1, $2, p; selp.b32 $0, 1, 0, p; }"
    )
    operands = [i32(barrier), i32(threads), as_value(dtypes.i32(condition))]
    found = ptx.emit("barrier_any", text, ["=r", "r", "r", "r"], operands, dtypes.i32.ir)
    return wrap(found, dtypes.i32) != 0


def named_barrier_arrive(barrier: Int, threads: int) -> None:
    """Arrive at named barrier ``barrier`` without waiting (``barrier.arrive``)."""
    _check_named(barrier, threads)
    nvvm.barrier_arrive(i32(threads), barrier_id=i32(barrier))


def _check_named(barrier: Int, threads: int) -> None:
    if isinstance(barrier, int) and not 0 <= barrier < arch.NAMED_BARRIERS:
        raise trace_error(
            f"named barrier {barrier}",
            rule=f"a block has named barriers 0 to {arch.NAMED_BARRIERS - 1}; 0 is sync_threads (PTX ISA, barrier)",
            fix="number the barriers from 1",
        )
    kernel = scope.current("a named barrier")
    if isinstance(barrier, int):
        kernel.named_barriers.add(barrier)
        if barrier >= min(kernel.group_barriers.values(), default=arch.NAMED_BARRIERS):
            raise trace_error(
                f"named barrier {barrier}, which a collective of a part of the block has taken",
                rule="collectives of warpgroups and other groups take named barriers from the highest number down",
                fix="number the kernel's own barriers from 1",
            )
    block = kernel.threads
    if isinstance(threads, int) and threads > block:
        raise trace_error(
            f"a named barrier of {threads} threads in a block of {block}",
            rule="the barrier waits for that many threads of the block (PTX ISA, barrier); more never come",
            fix="pass the number of threads that wait and arrive",
        )
    if isinstance(threads, int) and (threads <= 0 or threads % WARP_SIZE):
        raise trace_error(
            f"a named barrier of {threads} threads",
            rule="the thread count is a positive multiple of the warp size, 32 (PTX ISA, barrier)",
            fix="count whole warps",
        )


def shuffle(value: Number, lane: Int, mask: int = ALL_LANES) -> Value:
    """The 32-bit ``value`` of lane ``lane`` (``shfl.sync.idx``). All lanes in ``mask`` execute it."""
    return _shuffle(value, lane, nvvm.ShflKind.idx, 31, mask)


def shuffle_xor(value: Number, lane_mask: Int, mask: int = ALL_LANES) -> Value:
    """The 32-bit ``value`` of lane ``lane_id ^ lane_mask`` (``shfl.sync.bfly``)."""
    return _shuffle(value, lane_mask, nvvm.ShflKind.bfly, 31, mask)


def shuffle_up(value: Number, delta: Int, mask: int = ALL_LANES) -> Value:
    """The 32-bit ``value`` of lane ``lane_id - delta``, or its own where there is no such lane (``shfl.sync.up``)."""
    return _shuffle(value, delta, nvvm.ShflKind.up, 0, mask)


def shuffle_down(value: Number, delta: Int, mask: int = ALL_LANES) -> Value:
    """The 32-bit ``value`` of lane ``lane_id + delta``, or its own where there is no such lane (``shfl.sync.down``)."""
    return _shuffle(value, delta, nvvm.ShflKind.down, 31, mask)


def _shuffle(value: Number, offset: Int, kind: nvvm.ShflKind, clamp: int, mask: int) -> Value:
    value = as_value(value)
    if value.shape:
        raise trace_error(
            f"a shuffle of {value.shape[0]} numbers",
            rule="shfl.sync moves 32 bits (PTX ISA, shfl.sync)",
            fix="nv.vector([nv.shuffle_xor(x, 1) for x in v])",
        )
    width = value.dtype.bits
    if isinstance(offset, int) and not 0 <= offset < WARP_SIZE:
        raise trace_error(
            f"a shuffle with {offset} for a lane or a distance",
            rule="a warp has lanes 0 to 31, and shfl.sync takes the lower five bits of a lane (PTX ISA, shfl.sync)",
            fix="pass 0 to 31; `lane % 32` where that was meant",
        )
    if width != 32:
        raise trace_error(
            f"shuffle of a {value.dtype.name} value",
            rule="shfl.sync moves 32 bits (PTX ISA, shfl.sync)",
            fix="convert to nv.i32 or nv.f32 first, or nv.bitcast two 16-bit values into one",
        )
    result = nvvm.shfl_sync(membermask(mask), value, i32(offset), i32(clamp), kind)
    return wrap(result, value.dtype)


def vote_any(condition: Bool | Elementwise, mask: int = ALL_LANES) -> Value:
    """Whether ``condition`` is true in any lane of ``mask``, i1 (``vote.sync.any``).

    Of a fragment or vector of bools: whether any element is that this warp holds.
    """
    here = condition.of_thread(lambda a, b: a | b) if isinstance(condition, Elementwise) else condition
    return nvvm.vote_sync(membermask(mask), as_condition(here), nvvm.VoteSyncKind.any)


def vote_all(condition: Bool | Elementwise, mask: int = ALL_LANES) -> Value:
    """Whether ``condition`` is true in all lanes of ``mask``, i1 (``vote.sync.all``).

    Of a fragment or vector of bools: whether all elements are that this warp holds.
    """
    here = condition.of_thread(lambda a, b: a & b) if isinstance(condition, Elementwise) else condition
    return nvvm.vote_sync(membermask(mask), as_condition(here), nvvm.VoteSyncKind.all)


def ballot(condition: Bool, mask: int = ALL_LANES) -> Value:
    """An i32 whose bit ``i`` is the ``condition`` of lane ``i`` (``vote.sync.ballot``)."""
    return nvvm.vote_sync(membermask(mask), as_condition(condition), nvvm.VoteSyncKind.ballot)


def nanosleep(nanoseconds: Int) -> None:
    """Suspend the thread for about ``nanoseconds`` (``nanosleep.u32``)."""
    nvvm.nanosleep(i32(nanoseconds))


def membermask(mask: int) -> Value:
    """The lanes in ``mask`` as the operand of an instruction, i32 (PTX ISA, membermask)."""
    mask = plain(mask)
    if not 0 < mask < 1 << WARP_SIZE:
        raise trace_error(
            f"a warp's mask of {mask:#x}",
            rule="bit i of the mask stands for lane i, of 32 (PTX ISA, membermask)",
            fix="0xffffffff is the whole warp",
        )
    return i32(mask - (1 << WARP_SIZE) if mask >> (WARP_SIZE - 1) else mask)

