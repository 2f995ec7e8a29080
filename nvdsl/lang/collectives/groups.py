"""``nv.warp``, ``nv.warpgroup``, ``nv.block`` and ``nv.cluster``: what a group of threads computes together.

docs/collectives.md has a table of them, with what each costs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, ParamSpec, TypeAlias, overload

from nvdsl.errors import trace_error
from nvdsl.hopper import arch
from nvdsl.hopper.arch import WARP_SIZE, WARPGROUP_SIZE
from nvdsl.ir.walk import find
from nvdsl.lang.array import Array
from nvdsl.lang.collectives import words
from nvdsl.lang.collectives.lanes import Lanes
from nvdsl.lang.collectives.operations import (
    ALL,
    ANY,
    MAX,
    MIN,
    SUM,
    Leaves,
    Operation,
    adding,
    extreme_and_index,
    narrowed,
    of_the_users,
    widened,
)
from nvdsl.lang.collectives.scratch import Barrier
from nvdsl.lang.collectives.warps import Warps
from nvdsl.mlir import ir
from nvdsl.ops.cluster import cluster_arrive, cluster_sync, cluster_wait
from nvdsl.ops.pointer import condition
from nvdsl.ops.warp import ALL_LANES, named_barrier_sync, sync_threads, warp_id
from nvdsl.values import scope, select
from nvdsl.values.python_numbers import plain
from nvdsl.values.traced import Value, as_value
from nvdsl.values.typing import Bool, Int, Number

P = ParamSpec("P")
Many: TypeAlias = tuple[Number, ...]
Threads: TypeAlias = Lanes | Warps


class Group(Generic[P]):
    """A group of threads, all of which call its methods together; each gets the result.

    What a thread gives is a number, a vector (element by element), or a tuple of these, which costs one pass for all.
    Threads are combined in the order of their numbers, in the same order in every run. A call that only a part of
    the threads reaches is undefined: the verifier and the simulator report it.
    """

    def __init__(self, name: str, threads: Callable[P, Threads]) -> None:
        self._name, self._threads = name, threads
        setattr(threads, "__qualname__", name)  # noqa: B010  (what Python calls it where an argument is unknown)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Group):
            return self is other
        number = {"nv.warp": "warp_id", "nv.warpgroup": "warpgroup_id", "nv.cluster": "cluster_rank"}.get(self._name)
        raise trace_error(
            f"{self._name} == {other!r}",
            rule=f"{self._name} is a group of threads that compute together, and no number",
            fix=f"nv.{number}() == ..." if number else "nv.block_id.x == ...",
        )

    __hash__ = object.__hash__

    @overload
    def sum(self, x: Many, *args: P.args, **kwargs: P.kwargs) -> tuple[Value, ...]: ...
    @overload
    def sum(self, x: Number, *args: P.args, **kwargs: P.kwargs) -> Value: ...

    def sum(self, x: Any, *args: P.args, **kwargs: P.kwargs) -> Any:
        """The sum of ``x`` over the threads. Integers wrap; f16 and bf16 are summed in f32 and rounded once; the sum of
        conditions is an i32, how many of them hold."""
        return self._reduced("sum", SUM, x, self._threads(*args, **kwargs), wide=True)

    @overload
    def max(self, x: Many, *args: P.args, **kwargs: P.kwargs) -> tuple[Value, ...]: ...
    @overload
    def max(self, x: Number, *args: P.args, **kwargs: P.kwargs) -> Value: ...

    def max(self, x: Any, *args: P.args, **kwargs: P.kwargs) -> Any:
        """The greatest ``x``. As with `nv.max`, numbers win over NaN: it is NaN where all are."""
        return self._reduced("max", MAX, x, self._threads(*args, **kwargs))

    @overload
    def min(self, x: Many, *args: P.args, **kwargs: P.kwargs) -> tuple[Value, ...]: ...
    @overload
    def min(self, x: Number, *args: P.args, **kwargs: P.kwargs) -> Value: ...

    def min(self, x: Any, *args: P.args, **kwargs: P.kwargs) -> Any:
        """The least ``x``. As with `nv.min`, numbers win over NaN: it is NaN where all are."""
        return self._reduced("min", MIN, x, self._threads(*args, **kwargs))

    def any(self, x: Bool, *args: P.args, **kwargs: P.kwargs) -> Value:
        """Whether the condition ``x`` holds in any thread."""
        return self._threads(*args, **kwargs).reduce(ANY, [condition(x)])[0]

    def all(self, x: Bool, *args: P.args, **kwargs: P.kwargs) -> Value:
        """Whether the condition ``x`` holds in all threads."""
        return self._threads(*args, **kwargs).reduce(ALL, [condition(x)])[0]

    @overload
    def argmax(self, x: tuple[Number, Int], *args: P.args, **kwargs: P.kwargs) -> tuple[Value, Value]: ...
    @overload
    def argmax(self, x: Number, *args: P.args, **kwargs: P.kwargs) -> Value: ...

    def argmax(self, x: Any, *args: P.args, **kwargs: P.kwargs) -> Any:
        """The number of the thread, counted in its group, with the greatest ``x``; the lowest of those that have it.

        Of a pair ``(x, index)`` it is the pair of the greatest ``x`` and the lowest ``index`` that came with it. NaN is
        no maximum unless all are NaN.
        """
        return self._extreme("argmax", MAX, x, self._threads(*args, **kwargs))

    @overload
    def argmin(self, x: tuple[Number, Int], *args: P.args, **kwargs: P.kwargs) -> tuple[Value, Value]: ...
    @overload
    def argmin(self, x: Number, *args: P.args, **kwargs: P.kwargs) -> Value: ...

    def argmin(self, x: Any, *args: P.args, **kwargs: P.kwargs) -> Any:
        """The number of the thread with the least ``x``, or, of pairs, the least and its index: see `argmax`."""
        return self._extreme("argmin", MIN, x, self._threads(*args, **kwargs))

    def reduce(self, x: Any, operation: Callable[[Any, Any], Any], *args: P.args, **kwargs: P.kwargs) -> Any:
        """What ``operation`` makes of the ``x`` of all threads, two at a time.

        ``operation(a, b)`` gets what earlier and what later threads have. It is associative, and need not commute.
        With tuples it takes and gives tuples. Raises TraceError if it gives other types than it was given.
        """
        what = f"{self._name}.reduce"
        leaves, build = words.leaves(x, what)
        op = of_the_users(what, operation, build, words.leaves)
        return build(self._threads(*args, **kwargs).reduce(op, leaves))

    @overload
    def inclusive_sum(self, x: Many, *args: P.args, **kwargs: P.kwargs) -> tuple[Value, ...]: ...
    @overload
    def inclusive_sum(self, x: Number, *args: P.args, **kwargs: P.kwargs) -> Value: ...

    def inclusive_sum(self, x: Any, *args: P.args, **kwargs: P.kwargs) -> Any:
        """The sum of this thread's ``x`` and those of the threads before it. Types as in `sum`."""
        leaves, build = words.leaves(x, f"{self._name}.inclusive_sum")
        found = self._threads(*args, **kwargs).scan(adding(leaves), [widened(leaf) for leaf in leaves])
        return build([narrowed(y, leaf) for y, leaf in zip(found, leaves, strict=True)])

    @overload
    def exclusive_sum(self, x: Many, *args: P.args, **kwargs: P.kwargs) -> tuple[Value, ...]: ...
    @overload
    def exclusive_sum(self, x: Number, *args: P.args, **kwargs: P.kwargs) -> Value: ...

    def exclusive_sum(self, x: Any, *args: P.args, **kwargs: P.kwargs) -> Any:
        """The sum of ``x`` of the threads before this one; 0 in the first. Types as in `sum`."""
        leaves, build = words.leaves(x, f"{self._name}.exclusive_sum")
        wide = [widened(leaf) for leaf in leaves]
        before, first = self._threads(*args, **kwargs).exclusive(adding(leaves), wide)
        found = [select.select(first, 0, y) for y in before]
        return build([narrowed(y, leaf) for y, leaf in zip(found, leaves, strict=True)])

    def inclusive_scan(self, x: Any, operation: Callable[[Any, Any], Any], *args: P.args, **kwargs: P.kwargs) -> Any:
        """What ``operation`` makes of the ``x`` of the threads up to this one. See `reduce`."""
        what = f"{self._name}.inclusive_scan"
        leaves, build = words.leaves(x, what)
        op = of_the_users(what, operation, build, words.leaves)
        return build(self._threads(*args, **kwargs).scan(op, leaves))

    def exclusive_scan(
        self, x: Any, operation: Callable[[Any, Any], Any], initial: Any, *args: P.args, **kwargs: P.kwargs
    ) -> Any:
        """What ``operation`` makes of ``initial`` and the ``x`` of the threads before this one; ``initial`` in the
        first. See `reduce`."""
        what = f"{self._name}.exclusive_scan"
        leaves, build = words.leaves(x, what)
        start = self._like(what, initial, leaves)
        op = of_the_users(what, operation, build, words.leaves)
        before, first = self._threads(*args, **kwargs).exclusive(op, leaves)
        both = op.combine(start, before)
        return build([select.select(first, a, b) for a, b in zip(start, both, strict=True)])

    @overload
    def broadcast(self, x: Many, source: Int = 0, *args: P.args, **kwargs: P.kwargs) -> tuple[Value, ...]: ...
    @overload
    def broadcast(self, x: Number, source: Int = 0, *args: P.args, **kwargs: P.kwargs) -> Value: ...

    def broadcast(self, x: Any, source: Int = 0, *args: P.args, **kwargs: P.kwargs) -> Any:
        """``x`` of the group's thread ``source``, the same number in all threads of the group."""
        leaves, build = words.leaves(x, f"{self._name}.broadcast")
        threads = self._threads(*args, **kwargs)
        if isinstance(source, int) and not 0 <= source < threads.size:
            raise trace_error(
                f"{self._name}.broadcast from thread {source} of {threads.size}",
                rule=f"the threads of this group have the numbers 0 to {threads.size - 1}",
                fix="count modulo the group's size",
            )
        return build(threads.broadcast(leaves, source))

    def _reduced(self, name: str, op: Operation, x: Any, threads: Threads, wide: bool = False) -> Any:
        leaves, build = words.leaves(x, f"{self._name}.{name}")
        given = [widened(leaf) for leaf in leaves] if wide else leaves
        found = threads.reduce(op, given)
        return build([narrowed(y, leaf) for y, leaf in zip(found, leaves, strict=True)] if wide else found)

    def _extreme(self, name: str, op: Operation, x: Any, threads: Threads) -> Any:
        what = f"{self._name}.{name}"
        pair = isinstance(x, tuple)
        leaves, build = words.leaves(x if pair else (x, threads.position()), what)
        good = len(leaves) == 2 and not leaves[0].shape and not leaves[1].shape
        if not good or leaves[1].dtype.kind not in ("int", "index"):
            raise trace_error(
                f"{what} of {x!r}",
                rule="it takes a number, or a pair of a number and an integer that goes with it",
                fix=f"{what}(value), or value, index = {what}((value, index))",
            )
        found = build(threads.reduce(extreme_and_index(op), leaves))
        return found if pair else found[1]

    def _like(self, what: str, initial: Any, leaves: Leaves) -> list[Value]:
        given = initial if isinstance(initial, (tuple, list)) else (initial,)
        if len(given) != len(leaves):
            raise trace_error(
                f"{what} with {len(given)} initial values for {len(leaves)}",
                rule="the first thread gets the initial value: it is made like the threads' values",
                fix="for a tuple, pass a tuple with a number for each of its parts",
            )
        values = [as_value(a, like) for a, like in zip(given, leaves, strict=True)]
        if any(a.dtype is not b.dtype or a.shape != b.shape for a, b in zip(values, leaves, strict=True)):
            raise trace_error(
                f"{what} with an initial value of another type",
                rule="the initial value stands where the threads' values do",
                fix="a Python number takes their type",
            )
        return values


