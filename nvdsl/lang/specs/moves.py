"""Moves: between memory and registers, from memory to memory, through TMA."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from math import gcd
from typing import Any

from nvdsl.errors import trace_error
from nvdsl.errors.records import dataclass
from nvdsl.hopper import arch
from nvdsl.lang import register_move
from nvdsl.lang.array import Array
from nvdsl.lang.atoms import Atom, Plan, Unfit
from nvdsl.lang.part import Part, of
from nvdsl.lang.specs.registers import Registers
from nvdsl.lang.specs.spec import Spec, shares
from nvdsl.lang.threads import Threads
from nvdsl.lang.tile import Tile
from nvdsl.lang.tma import TMA
from nvdsl.layout import E, Layout
from nvdsl.ops.cp_async import cp_async, cp_async_arrive
from nvdsl.ops.mbarrier import Mbarrier
from nvdsl.ops.pointer import under
from nvdsl.values.typing import Coords


def move(
    source: Tile | Array | Part | Registers | TMA,
    target: Tile | Array | Part | Layout | TMA,
    threads: Threads,
    *,
    asynchronous: bool = False,
    barrier: Mbarrier | None = None,
    coords: Coords | None = None,
) -> Move:
    """The specification of a move of a matrix by the threads of a group.

    Memory is a tile, an array of two axes, or a part of one (`of`). A ``target`` that is a layout (thread, value) ->
    (row, column) stands for registers: the call of the specification gives `Registers`. With a tensor map on one side
    one thread starts a TMA copy at ``coords``; a load completes on ``barrier``, which has been told to expect it.
    ``asynchronous``: by cp.async, from global to shared memory; `cp_async_commit` and `cp_async_wait` follow, or
    ``barrier`` counts an arrival of each thread once its copies are done.

    Raises TraceError for two shapes, and for a layout of another number of threads.
    """
    ends = [x if isinstance(x, Registers | Layout | TMA) else of(x) for x in (source, target)]
    shapes = [tuple(x.shape) for x in ends if not isinstance(x, Layout)]
    if len(set(shapes)) > 1:
        raise trace_error(
            f"a move of {'x'.join(map(str, shapes[0]))} to {'x'.join(map(str, shapes[1]))}",
            rule="both sides of a move have one shape",
            fix="take a part of the larger one: nv.spec.of(x, (row, col), shape)",
        )
    at = tuple(coords) if coords is not None else None
    spec = Move(ends[0], ends[1], threads, asynchronous, barrier, at)
    layout = spec.layout
    if layout is not None and layout[0].size != threads.size:
        raise trace_error(
            f"a move to registers of {layout[0].size} threads by {threads.size}",
            rule="the layout says which thread holds which element: it is of all threads of the group",
            fix="tile the threads: nv.spec.threads().tile(32) are warps",
        )
    return spec


@dataclass(frozen=True)
class Move(Spec):
    """``source`` to ``target``: see `move`."""

    source: Any
    target: Any
    threads: Threads
    asynchronous: bool = False
    barrier: Mbarrier | None = None
    coords: tuple[Any, ...] | None = None

    @property
    def layout(self) -> Layout | None:
        """Of the registers on one side."""
        for end in (self.source, self.target):
            if isinstance(end, Registers):
                return end.layout
            if isinstance(end, Layout):
                return end
        return None

    @property
    def atoms(self) -> Sequence[Atom]:
        """The instructions that may carry it out: memory to registers, back, or memory to memory."""
        if isinstance(self.target, Layout):
            return _LOADS
        return _STORES if isinstance(self.source, Registers) else MEMORY

    def tile(self, shape: Sequence[int], groups: Threads) -> Iterator[Move]:
        """The moves of parts of ``shape`` that this thread's group has to do, one for each turn.

        ``groups``: the threads in groups, each of which gets as many parts. Both sides lie in memory.
        """
        if not isinstance(self.source, Part) or not isinstance(self.target, Part):
            raise trace_error(
                f"{self} in parts of {'x'.join(map(str, shape))}",
                rule="what lies in registers, or is moved by TMA, is one piece",
                fix="tile moves between memories; make registers of the parts",
            )
        for row, col in shares(self.source.shape, shape, groups, "a move"):
            size = (shape[0], shape[1])
            source, target = self.source.at(row, col, size), self.target.at(row, col, size)
            yield replace(self, source=source, target=target, threads=groups)

    def __str__(self) -> str:
        return f"move {_shown(self.source)} -> {_shown(self.target)} by {self.threads}"


def _shown(end: Any) -> str:
    if isinstance(end, Registers | Layout):
        return f"registers {end.layout if isinstance(end, Registers) else end}"
    return f"TMA of {end.shape}" if isinstance(end, TMA) else str(end)


# --- registers


def _registers(spec: Move) -> register_move.Move:
    assert spec.layout is not None
    if isinstance(spec.source, Registers):
        return register_move.Move(spec.target, spec.layout, (), spec.threads)
    return register_move.Move(spec.source, spec.layout, None, spec.threads)


def _load(atom: Atom) -> Atom:
    def plan(spec: Move) -> Plan:
        found = atom.plan(_registers(spec))

        def emit() -> Registers:
            spec.source.within()
            return Registers(spec.target, spec.source.shape, spec.source.dtype, found.emit(), spec.threads)

        return replace(found, emit=emit)

    return Atom(atom.name, atom.does, plan)


def _store(atom: Atom) -> Atom:
    def plan(spec: Move) -> Plan:
        wanted = _registers(spec)

        def emit() -> None:
            register_move.store(replace(wanted, elements=spec.source.values), atom.name)

        return replace(atom.plan(wanted), emit=emit)

    return Atom(atom.name, atom.does, plan)


_LOADS = tuple(map(_load, register_move.LOADS))
_STORES = tuple(map(_store, register_move.STORES))


# --- memory to memory


def coalesced(shape: tuple[int, int], along: int, count: int, threads: int) -> Layout:
    """(thread, (element of an access, access)) -> (row, column): neighbouring threads take neighbouring accesses of
    ``count`` elements along an axis. Raises Unfit where the threads do not divide them."""
    inner, outer = (E(0, 1), E(1, 0)) if along == 1 else (E(1, 0), E(0, 1))
    units = shape[along] // count
    across = gcd(units, threads)
    down = threads // across
    if shape[along] % count or shape[1 - along] % down:
        raise Unfit(
            f"{shape[0]}x{shape[1]} elements, {count} at a time along axis {along}, are not as many for each of "
            f"{threads} threads"
        )
    turns = (units // across, shape[1 - along] // down), (across * count * inner, down * outer)
    return Layout(((across, down), (count, turns[0])), ((count * inner, outer), (inner, turns[1])))


Access = tuple[int, Layout, list[register_move.Move]]
"""Elements of an access; who moves which; the same for each of the parts."""


def widest(parts: Sequence[Part], threads: Threads, least: int) -> Access:
    """The widest access, of at least ``least`` elements, that all parts allow. Raises Unfit."""
    along = next((x.contiguous for x in parts if x.space == "global" and x.contiguous is not None), 1)
    count = register_move.UNIT // min(x.dtype.bytes for x in parts) if least > 1 else 1
    reason = Unfit(f"no {least} neighbours are surely aligned on all sides")
    while count >= least:
        try:
            layout = coalesced(parts[0].shape, along, count, threads.size)
        except Unfit as unfit:
            reason = unfit
        else:
            moves = [register_move.Move(x, layout, None, threads, packed=False) for x in parts]
            if count == 1 or all(register_move.allows(one, count) for one in moves):
                return count, layout, moves
        count //= 2
    raise reason


def through_registers(target: Part, sources: Sequence[Part], threads: Threads, make: Any, vectors: bool) -> Plan:
    """Each thread reads its elements of the sources, and writes what ``make`` of them says to the target."""
    count, _, (wanted, *loads) = widest([target, *sources], threads, 2 if vectors else 1)
    plans = [register_move.each(one, count) for one in (*loads, wanted)]

    def emit() -> None:
        for x in (target, *sources):
            x.within()
        given = [found.emit() for found in plans[:-1]]
        made = [make(*some) for some in zip(*given, strict=True)]
        register_move.each(replace(wanted, elements=made), count).emit()

    return replace(plans[-1], emit=emit, conflicts=max(p.conflicts for p in plans))


def _copy(vectors: bool) -> Any:
    def plan(spec: Move) -> Plan:
        _not_tma(spec)
        if spec.asynchronous:
            raise Unfit("it is done when the call is, and the move is asynchronous")
        return through_registers(spec.target, [spec.source], spec.threads, lambda x: x, vectors)

    return plan


def _not_tma(spec: Move) -> None:
    if isinstance(spec.source, TMA) or isinstance(spec.target, TMA):
        raise Unfit("a tensor map is moved through by TMA alone")


def _cp_async(spec: Move) -> Plan:
    _not_tma(spec)
    source, target = spec.source, spec.target
    if not spec.asynchronous:
        raise Unfit("who asks for it waits for it: nv.spec.move(..., asynchronous=True), then nv.cp_async_wait")
    if (source.space, target.space) != ("global", "shared"):
        raise Unfit(f"it copies from global to shared memory, and this is {source.space} to {target.space}")
    if source.dtype is not target.dtype:
        raise Unfit(f"it does not convert {source.dtype.name} to {target.dtype.name}")
    count, layout, (_, wanted) = widest([source, target], spec.threads, max(4 // source.dtype.bytes, 1))
    size = count * source.dtype.bytes
    if size not in arch.CP_ASYNC_BYTES:
        raise Unfit(f"it copies 4, 8 or 16 bytes, not {size}")

    def emit() -> None:
        source.within()
        target.within()
        row, col = layout[0](spec.threads.number)
        for r, c in wanted.places()[::count]:
            (to, there), (at, here) = (x.place(row + r, col + c, count) for x in (target, source))
            cp_async(to, there, at, here, count)
        if spec.barrier is not None:
            cp_async_arrive(spec.barrier)

    return replace(register_move.each(wanted, count), emit=emit)


def _tma(spec: Move) -> Plan:
    maps = [end for end in (spec.source, spec.target) if isinstance(end, TMA)]
    if not maps:
        raise Unfit("neither side is a tensor map")
    is_load = spec.source is maps[0]
    part: Part = spec.target if is_load else spec.source
    if len(maps) > 1 or not isinstance(part, Part) or part.space != "shared" or part.shape != tuple(part.memory.shape):
        raise Unfit("TMA moves between a tensor map and a whole tile of shared memory")
    if spec.coords is None:
        raise Unfit("TMA needs the coordinates of its box: coords=(row, col)")
    if is_load != (spec.barrier is not None):
        raise Unfit("a TMA load completes on a barrier, a store in a bulk group" + " of the thread" * (not is_load))

    def emit() -> None:
        with under(spec.threads.number == 0):
            if is_load:
                maps[0].load(part.memory, spec.barrier, spec.coords)  # type: ignore[arg-type]
            else:
                maps[0].store(part.memory, spec.coords)  # type: ignore[arg-type]

    return Plan(emit, maps[0].shape[-1] // maps[0].box[-1])


MEMORY = (
    Atom("tma", "cp.async.bulk.tensor, started by one thread", _tma),
    Atom("cp.async", "4, 8 or 16 contiguous bytes a thread, without registers, waited for later", _cp_async),
    Atom("vector", "2 to 16 contiguous bytes a thread, through its registers", _copy(True)),
    Atom("scalar", "an element a thread, through its registers", _copy(False)),
)
"""Memory to memory, the best first."""

