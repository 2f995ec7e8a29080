"""Moves between memory and the registers of a warp or warpgroup: ldmatrix, stmatrix, vectors, single elements.

What a thread holds is a layout (thread, value) -> (row, column), as `layout.mma_a` and its kin are. Which instruction
fits follows from it, from how the memory lies, and from what is known of the place while tracing. Registers are i32
words of ``4 // itemsize`` elements, or elements of 4 and 8 bytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

from nvdsl.errors.records import dataclass
from nvdsl.lang.atoms import Atom, Plan, Unfit, choose
from nvdsl.lang.packing import as_words, converted, elements_of, words_of
from nvdsl.lang.part import Part
from nvdsl.lang.threads import Threads
from nvdsl.layout import E, Layout
from nvdsl.layout.memory import conflicts_at
from nvdsl.ops.smem import ldmatrix, stmatrix
from nvdsl.ops.warp import WARP_SIZE, lane_id, warpgroup_thread
from nvdsl.values.traced import Value

UNIT = 16
"""Bytes of a row of a matrix of ldmatrix and stmatrix, and of the widest access of a thread."""


@dataclass(frozen=True)
class Move:
    """``part`` of memory to or from registers: ``values`` takes (thread, value) to (row, column) of the part.
    ``elements``: what is stored, in the order of the values; None for a load. ``group``: the threads, a warp or a
    warpgroup as the layout says unless given. ``packed``: whether a load gives registers; else it gives elements."""

    part: Part
    values: Layout
    elements: Sequence[Value] | None = None
    group: Threads | None = None
    packed: bool = True

    @property
    def itemsize(self) -> int:
        """Bytes of an element in memory."""
        return self.part.dtype.bytes

    @property
    def threads(self) -> int:
        """How many threads hold the part: a warp's or a warpgroup's."""
        return int(self.values[0].size)

    def thread(self) -> Value:
        """This thread's number among them."""
        if self.group is not None:
            return self.group.number
        return lane_id() if self.threads == WARP_SIZE else warpgroup_thread()

    def places(self) -> list[Any]:
        """(row, column) of each value of thread 0."""
        return [self.values(0, i) for i in range(self.values[1].size)]

    def __str__(self) -> str:
        of = "a warp" if self.threads == WARP_SIZE and self.group is None else f"{self.threads} threads"
        where = "from" if self.elements is None else "to"
        return f"registers of {of} {where} {self.part}"


def load(move: Move, using: str | None = None) -> list[Value]:
    """This thread's registers of the part. Raises TraceError where ``using`` names an instruction that does not fit."""
    move.part.within()
    found: list[Value] = choose(move, LOADS, using).emit()
    return found


def store(move: Move, using: str | None = None) -> None:
    """Write the elements to the part, converted to its type."""
    move.part.within()
    choose(move, STORES, using).emit()


# --- 8x8 matrices --------------------------------------------------------------------------------


def _matrices(move: Move, name: str) -> tuple[bool, list[Any]]:
    """Whether registers hold transposed matrices, and the (row, column) at which each register's matrix starts."""
    part, per = move.part, 4 // move.itemsize
    if move.group is not None and not move.group.are_warps:
        raise Unfit(f"{name} is executed by whole warps, with their lanes in their order, not by {move.group}")
    if part.space != "shared":
        raise Unfit(f"{name} moves between registers and shared memory, and this is {part.space} memory")
    if not per:
        raise Unfit(f"{name} moves 16-bit elements, or others as their bits, not {part.dtype.name}")
    along = part.contiguous
    if along is None:
        raise Unfit("no axis of the array is contiguous")
    kind = _pattern(move.values, per, along)
    if kind is None or kind == "turned" and move.itemsize != 2:
        turned = "" if kind is None else f"; transposed, it moves 16-bit elements only, not {part.dtype.name}"
        raise Unfit(f"a register of the warp is not 8 rows of 16 bytes{turned}")
    if part.alignment() % UNIT:
        raise Unfit(
            f"rows start at multiples of {part.alignment()} bytes as far as is known while tracing, not of {UNIT}"
        )
    places = move.places()[::per]
    if any(place[along] * move.itemsize % UNIT for place in places):
        raise Unfit("a matrix starts within 16 bytes")
    return kind == "turned", places


