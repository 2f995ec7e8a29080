"""Distributed shared memory: the tiles and arrays of another block of the cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nvdsl.errors import trace_error
from nvdsl.lang import atomics, predicated, vector_access
from nvdsl.mlir import ir
from nvdsl.mlir.dialects import llvm
from nvdsl.ops.cluster import check_rank, mapa
from nvdsl.ops.mbarrier import Mbarrier
from nvdsl.ops.st_async import st_async
from nvdsl.values import arith, dtypes
from nvdsl.values.dtypes import DType
from nvdsl.values.traced import Value, as_value, bitcast, stored, wrap
from nvdsl.values.typing import Int, Number, Pointer

if TYPE_CHECKING:
    from nvdsl.lang.array import Array
    from nvdsl.lang.tile import Tile


class Remote:
    """What lies in block ``rank`` of the cluster where ``local``, a tile or an array in shared memory, lies here.

    ``tile.at(rank)`` makes one. Subscripts, vectors and atomics are those of the tile or array, through ``mapa`` and
    ``ld.shared::cluster``, ``st.shared::cluster``; indices are checked in the same way. The other block has begun
    before (a `cluster_sync`), and does not return before the last access (another one).
    """

    __nv_unprintable__ = "print(tile.at(rank)[row, column])"

    def __init__(self, local: Tile | Array, rank: Int) -> None:
        self.local, self.rank = local, rank

    @property
    def shape(self) -> tuple[Any, ...]:
        """Extents in elements."""
        return self.local.shape

    @property
    def dtype(self) -> DType:
        """The element type."""
        return self.local.dtype

    def __getitem__(self, key: Any) -> Value:
        """Load an element from the other block (``ld.shared::cluster``)."""
        return self._load(self._element_place(key), self._in_memory())

    def __setitem__(self, key: Any, value: Number) -> None:
        """Store an element there (``st.shared::cluster``), converted to the type of the elements."""
        self._store(stored(value, self.dtype), self._element_place(key))

    def vector(self, key: Any, count: int) -> Value:
        """``count`` neighbouring elements from ``key`` on, read as one access: see `Array.vector`."""
        vector_access.size(count, self.dtype, 1)
        type = ir.VectorType.get([count], self._in_memory())
        return self._load(self._element_place(key, count), type, count)

    def store_vector(self, value: Value, key: Any) -> None:
        """Store a vector to neighbouring elements from ``key`` on, as one access: see `Array.store_vector`."""
        value = vector_access.converted(value, self.dtype)
        vector_access.size(value.shape[0], self.dtype, 1)
        self._store(value, self._element_place(key, value.shape[0]), value.shape[0])

    def store_async(self, value: Number, key: Any, barrier: Mbarrier) -> None:
        """Store an element, or a vector, and complete its bytes on the other block's ``barrier`` (``st.async``).

        The thread does not wait. There, `Mbarrier.arrive_expect_tx` announces the bytes of all threads, and who waits
        for that phase sees them. 4, 8 or 16 bytes: elements of 32 or 64 bits, or vectors. Raises TraceError for others.
        """
        number = as_value(value) if isinstance(value, ir.Value) else value
        count = number.shape[0] if isinstance(number, Value) and number.shape else 1
        given = vector_access.converted(number, self.dtype) if count > 1 else stored(number, self.dtype)
        if count * self.dtype.bytes not in (4, 8, 16) or self.dtype is dtypes.bool_:
            raise trace_error(
                f"store_async of {count} x {self.dtype.name} ({count * self.dtype.bytes} bytes)",
                rule="st.async stores 4, 8 or 16 bytes (PTX ISA, st.async)",
                fix="store a vector: peer.store_async(nv.vector([a, b]), key, barrier)",
            )
        if not isinstance(barrier, Mbarrier):
            raise trace_error(
                f"store_async with {barrier!r} as its mbarrier",
                rule="the bytes complete on an mbarrier of the other block",
                fix="index the group: bars[stage], the one here that corresponds to it",
            )
        place = self._element_place(key, count)
        st_async(place, _words(given), mapa(barrier.pointer, self.rank))

    store = predicated.store

    # Atomics on one element: see `nvdsl.lang.atomics`.
    atomic_add = atomics.atomic_add
    atomic_sub = atomics.atomic_sub
    atomic_min = atomics.atomic_min
    atomic_max = atomics.atomic_max
    atomic_and = atomics.atomic_and
    atomic_or = atomics.atomic_or
    atomic_xor = atomics.atomic_xor
    atomic_exch = atomics.atomic_exch
    atomic_cas = atomics.atomic_cas
    atomic_inc = atomics.atomic_inc
    atomic_dec = atomics.atomic_dec

    def _element_place(self, key: Any, count: int = 1) -> Pointer:
        """Address of an element there, or of ``count`` from it on, ``!llvm.ptr<7>``."""
        return mapa(self.local._element_place(key, count), self.rank)

    def _in_memory(self) -> ir.Type:
        """LLVM has no 8-bit floats, and bool is a byte."""
        return self.dtype.ir if self.dtype.arithmetic and self.dtype.bits > 1 else ir.IntegerType.get_signless(8)

    def _load(self, pointer: Pointer, type: ir.Type, count: int = 1) -> Value:
        loaded = llvm.LoadOp(type, pointer, alignment=count * self.dtype.bytes).result
        if self.dtype is dtypes.bool_:
            return as_value(loaded) != 0
        if not self.dtype.arithmetic:
            loaded = arith.emit("arith.bitcast", arith.like(type, self.dtype.ir), loaded)
        return wrap(loaded, self.dtype)

    def _store(self, value: Value, pointer: Pointer, count: int = 1) -> None:
        raw: ir.Value = value
        if self.dtype is dtypes.bool_:
            raw = dtypes.u8(value)
        elif not self.dtype.arithmetic:
            raw = arith.emit("arith.bitcast", arith.like(value.type, self._in_memory()), value)
        llvm.StoreOp(raw, pointer, alignment=count * self.dtype.bytes)

    def __repr__(self) -> str:
        return f"{self.local!r}.at({self.rank if isinstance(self.rank, int) else '...'})"


def remote(local: Tile | Array, rank: Int, shared: bool) -> Remote:
    """Raises TraceError for an array in global memory, which all blocks have, and for a rank that is not there."""
    if not shared:
        raise trace_error(
            f"{local!r}.at(rank), in global memory",
            rule="each block of the cluster has shared memory of its own; global memory is that of all",
            fix="nv.smem(...).at(rank); x[i] for global memory",
        )
    check_rank(rank)
    return Remote(local, rank)


def _words(value: Value) -> list[Value]:
    """The bits as words of 32 bits, or of 64 where the elements have as many."""
    bits = 64 if value.dtype.bits == 64 else 32
    word = dtypes.i64 if bits == 64 else dtypes.i32
    if not value.shape:
        return [bitcast(value, word) if value.dtype.is_float else wrap(value, word)]
    count = value.shape[0] * value.dtype.bits // bits
    type = ir.VectorType.get([value.shape[0]], ir.IntegerType.get_signless(value.dtype.bits))
    raw = arith.emit("arith.bitcast", type, value) if value.dtype.is_float else value
    if value.dtype.bits != bits:
        raw = arith.emit("vector.bitcast", ir.VectorType.get([count], word.ir), raw)
    return list(wrap(raw, word)) if not isinstance(raw, Value) or raw.dtype is not word else list(raw)