def _warp(*, width: int = WARP_SIZE, mask: int = ALL_LANES) -> Lanes:
    threads, mask = scope.current("nv.warp").threads, plain(mask)
    powers = (1, 2, 4, 8, 16, 32)
    if width not in powers or threads % width:
        raise trace_error(
            f"groups of {width} lanes, in a block of {threads} threads",
            rule=f"a warp is divided into groups of {', '.join(map(str, powers))} lanes, each of which is whole",
            fix="launch a multiple of them; give threads that have nothing what changes no result, 0 for a sum",
        )
    group = (1 << width) - 1
    present = [mask >> at & group for at in range(0, WARP_SIZE, width)]
    if not 0 < mask <= ALL_LANES or any(part not in (0, group) for part in present):
        raise trace_error(
            f"groups of {width} lanes with the mask {mask:#x}",
            rule="the mask names the lanes that execute it, whole groups of them (PTX ISA, membermask)",
            fix="mask=0xffff with width=16 are the lower 16 lanes",
        )
    return Lanes(width, mask)


def _block(scratch: Array | None = None, *, width: int | None = None) -> Threads:
    threads = scope.current("nv.block").threads
    size = threads if width is None else width
    if size <= WARP_SIZE:
        return _warp(width=size)
    if size % WARP_SIZE or threads % size:
        raise trace_error(
            f"nv.block with {'' if size == threads else f'groups of {size} of '}{threads} threads",
            rule="the threads of a group are whole warps of 32, or a power of two below, and divide the block",
            fix="launch a multiple of 32 threads; give those past the end what changes no result, 0 for a sum",
        )
    return _warps("nv.block", size, scratch)


