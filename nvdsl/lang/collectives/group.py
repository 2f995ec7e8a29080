"""What a group of threads computes together. docs/collectives.md has a table of it, with what each costs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, ParamSpec, TypeAlias, overload

from nvdsl.errors import trace_error
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
from nvdsl.lang.collectives.warps import Warps
from nvdsl.ops.pointer import condition
from nvdsl.values import select
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
