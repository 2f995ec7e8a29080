"""nvvm, synchronization: mbarriers, barriers, clusters, registers, fences. See also its other files."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from nvdsl.hopper import arch
from nvdsl.ir.location import where
from nvdsl.ir.operands import flag, has, integer, optional, word
from nvdsl.sim import atomics, meetings, memory, operands, phases
from nvdsl.sim.clocks import Known
from nvdsl.sim.decode import Blocking, Decoder, Frame, op, unknown
from nvdsl.sim.dialects.gpu import block_barrier
from nvdsl.sim.dialects.nvgpu import predicated
from nvdsl.sim.machine import Waiting
from nvdsl.sim.report import error
from nvdsl.sim.tracking import BEFORE
from nvdsl.sim.uniform import one_value

# --- mbarriers


@op("nvvm.mbarrier.init")
def _init(d: Decoder, op: Any) -> Any:
    address, count, predicate = d.named(op, "addr", "count", "predicate")
    at, names = where(op), d.names
    return predicated(predicate, lambda v: phases.init(v[0], v[address], v[count], names, at))


@op("nvvm.mbarrier.inval")
def _inval(d: Decoder, op: Any) -> Any:
    (address,) = d.operands(op)
    at = where(op)
    return lambda v: phases.inval(v[0], v[address], at)


@op("nvvm.mbarrier.expect_tx")
def _expect_tx(d: Decoder, op: Any) -> Any:
    address, size = d.named(op, "addr", "txcount")
    at = where(op)
    return lambda v: phases.expect(v[0], v[address], v[size], at)


@op("nvvm.mbarrier.arrive", "nvvm.mbarrier.arrive.nocomplete")
def _arrive(d: Decoder, op: Any) -> Any:
    address, count = d.named(op, "addr", "count")
    at = where(op)
    for result in op.results:
        d.define(result, 0)
    relaxed = flag(op, "relaxed")
    return lambda v: phases.arrive(v[0], v[address], None, None if count is None else v[count], at, relaxed)


@op("nvvm.mbarrier.arrive.expect_tx")
def _arrive_expect_tx(d: Decoder, op: Any) -> Any:
    address, size, predicate = d.named(op, "addr", "txcount", "predicate")
    at, relaxed = where(op), flag(op, "relaxed")
    for result in op.results:
        d.define(result, 0)
    return predicated(predicate, lambda v: phases.arrive(v[0], v[address], v[size], None, at, relaxed))


@op("nvvm.mbarrier.try_wait.parity")
def _try_wait_parity(d: Decoder, op: Any) -> Any:
    address, parity = d.named(op, "addr", "phase")
    at = where(op)
    return Blocking(lambda v: phases.wait(v[0], v[address], v[parity], at))


@op("nvvm.mbarrier.test.wait", "nvvm.mbarrier.try_wait")
def _test_wait(d: Decoder, op: Any) -> Any:
    address, parity = d.named(op, "addr", "stateOrPhase")
    r, at = d.result(op), where(op)

    def step(v: Frame) -> None:
        v[r] = phases.test(v[0], v[address], v[parity], at)

    return step


# --- barriers


@op("nvvm.barrier")
def _barrier(d: Decoder, op: Any) -> Any:
    number, threads = d.named(op, "barrierId", "numberOfThreads")
    if op.results or optional(op, "reductionPredicate") is not None:
        raise unknown(op, "a reduction")
    at, call = where(op), meetings.call(op)

    def run(v: Frame) -> Iterator[Any]:
        w = v[0]
        which = 0 if number is None else one_value(v[number], w, at, "the barrier's number")
        count = None if threads is None else one_value(v[threads], w, at, "the barrier's thread count")
        yield from block_barrier(w, which, count, at, call)

    return Blocking(run)


@op("nvvm.barrier0")
def _barrier0(d: Decoder, op: Any) -> Any:
    at, call = where(op), meetings.call(op)
    return Blocking(lambda v: block_barrier(v[0], 0, None, at, call))


@op("nvvm.barrier.arrive")
def _barrier_arrive(d: Decoder, op: Any) -> Any:
    number, threads = d.named(op, "barrierId", "numberOfThreads")
    at = where(op)

    def step(v: Frame) -> None:
        w = v[0]
        which = 0 if number is None else one_value(v[number], w, at, "the barrier's number")
        count = one_value(v[threads], w, at, "the thread count")
        if w.machine.checks:
            operands.check_barrier(w, which, count, at)
        barrier = w.block.named_barrier(which)
        mine = barrier.arrive(w, count, at)
        if w.record is not None:
            w.record.did(f"arrive at {barrier.name}", at)
            w.record.meet(barrier, mine)

    return step


@op("nvvm.cluster.arrive", "nvvm.cluster.arrive.relaxed")
def _cluster_arrive(d: Decoder, op: Any) -> Any:
    relaxed, at, call = op.name.endswith("relaxed"), where(op), meetings.call(op)

    def step(v: Frame) -> None:
        w = v[0]
        barrier = w.block.cluster.barrier
        if w.record is not None:
            w.record.meet(barrier, barrier.phase)
        barrier.arrive(w, relaxed, at, call)

    return step


@op("nvvm.cluster.wait")
def _cluster_wait(d: Decoder, op: Any) -> Any:
    at = where(op)

    def run(v: Frame) -> Iterator[Any]:
        w = v[0]
        barrier = w.block.cluster.barrier
        mine, w.cluster_phase = w.cluster_phase, None
        if mine is None:
            raise error("cluster-barrier", f"{w.name} waits at the cluster's barrier without having arrived", at,
                        "arrive comes before wait (PTX ISA, barrier.cluster)", "nv.cluster_sync()")  # fmt: skip
        if barrier.phase == mine:
            yield Waiting(
                lambda: barrier.phase != mine,
                lambda: f"the cluster's barrier (arrived {barrier.arrived} of {barrier.warps} warps)",
                at,
                lambda: f"{barrier.warps - barrier.arrived} warps of the cluster never arrive at its barrier",
            )
        if w.record is not None:
            w.record.met(barrier, "the cluster's barrier", mine, at)
        w.acquire(barrier.done)
        w.inits.update(barrier.inits)

    return Blocking(run)


@op("nvvm.setmaxregister")
def _setmaxregister(d: Decoder, op: Any) -> Any:
    count = integer(op, "regCount")
    at, raises = where(op), word(op, "action") == "increase"

    def run(v: Frame) -> Iterator[Any]:
        w = v[0]
        pool = w.block.pool
        pool.execute(w, count, at)
        need = arch.WARP_SIZE * (count - w.registers)
        blocked = raises and need > pool.free
        if blocked:
            yield Waiting(
                lambda: need <= pool.free,
                lambda: f"{need} registers of the block's pool, in which {pool.free} are free (setmaxnreg {count})",
                at,
                lambda: f"setmaxnreg asks for more registers than the block's {arch.REGISTERS_PER_SM:,} hold",
            )
        pool.free -= need
        w.registers = count
        if w.record is not None:
            w.record.registers(pool, count, at, blocked)

    return Blocking(run)


# --- fences


@op("nvvm.prefetch")
def _nothing(d: Decoder, op: Any) -> None:
    return None


@op("nvvm.fence.mbarrier.init")
def _fence_init(d: Decoder, op: Any) -> Any:
    """With it, a relaxed arrival at the cluster's barrier tells of the inits before it; others tell of them anyway."""

    def step(v: Frame) -> None:
        v[0].init_fence = v[0].epoch
        v[0].epoch += 1

    return step