def _warpgroup(scratch: Array | None = None) -> Threads:
    threads = scope.current("nv.warpgroup").threads
    if threads % WARPGROUP_SIZE:
        raise trace_error(
            f"nv.warpgroup in a block of {threads} threads",
            rule="a warpgroup has 128 threads, the first at a multiple of 128",
            fix="use a block of 128, 256, 384 ... threads, or nv.block.sum(x, width=64)",
        )
    return _warps("nv.warpgroup", WARPGROUP_SIZE, scratch)


def _warps(what: str, size: int, scratch: Array | None) -> Warps:
    threads = scope.current(what).threads
    warps, groups = size // WARP_SIZE, threads // size
    if groups == 1:
        return Warps(what, warps, Barrier("block", sync_threads), scratch)
    group = warp_id() // warps
    number = _first_barrier(size, groups) + group
    return Warps(
        what, warps, Barrier(f"{size} threads", lambda: named_barrier_sync(number, size)), scratch, groups, group
    )


def _first_barrier(size: int, groups: int) -> int:
    """The number of the first group's named barrier."""
    kernel = scope.current("a named barrier")
    if size not in kernel.group_barriers:
        first = min(kernel.group_barriers.values(), default=arch.NAMED_BARRIERS) - groups
        taken = sorted(n for n in kernel.named_barriers if n >= first)
        if first < 1 or taken:
            because = f"the kernel uses number {taken[0]} itself" if taken else "there are not so many"
            raise trace_error(
                f"{groups} groups of {size} threads need named barriers {first} to {first + groups - 1}: {because}",
                rule=f"a block has {arch.NAMED_BARRIERS} barriers (PTX ISA, barrier): 0 is sync_threads, and each "
                "group takes one, from the highest number down",
                fix="use larger groups, or number the kernel's own barriers from 1",
            )
        kernel.group_barriers[size] = first
    return kernel.group_barriers[size]


