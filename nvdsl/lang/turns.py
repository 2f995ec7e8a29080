"""Warpgroups that take turns, in a fixed order: 0, 1, ..., and then 0 again."""

from __future__ import annotations

from nvdsl.errors import trace_error
from nvdsl.hopper import arch
from nvdsl.ops.pointer import under
from nvdsl.ops.warp import WARP_GROUP_SIZE, named_barrier_arrive, named_barrier_sync
from nvdsl.values import dtypes
from nvdsl.values.select import select
from nvdsl.values.typing import Bool, Int


class Turns:
    """``count`` warpgroups, at least 2, of which one at a time has its turn. All threads of the block make it.

    In ping-pong each of two consumers multiplies its own tile, and while one multiplies the other computes with what it
    has; so that the tensor cores go from one's products to the other's, each issues its own in its turn.

        turns = nv.Turns(2)

        each consumer, whose number is ``me``
        turns.begin(me)
        for k in nv.range(n):
            turns.wait(me)
            ...                     # issue the products
            turns.pass_on(me)
            ...                     # what may overlap with the others' products
        turns.end(me)

    All take equally many turns; else leave `end` out, and pass ``predicate`` to `pass_on`: whether there is a next one.
    ``threads``: of a member, where they are no warpgroups. ``barrier``: it takes the named barriers from this one on,
    one for each member (PTX ISA, ``barrier``, has 16; 0 is `sync_threads`). Raises TraceError if there are not so many.
    """

    def __init__(self, count: int, *, threads: int = WARP_GROUP_SIZE, barrier: int = 1) -> None:
        if not isinstance(count, int) or not 2 <= count <= arch.NAMED_BARRIERS - max(barrier, 1) or barrier < 1:
            raise trace_error(
                f"turns among {count!r}, with named barriers from {barrier} on",
                rule=f"each of at least 2 takes one of the named barriers 1 to {arch.NAMED_BARRIERS - 1}",
                fix="nv.Turns(2): barriers 1 and 2",
            )
        self.count, self.threads, self.barrier = count, threads, barrier

    def begin(self, me: Int) -> None:
        """Give the first turn to 0. By all, once, before the first turn."""
        with under(dtypes.i32(me) == self.count - 1):
            self.pass_on(me)

    def wait(self, me: Int) -> None:
        """Wait for one's turn: until the one before has passed it on."""
        named_barrier_sync(self.barrier + me, 2 * self.threads)

    def pass_on(self, me: Int, predicate: Bool | None = None) -> None:
        """It is the next one's turn (if ``predicate`` holds, which is the same for a whole warp)."""
        me = dtypes.i32(me)
        following = 1 - me if self.count == 2 else select(me == self.count - 1, 0, me + 1)
        with under(predicate):
            named_barrier_arrive(self.barrier + following, 2 * self.threads)

    def end(self, me: Int) -> None:
        """Take back the turn that nobody takes any more. By all, once, after the last turn."""
        with under(dtypes.i32(me) == 0):
            self.wait(me)
