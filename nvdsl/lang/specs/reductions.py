"""Reductions: of a value of each thread of a group, and of the rows or columns of a matrix in registers."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Sequence
from typing import Any

from nvdsl.errors import trace_error
from nvdsl.errors.records import dataclass
from nvdsl.lang import collectives
from nvdsl.lang.atoms import Atom, Plan, Unfit
from nvdsl.lang.collectives.lanes import move as each_word
from nvdsl.lang.specs.registers import Registers
from nvdsl.lang.specs.spec import Spec
from nvdsl.lang.threads import Threads
from nvdsl.layout import Layout, coalesce
from nvdsl.ops.warp import WARP_SIZE, shuffle_xor
from nvdsl.values import scope, select
from nvdsl.values.traced import Value, as_value
from nvdsl.values.typing import Number

_OPERATIONS: dict[str, Callable[[Any, Any], Any]] = {"sum": operator.add, "max": select.max, "min": select.min}


def reduce(op: str, x: Number | Registers, threads: Threads, *, axis: int | None = None) -> Reduction:
    """The specification of a reduction by a group of threads. ``op``: "sum", "max" or "min".

    ``x``: a value of each thread, of which all get the result; or `Registers` and an ``axis``: 1 reduces the columns of
    each row, 0 the rows of each column. The call then gives a list: a value for each of the other coordinates that the
    thread holds, in the order of `places`.
    """
    if op not in _OPERATIONS or (axis is None) == isinstance(x, Registers) or axis not in (None, 0, 1):
        raise trace_error(
            f"a reduction {op!r} of {x!r} along axis {axis}",
            rule=f"a reduction is one of {', '.join(_OPERATIONS)}, of a value of each thread, or along axis 0 or 1 of "
            "registers",
            fix='nv.spec.reduce("sum", x, threads), nv.spec.reduce("max", registers, threads, axis=1)',
        )
    return Reduction(op, x if isinstance(x, Registers) else as_value(x), threads, axis)


@dataclass(frozen=True)
class Reduction(Spec):
    """See `reduce`."""

    op: str
    x: Value | Registers
    threads: Threads
    axis: int | None = None

    @property
    def atoms(self) -> Sequence[Atom]:
        """The instructions that may carry it out: of threads."""
        return ATOMS

    @property
    def places(self) -> list[int]:
        """The coordinates along the axis that stays, beside the thread's own, of the values of the result."""
        assert isinstance(self.x, Registers) and self.axis is not None
        return sorted({self.x.layout(0, i)[1 - self.axis] for i in range(self.x.layout[1].size)})

    def combine(self, values: Sequence[Value]) -> Value:
        """What the operation makes of values of one thread."""
        return functools.reduce(_OPERATIONS[self.op], values)

    def of_thread(self) -> list[Value]:
        """What this thread's own elements give, a value for each of `places`."""
        if not isinstance(self.x, Registers):
            return [self.x]
        assert self.axis is not None
        kept = [self.x.layout(0, i)[1 - self.axis] for i in range(self.x.layout[1].size)]
        values = self.x.values
        return [self.combine([v for v, at in zip(values, kept, strict=True) if at == place]) for place in self.places]

    def result(self, values: list[Value]) -> Any:
        """What the call gives: a list for registers, else a value."""
        return values if isinstance(self.x, Registers) else values[0]

    @property
    def across(self) -> list[int]:
        """How far apart in the block's numbering the threads lie that have to meet, bit by bit. Raises Unfit."""
        members = self.threads.members
        leaves = members.leaves()
        if isinstance(self.x, Registers):
            assert self.axis is not None
            kept = [stride[1 - self.axis] for _, stride in self.x.layout[0].leaves()]
            sizes = [size for size, _ in self.x.layout[0].leaves()]
            whole = coalesce(members)
            if len(whole) != 1:
                raise Unfit(f"the threads of the group are not neighbours: {members}")
            step, leaves, at = whole.leaves()[0][1], [], 1
            for size, stride in zip(sizes, kept, strict=True):
                leaves += [(size, at * step)] if stride == 0 else []
                at *= size
        found = []
        for size, stride in leaves:
            if size & (size - 1) or stride & (stride - 1) and size > 1:
                raise Unfit(f"a group of {size} threads {stride} apart is not halved again and again")
            found += [stride << i for i in range(size.bit_length() - 1)]
        return found

    def __str__(self) -> str:
        of = self.x if isinstance(self.x, Registers) else f"a {self.x.dtype.name} of each thread"
        along = "" if self.axis is None else f" along axis {self.axis}"
        return f"{self.op} of {of}{along} by {self.threads}"


def _thread(spec: Reduction) -> Plan:
    if spec.across:
        raise Unfit(f"{2 ** len(spec.across)} threads hold parts of what is combined")
    return Plan(lambda: spec.result(spec.of_thread()), 0)


def _redux(spec: Reduction) -> Plan:
    x = spec.x
    if isinstance(x, Registers) or x.shape or x.dtype.kind != "int" or x.dtype.bits > 32:
        raise Unfit("redux.sync combines an integer of at most 32 bits of each lane")
    if not spec.threads.are_warps or spec.threads.size != WARP_SIZE:
        raise Unfit(f"redux.sync is of a whole warp, not of {spec.threads}")
    return Plan(lambda: getattr(collectives.warp, spec.op)(x), 1)


def _shuffles(spec: Reduction) -> Plan:
    masks = spec.across
    far = [mask for mask in masks if mask >= WARP_SIZE]
    if far:
        raise Unfit(f"threads {far[0]} apart are in different warps, which no shuffle reaches")

    def emit() -> Any:
        values = spec.of_thread()
        for mask in masks:
            others = each_word(values, lambda word, mask=mask: shuffle_xor(word, mask))  # type: ignore[misc]
            values = [_OPERATIONS[spec.op](a, b) for a, b in zip(values, others, strict=True)]
        return spec.result(values)

    count = len(spec.places) if isinstance(spec.x, Registers) else 1
    return Plan(emit, len(masks) * count)


def _block(spec: Reduction) -> Plan:
    whole = scope.current("nv.spec.reduce").threads
    if isinstance(spec.x, Registers):
        raise Unfit("registers of a matrix are reduced within a warp")
    if spec.threads.size != whole or coalesce(spec.threads.members) != Layout(whole):
        raise Unfit(f"nv.block is of all {whole} threads of the block, in their order, not of {spec.threads}")
    return Plan(lambda: getattr(collectives.block, spec.op)(spec.x), 1)


ATOMS = (
    Atom("thread", "in the registers of each thread", _thread),
    Atom("redux", "redux.sync of a warp", _redux),
    Atom("shuffle", "a butterfly of shfl.sync, a step for each bit of the lanes that meet", _shuffles),
    Atom("block", "within each warp, then through shared memory (nv.block)", _block),
)
"""Reductions, the best first."""