@op("nvvm.memory.barrier", "nvvm.fence.sc.cluster", "llvm.fence")
def _fence(d: Decoder, op: Any) -> Any:
    scope, at = atomics.fence_scope(op), where(op)
    return lambda v: atomics.fence(v[0], scope, at)


@op("nvvm.griddepcontrol")
def _griddepcontrol(d: Decoder, op: Any) -> Any:
    """Launches run one after the other: what is left to model is that their order is known only after the wait."""
    if word(op, "kind") != "wait":
        return None

    def step(v: Frame) -> None:
        w, one = v[0], Known(np.ones(1, np.int64))
        for _ in w.apart():
            w.alone().learn(BEFORE, one, one)
        w.machine.waited = True

    return step


@op("nvvm.nanosleep")
def _nanosleep(d: Decoder, op: Any) -> Any:
    (duration,) = d.operands(op)
    at = where(op)

    def run(v: Frame) -> Iterator[Any]:
        if v[0].machine.checks:
            operands.check_nanosleep(v[0], v[duration], at)
        yield Waiting(lambda: False, "the end of a nanosleep", at, spins=True)

    return Blocking(run)


@op("nvvm.fence.proxy")
def _fence_proxy(d: Decoder, op: Any) -> Any:
    kind, at = word(op, "kind"), where(op)
    if "async" not in kind:
        return None
    beyond = kind in ("async", "async.global")
    own = has(op, "space") and "cluster" not in word(op, "space")

    def step(v: Frame) -> None:
        block = v[0].block
        every = range(0 if kind == "async.global" else len(block.cluster.blocks))
        v[0].fence_proxy(range(block.rank, block.rank + 1) if own else every, beyond, at)

    return step


@op("nvvm.mapa")
def _mapa(d: Decoder, op: Any) -> Any:
    address, rank = d.operands(op)
    r, at = d.result(op), where(op)
    low = (1 << memory.CLUSTER_SHIFT) - 1

    def step(v: Frame) -> None:
        operands.check_rank(v[0], v[rank], at)
        v[r] = (v[address] & low) + ((v[rank] + 1) * (1 << memory.CLUSTER_SHIFT))

    return step