@cache
def _pattern(values: Layout, per: int, along: int) -> str | None:
    """How the first register of a warp lies: "straight" (its elements are neighbours in memory), "turned", or None."""
    if values[1].size % per:
        return None
    for kind, row, col in (("straight", 1 - along, along), ("turned", along, 1 - along)):
        held = [values(lane, i) for lane in range(WARP_SIZE) for i in range(per)]
        straight = [(n // per // 4, n // per % 4 * per + n % per) for n in range(len(held))]
        if [(place[row], place[col]) for place in held] == straight:
            return kind
    return None


def _groups(places: list[Any]) -> list[list[Any]]:
    """The matrices in groups of 4, 2 or 1 whose starts are a layout of their number."""
    groups = []
    while places:
        count = 4 if len(places) >= 4 and _is_affine(places[:4]) else 2 if len(places) >= 2 else 1
        groups.append(places[:count])
        places = places[count:]
    return groups


def _is_affine(four: list[Any]) -> bool:
    a, b, c, d = four
    return all(a[k] + d[k] == b[k] + c[k] for k in (0, 1))


def _rows(group: list[Any], along: int) -> Layout:
    """A lane to the (row, column), beside the group's first, of the row of a matrix whose address it gives."""
    step = E(0, 1) if along == 0 else E(1, 0)
    first = group[0]
    steps = [E(place[0] - first[0], place[1] - first[1]) for place in group[1:3]] + [E(0, 0)] * 2
    return Layout((8, 2, 2), (step, steps[0] if len(group) > 1 else E(0, 0), steps[1] if len(group) == 4 else E(0, 0)))


def _pointers(move: Move, groups: list[list[Any]]) -> Any:
    part = move.part
    assert part.contiguous is not None
    thread = move.thread()
    lane = thread if move.threads == WARP_SIZE else thread % WARP_SIZE
    base = (0, 0) if move.threads == WARP_SIZE else move.values[0](thread // WARP_SIZE * WARP_SIZE)
    for group in groups:
        row, col = _rows(group, part.contiguous)(lane)
        yield part.pointer(row + (base[0] + group[0][0]), col + (base[1] + group[0][1])), len(group)


def _matrix_conflicts(move: Move, places: list[Any]) -> int:
    """Of the worst of the matrices; 0 where the start is not known."""
    part = move.part
    if not all(isinstance(first, int) for first in part.start):
        return 0
    step = (0, 1) if part.contiguous == 0 else (1, 0)
    worst = 1
    for row, col in places:
        at = [part.byte(row + i * step[0], col + i * step[1]) for i in range(8)]
        worst = max(worst, conflicts_at(at, UNIT))
    return worst


def _ldmatrix(move: Move) -> Plan:
    turned, places = _matrices(move, "ldmatrix")
    groups = _groups(places)

    def emit() -> list[Value]:
        return [x for pointer, count in _pointers(move, groups) for x in ldmatrix(pointer, count, transpose=turned)]

    return Plan(emit, len(groups), UNIT, _matrix_conflicts(move, places))


def _stmatrix(move: Move) -> Plan:
    turned, places = _matrices(move, "stmatrix")
    groups = _groups(places)

    def emit() -> None:
        words, at = words_of(converted(move.elements or (), move.part.dtype), move.part.dtype), 0
        for pointer, count in _pointers(move, groups):
            stmatrix(pointer, words[at : at + count], transpose=turned)
            at += count

    return Plan(emit, len(groups), UNIT, _matrix_conflicts(move, places))


# --- each thread by itself -----------------------------------------------------------------------


def _vectors(move: Move) -> int:
    """How many elements one access takes, at least two."""
    part, places = move.part, move.places()
    if part.contiguous is None or not part.rows_lie:
        raise Unfit("the last axis of the array is not contiguous")
    count = UNIT // move.itemsize
    while count > 1:
        if _is_in_vectors(move, places, part.contiguous, count):
            return count
        count //= 2
    raise Unfit("a thread holds no neighbours whose first one is surely aligned to an access of both")


def allows(move: Move, count: int) -> bool:
    """Whether a thread's elements come in accesses of ``count``, of at most 16 bytes, surely aligned."""
    along = move.part.contiguous
    fits = along is not None and move.part.rows_lie and count * move.itemsize <= UNIT
    return fits and along is not None and _is_in_vectors(move, move.places(), along, count)


def _is_in_vectors(move: Move, places: list[Any], along: int, count: int) -> bool:
    if len(places) % count or move.part.alignment() % (count * move.itemsize):
        return False
    lanes = [stride[along] for _, stride in move.values[0].leaves()]
    if any(stride % count for stride in lanes):
        return False
    step = [int(k == along) for k in (0, 1)]
    starts = places[::count]
    run = [(row + j * step[0], col + j * step[1]) for row, col in starts for j in range(count)]
    return list(map(tuple, places)) == run and all(place[along] % count == 0 for place in starts)


def _thread_conflicts(move: Move, places: list[Any], bytes: int) -> int:
    part = move.part
    if part.space != "shared":
        return 1
    if not all(isinstance(first, int) for first in part.start):
        return 0
    lanes = [move.values[0](lane) for lane in range(WARP_SIZE)]
    each = ([part.byte(row + lane[0], col + lane[1]) for lane in lanes] for row, col in places)
    return max(conflicts_at(at, bytes) for at in each)


def each(move: Move, count: int) -> Plan:
    """The plan of accesses of ``count`` elements by each thread."""
    places, bytes = move.places()[::count], count * move.itemsize
    per = max(4 // move.itemsize, 1)
    if move.packed and move.elements is None and count * len(places) % per:
        raise Unfit(f"{count * len(places)} elements of a thread do not fill registers of {per}")

    def emit() -> Any:
        row, col = move.values[0](move.thread())
        if move.elements is None:
            loaded = [move.part.load(row + r, col + c, count) for r, c in places]
            return as_words(loaded, move.part.dtype) if move.packed else elements_of(loaded)
        for i, (r, c) in enumerate(places):
            some = move.elements[i * count : (i + 1) * count]
            move.part.store(converted(some, move.part.dtype, together=True)[0], row + r, col + c)
        return None

    return Plan(emit, len(places), bytes, _thread_conflicts(move, places, bytes))


LOADS = (
    Atom("ldmatrix", "1, 2 or 4 matrices of 8 rows of 16 bytes, by the lanes of a warp", _ldmatrix),
    Atom("vector", "2 to 16 contiguous bytes a thread", lambda move: each(move, _vectors(move))),
    Atom("scalar", "an element a thread", lambda move: each(move, 1)),
)
"""Memory to registers, the best first."""

STORES = (
    Atom("stmatrix", "1, 2 or 4 matrices of 8 rows of 16 bytes, by the lanes of a warp", _stmatrix),
    *LOADS[1:],
)
"""Registers to memory."""
