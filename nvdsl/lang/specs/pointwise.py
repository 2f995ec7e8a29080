"""Pointwise operations: a function of the elements at one place."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from nvdsl.errors import trace_error
from nvdsl.errors.records import dataclass
from nvdsl.lang.array import Array
from nvdsl.lang.atoms import Atom, Plan, Unfit
from nvdsl.lang.part import Part, of
from nvdsl.lang.specs.moves import through_registers
from nvdsl.lang.specs.registers import Registers
from nvdsl.lang.specs.spec import Spec, shares
from nvdsl.lang.threads import Threads
from nvdsl.lang.tile import Tile
from nvdsl.values import arith
from nvdsl.values.traced import wrap


def pointwise(
    function: Callable[..., Any],
    sources: Sequence[Tile | Array | Part | Registers],
    target: Tile | Array | Part | None = None,
    *,
    threads: Threads,
) -> Pointwise:
    """The specification of ``target[i, j] = function(a[i, j], b[i, j], ...)`` for a matrix, by a group of threads.

    Sources and target lie in memory, or the sources are `Registers` of one layout and there is no target: the call
    of the specification then gives `Registers`. Raises TraceError for two shapes or layouts.
    """
    ends = [x if isinstance(x, Registers) else of(x) for x in sources]
    to = None if target is None else of(target)
    kinds = {isinstance(x, Registers) for x in ends}
    shapes = {tuple(x.shape) for x in (*ends, *([] if to is None else [to]))}
    layouts = {x.layout for x in ends if isinstance(x, Registers)}
    if len(kinds) != 1 or kinds == {to is not None} or len(shapes) > 1 or len(layouts) > 1:
        raise trace_error(
            f"a pointwise operation on {', '.join(map(str, ends))}" + ("" if to is None else f" into {to}"),
            rule="sources and target have one shape, and all lie in memory; or the sources are registers of one "
            "layout, and there is no target",
            fix="nv.spec.move brings memory to registers and back",
        )
    return Pointwise(function, tuple(ends), to, threads)


@dataclass(frozen=True)
class Pointwise(Spec):
    """See `pointwise`."""

    function: Callable[..., Any]
    sources: tuple[Any, ...]
    target: Part | None
    threads: Threads

    @property
    def atoms(self) -> Sequence[Atom]:
        """The instructions that may carry it out: on registers, or on memory."""
        return REGISTERS if self.target is None else MEMORY

    def tile(self, shape: Sequence[int], groups: Threads) -> Iterator[Pointwise]:
        """The operations on parts of ``shape`` that this thread's group has to do: see `Move.tile`."""
        if self.target is None:
            raise trace_error(
                f"{self} in parts",
                rule="what lies in registers is one piece",
                fix="tile operations on memory",
            )
        for row, col in shares(self.target.shape, shape, groups, "a pointwise operation"):
            size = (shape[0], shape[1])
            sources = tuple(x.at(row, col, size) for x in self.sources)
            yield Pointwise(self.function, sources, self.target.at(row, col, size), groups)

    def __str__(self) -> str:
        name = getattr(self.function, "__name__", "a function")
        to = "" if self.target is None else f" -> {self.target}"
        return f"pointwise {name} of {', '.join(map(str, self.sources))}{to} by {self.threads}"


def _of_memory(vectors: bool) -> Any:
    def plan(spec: Pointwise) -> Plan:
        assert spec.target is not None
        return through_registers(spec.target, spec.sources, spec.threads, spec.function, vectors)

    return plan


def _pairs(spec: Pointwise) -> Plan:
    types = {x.dtype.name for x in spec.sources}
    first = spec.sources[0]
    if not types <= {"f16", "bf16"} or len(types) > 1:
        raise Unfit(f"two elements go at a time where all are f16 or bf16, not {', '.join(sorted(types))}")
    count = first.layout[1].size
    if count % 2:
        raise Unfit("a thread holds an odd number of elements")

    def emit() -> Registers:
        each = [x.values for x in spec.sources]
        made: list[Any] = []
        for i in range(0, count, 2):
            made += list(spec.function(*(wrap(arith.pack(values[i : i + 2]), first.dtype) for values in each)))
        return first.with_values(made)

    return Plan(emit, count // 2)


def _singles(spec: Pointwise) -> Plan:
    first = spec.sources[0]

    def emit() -> Registers:
        return first.with_values([spec.function(*some) for some in zip(*(x.values for x in spec.sources), strict=True)])

    return Plan(emit, first.layout[1].size)


REGISTERS = (
    Atom("pairs", "vectors of two 16-bit floats", _pairs),
    Atom("scalar", "an element at a time", _singles),
)
"""On registers, the best first."""

MEMORY = (
    Atom("vector", "2 to 16 contiguous bytes a thread, through its registers", _of_memory(True)),
    Atom("scalar", "an element a thread, through its registers", _of_memory(False)),
)
"""On memory."""
