"""Rings of shared memory slots between a producer (TMA) and consumers (wgmma), with their barriers.

A ring of ``stages`` slots has two mbarriers a slot. *full* completes when the slot's bytes have arrived;
*empty* completes when all consumers have released the slot. Who uses a slot for the n-th time round the
ring waits for the parity ``n & 1``, so a position in the ring is a stage and a phase.
"""

from __future__ import annotations

from collections.abc import Sequence

from nvdsl.errors import trace_error
from nvdsl.ops.mbarrier import Mbarrier, Mbarriers, check_tx
from nvdsl.values import dtypes
from nvdsl.values.python_numbers import plain
from nvdsl.values.results import kept
from nvdsl.values.select import select
from nvdsl.values.traced import Value, as_value
from nvdsl.values.typing import Bool, Int


class PipelineState:
    """A position in a ring of ``stages`` slots: ``stage`` (i32) and ``phase`` (i32, 0 or 1).

    Immutable: ``state = state.next()``. A traced loop carries it.
    """

    def __init__(self, stages: int, stage: Int = 0, phase: Int = 0) -> None:
        self.stages = _checked(stages)
        self.stage = dtypes.i32(stage)
        self.phase = dtypes.i32(phase)

    @kept("state = state.next()")
    def next(self) -> PipelineState:
        """The next slot; the phase flips where the ring wraps."""
        if self.stages == 1:
            return PipelineState(1, self.stage, self.phase ^ 1)
        following = self.stage + 1
        wraps = following == self.stages
        return PipelineState(
            self.stages, select(wraps, as_value(0), following), select(wraps, self.phase ^ 1, self.phase)
        )

    @kept("state = state.advance(count)")
    def advance(self, count: Int) -> PipelineState:
        """The slot ``count`` further: what `next` gives after so many calls.

        ``count`` is 0 or more, a Python int or a traced integer. It serves a consumer that leaves slots to another one.
        Before it waits for a slot's next phase it has to know that the one it left is over (from `Turns`, say, or as it
        waits for that one, too): bytes may arrive in another order, and a parity names one of two phases only.
        """
        count = dtypes.u32(self.stage) + dtypes.u32(count)
        rounds = count // self.stages
        return PipelineState(
            self.stages, dtypes.i32(count - rounds * self.stages), self.phase ^ dtypes.i32(rounds & 1)
        )

    def __nv_values__(self) -> list[Value]:
        return [self.stage, self.phase]

    def __nv_rebuild__(self, values: Sequence[Value]) -> PipelineState:
        return PipelineState(self.stages, *values)


def _checked(stages: int) -> int:
    stages = plain(stages)
    if not isinstance(stages, int) or stages < 1:
        raise trace_error(
            f"a ring of {stages!r} stages",
            rule="the number of stages is a Python int of at least 1",
            fix="pass stages as a keyword argument of the host function",
        )
    return stages


class Ring:
    """A ring of ``stages`` slots, each with a full and an empty mbarrier.

    ``bytes`` is what the producer's loads bring into one slot. ``consumers`` is how many arrivals free a slot, or
    a number for each kind of consumer, as (8, 128) for the warps of two warpgroups and for 128 threads.
    `wgmma_wait` speaks for the wgmmas of the whole warpgroup, so one arrival of a warpgroup is enough, or one of each
    warp. What ordinary loads read, each thread releases for itself. With ``sync`` all threads of the block meet after
    the init of the barriers; in a cluster pass False and call `cluster_sync` yourself. All threads make the ring.
    ``producers``: how many arrivals fill a slot, where warps write it with stores of their own: each acquires it with
    ``expect=False``, calls `fence_proxy_async` behind its stores, and arrives.

        producer (one thread)                      consumer
        state = ring.producer_state()              state = ring.consumer_state()
        for k in nv.range(n):                      for k in nv.range(n):
            full = ring.acquire(state)                 ring.wait(state)
            tma.load(A[state.stage], full, ...)        acc += A[state.stage] @ B[state.stage]
            state = state.next()                       ...; ring.release(state); state = state.next()
    """

    def __init__(
        self, stages: int, *, bytes: int, consumers: int | Sequence[int] = 1, producers: int = 1, sync: bool = True
    ) -> None:
        stages = _checked(stages)
        check_tx(bytes)
        consumers = sum(consumers) if isinstance(consumers, Sequence) else consumers
        self.stages, self.bytes, self.consumers = stages, bytes, consumers
        self.full = Mbarriers(stages, arrivals=producers, sync=False)
        self.empty = Mbarriers(stages, arrivals=consumers, sync=sync)

    def producer_state(self) -> PipelineState:
        """The producer's start: the first slot, phase 1. A wait for the phase before the first returns at once, so the
        slots, which are empty at first, need no release."""
        return PipelineState(self.stages, 0, 1)

    def consumer_state(self) -> PipelineState:
        """The consumer's start: the first slot, phase 0."""
        return PipelineState(self.stages, 0, 0)

    def _check(self, state: PipelineState) -> None:
        if not isinstance(state, PipelineState) or state.stages != self.stages:
            raise trace_error(
                f"a position in a ring of {state.stages} slots" if isinstance(state, PipelineState) else f"{state!r}",
                rule=f"a ring of {self.stages} slots takes a position in it, a stage and a phase",
                fix="state = ring.consumer_state(), or ring.producer_state(); then state = state.next()",
            )

    def acquire(self, state: PipelineState, *, expect: bool = True, new: bool = False) -> Mbarrier:
        """Wait until the slot is free, expect its bytes, and return the barrier that the loads complete on.

        Pass ``expect=False`` for a slot that gets another number of bytes. The caller then expects them
        (`Mbarrier.expect_tx`) before the loads, and arrives. With ``new=True`` nothing was in the slot yet, and nobody
        waits.
        """
        self._check(state)
        if not new:
            self.empty[state.stage].wait(state.phase)
        full = self.full[state.stage]
        if expect:
            full.arrive_expect_tx(self.bytes)
        return full

    def wait(self, state: PipelineState) -> None:
        """Wait until the slot's bytes have arrived."""
        self._check(state)
        self.full[state.stage].wait(state.phase)

    def release(
        self, state: PipelineState, predicate: Bool | None = None, *, rank: Int | None = None, count: Int = 1
    ) -> None:
        """Arrive once at the slot's empty barrier (each thread where ``predicate`` holds does).

        ``count``: for so many consumers, where others leave the slot to this one, but have waited for it, too; the
        counts of all add up to the ring's ``consumers``.

        An arrival speaks for the thread that arrives. After `wgmma_wait` one lane may release for its whole warp. After
        ordinary loads (ldmatrix, too) the lanes must meet first: with `sync_warp`, or a barrier for several warps.

        ``rank``: arrive at the empty barrier of that block of the cluster, whose producer writes into the slot, too.
        This arrival is relaxed. It says that the slot was read, and orders no writes of this thread.
        """
        self._check(state)
        empty = self.empty[state.stage]
        if rank is None:
            empty.arrive(predicate=predicate, count=count)
        else:
            empty.arrive_cluster(rank, predicate, count=count, relaxed=True)
