"""Shared memory in which warps leave what they have for each other, and the barrier between leaving and taking.

Each use of a collective in a kernel has scratch of its own. Where it is reached once, one barrier is enough. In a loop,
what it left in the round before must have been taken before it is overwritten: a second barrier says so, unless
another use in the same round has one.
"""

from __future__ import annotations

from collections.abc import Callable

from nvdsl.errors import trace_error
from nvdsl.errors.records import dataclass
from nvdsl.ir.collectives import OF_COLLECTIVE
from nvdsl.lang.array import Array
from nvdsl.lang.collectives.words import as_type
from nvdsl.mlir import ir
from nvdsl.mlir.dialects import llvm
from nvdsl.ops.cluster import mapa
from nvdsl.ops.pointer import base_address, byte_offset
from nvdsl.ops.smem import get_dynamic_shared_memory
from nvdsl.values import dtypes, scope
from nvdsl.values.traced import Value
from nvdsl.values.typing import Int

_ACCESS = 4
"""Words of one access, 128 bits."""


@dataclass(frozen=True)
class Barrier:
    """Meets the threads of a group. ``name``: which group's. ``sync``: emits it."""

    name: str
    sync: Callable[[], None]

    def before(self, shared: bool) -> None:
        """Whoever takes what was left here in the round before, has done so; nothing where there is no such round.

        ``shared``: others use the scratch, too, so that there always is one.
        """
        if shared or _in_a_loop() and not self._here(""):
            self._emit(" shared" if shared else " before")

    def between(self) -> None:
        """What all threads have left may be taken."""
        if _in_a_loop() and self._here(""):  # between two rounds of each use there is the other one's barrier
            for op in self._here(" before"):
                op.erase()
        self._emit("")

    def _here(self, suffix: str) -> list[ir.Operation]:
        """The group's barriers in the block of ops that is being traced."""
        found = [op.operation for op in ir.InsertionPoint.current.block.operations]
        marked = [op for op in found if OF_COLLECTIVE in op.attributes]
        return [op for op in marked if op.attributes[OF_COLLECTIVE] == self._mark(suffix)]

    def _mark(self, suffix: str) -> ir.Attribute:
        return ir.StringAttr.get(self.name + suffix)

    def _emit(self, suffix: str) -> None:
        operations = ir.InsertionPoint.current.block.operations
        count = len(operations)
        self.sync()
        for op in (operations[i].operation for i in range(count, len(operations))):
            if not len(op.results):  # not the barrier's number
                op.attributes[OF_COLLECTIVE] = self._mark(suffix)


def _in_a_loop() -> bool:
    """Whether what is traced now is in a loop of the kernel."""
    op = ir.InsertionPoint.current.block.owner.operation
    while op.name != "gpu.launch":
        if op.name in ("scf.for", "scf.while"):
            return True
        op = op.parent.operation
    return False


@dataclass(frozen=True)
class Scratch:
    """``rows`` rows of ``places`` words in shared memory, row ``first`` being this group's first.

    ``memory``: an array of 32-bit elements. ``aligned``: its rows start at multiples of 16 bytes.
    """

    memory: Array
    places: int
    first: Int
    aligned: bool

    @classmethod
    def of(cls, given: Array | None, rows: int, places: int, groups: int, group: Int, what: str) -> Scratch:
        """Of the kernel's own, or of what the user gave. ``rows``: those of each of ``groups`` groups."""
        row = -(-places // _ACCESS) * _ACCESS if given is None else places
        total = groups * rows * row
        if given is None:
            offset = scope.current(what).allocate(total * 4, _ACCESS * 4)
            given, own = get_dynamic_shared_memory((total,), dtypes.i32.ir, offset), True
        else:
            _check(given, total, what)
            own = False
        return cls(given, row, group * (rows * row), own)

    def leave(self, row: int, place: Int, word: Value) -> None:
        self.memory[self._at(row, place)] = as_type(word, self.memory.dtype)

    def leave_at(self, rank: Int, row: int, place: Int, word: Value) -> None:
        """In block ``rank`` of the cluster (``st.shared::cluster``)."""
        at = byte_offset(base_address(self.memory), self._at(row, place) * 4)
        llvm.StoreOp(as_type(word, dtypes.i32), mapa(at, rank), alignment=4)

    def take(self, row: int, place: Int) -> Value:
        """The word at a place."""
        return self.memory[self._at(row, place)]

    def take_all(self, row: int, count: int) -> list[Value]:
        """The first ``count`` words of a row."""
        if not self.aligned or count == 1:
            return [self.take(row, place) for place in range(count)]
        vectors = [self.memory.load_vector(self._at(row, at), _ACCESS) for at in range(0, count, _ACCESS)]
        return [vectors[place // _ACCESS][place % _ACCESS] for place in range(count)]

    def _at(self, row: int, place: Int) -> Int:
        return self.first + (place + row * self.places)


def _check(given: Array, words: int, what: str) -> None:
    good = isinstance(given, Array) and given.ndim == 1 and given.dtype.bits == 32 and given.strides == (1,)
    if not good or "workgroup" not in str(given.type) or given.shape[0] < words:
        raise trace_error(
            f"{what} with scratch={given!r}",
            rule=f"this use needs an array of {words} x 32 bits in shared memory: what a value has, of each warp",
            fix=f"nv.smem({words}, nv.i32); without scratch= it allocates its own",
        )