def _cluster(scratch: Array | None = None) -> Threads:
    kernel = scope.current("nv.cluster")
    if kernel.cluster_size == 1:
        return _block(scratch=scratch)
    if kernel.threads % WARP_SIZE:
        raise trace_error(
            f"nv.cluster with blocks of {kernel.threads} threads",
            rule="the threads of a block are whole warps of 32",
            fix="launch a multiple of 32 threads; give those past the end what changes no result, 0 for a sum",
        )
    _meet_at_start(kernel)
    warps = kernel.threads // WARP_SIZE
    return Warps("nv.cluster", warps, Barrier("cluster", cluster_sync), scratch, blocks=kernel.cluster_size)


def _meet_at_start(kernel: scope.Kernel) -> None:
    """No block may write into one that has not started. All arrive where the kernel starts, and wait here, so that what
    they load meanwhile is on its way; or there, where the barrier is used in between."""
    if "cluster collectives" in kernel.at_start:
        return
    kernel.at_start["cluster collectives"] = True
    here = block = ir.InsertionPoint.current.block
    while block.owner.name != "gpu.launch":
        block = block.owner.operation.block
    free = block == here and not find(block.owner, *_CLUSTER_BARRIERS)
    with ir.InsertionPoint.at_block_begin(block):
        cluster_arrive()
        if not free:
            cluster_wait()
    if free:
        cluster_wait()


_CLUSTER_BARRIERS = ("nvvm.cluster.arrive", "nvvm.cluster.arrive.relaxed", "nvvm.cluster.wait", "gpu.cluster_barrier")


warp = Group("nv.warp", _warp)
"""The lanes of a warp. ``width``: groups of so many lanes, a power of two. ``mask``: the lanes that execute it."""

warpgroup = Group("nv.warpgroup", _warpgroup)
"""The 128 threads of a warpgroup. ``scratch``: see `block`."""

block = Group("nv.block", _block)
"""All threads of a block. ``width``: groups of so many threads. ``scratch``: an array of 32-bit elements in shared
memory, for a kernel that has no more to spare; without it each use has its own."""

cluster = Group("nv.cluster", _cluster)
"""All threads of all blocks of a cluster. ``scratch``: see `block`."""
