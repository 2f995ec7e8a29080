"""What products with quantized weights load: x, weights in the order of registers, scales and zero points."""

from __future__ import annotations

from typing import Any

import nvdsl as nv
from nvdsl.errors.records import dataclass
from nvdsl.kernels.blocks.dequantize import BITS, NIBBLES, unpacked, zero_pair
from nvdsl.ops.fence import fence_mbarrier_init

SLICE = 128
"""Elements of K in a slot of the ring."""
COLUMNS = 256
"""Of w, whose weights of a slice lie side by side; what all columns are rounded up to."""
COLUMNS_OF_PART, THREADS_OF_PART = 16, 32
"""Of these, the columns that lie together: the rows of A that a warp has in its registers, of mma.sync or wgmma."""
BESIDE_SLOTS = 16
"""Bytes of shared memory for what all slices are unpacked with."""
SPLITS = (1, 2, 4, 8)
"""Blocks of a cluster that share K."""


def rotated(step: Any, first: Any, steps: Any) -> Any:
    """The slice that a tile sums as its ``step``-th one: each tile begins with another one, ``first``. Otherwise all
    blocks would ask L2 for the same part of x at the same time."""
    return nv.select(step < steps - first, step + first, step + first - steps)


class OwnRing(nv.Ring):
    """A `nvdsl.Ring` of which those who load a slot make its barriers, by `begin`. They need not wait for the block's
    threads, which meet before they wait for a slot, to load what comes first."""

    def __init__(self, stages: int, *, bytes: Any, consumers: int) -> None:
        self.stages, self.bytes, self.consumers = stages, bytes, consumers
        self.full, self.empty = nv.Mbarriers(stages), nv.Mbarriers(stages)

    def begin(self, first: Any = 0, step: int = 1) -> None:
        """Make the barriers of slots ``first``, ``first + step``, ... By one thread, which loads these."""
        for slot in range(0, self.stages, step):
            self.full[first + slot].init(1)
            self.empty[first + slot].init(self.consumers)
        fence_mbarrier_init()


@dataclass(frozen=True)
class Slot:
    """The slot of a ring that is ``more`` ones behind the ``first``. That one is known when the kernel is traced, so
    that much of an address is an instruction's offset."""

    first: int
    more: nv.Int = 0

    @property
    def number(self) -> nv.Int:
        """Of the ring's slots."""
        return self.first + self.more if self.first else self.more

    def behind(self, memory: nv.Array, each: int) -> nv.Array:
        """``memory``, which has ``each`` elements for a slot, from the first one on."""
        return memory[self.first * each :] if self.first else memory


class Operands:
    """A slice of x, of the weights of a tile's columns, and of their scales (and zero points) in each slot of a ring.
    Made in the host function; `allocate` is called in the kernel.

    ``rows``, ``cols``: of the tile. ``tables``: scales, and zero points where there are any. ``once``: each weight is
    read by one block alone, so that L2 gives it up first.
    """

    def __init__(
        self, x: nv.Array, weights: nv.Array, tables: list[nv.Array], kind: str, group: int, rows: int, cols: int,
        stages: int, once: nv.Bool,
    ) -> None:  # fmt: skip
        self.weights, self.tables, self.kind, self.group = weights, tables, kind, group
        self.rows, self.cols, self.stages = rows, cols, stages
        self.hint = nv.select(once, nv.i64(nv.L2_EVICT_FIRST), nv.i64(nv.L2_EVICT_NORMAL))
        self.dtype, self.slices = x.dtype, nv.cdiv(x.shape[1], SLICE)
        self.swizzle = min(2 * group, 128)  # the bytes of a panel: a group is made of whole ones
        self.present = nv.min(rows, x.shape[0])  # rows beyond the array take TMA as long as others
        self.map = nv.TMA(x, tile=(rows, SLICE), swizzle=self.swizzle, rows=self.present)
        self.words = SLICE * BITS[kind] // 64  # of a thread
        self.of_part = THREADS_OF_PART * self.words
        self.parts = cols // COLUMNS_OF_PART
        self.each = self.of_part * self.parts
        self.groups = max(1, SLICE // group)  # of a slice
        self.width = SLICE // self.groups
        whole = self.slot_bytes(rows, cols, BITS[kind], group, sum(table.dtype.bytes for table in tables))
        self.bytes = whole - (rows - self.present) * SLICE * self.dtype.bytes

    @staticmethod
    def slot_bytes(rows: int, cols: int, bits: int, group: int, scale_bytes: int) -> int:
        """Bytes of a slot. ``scale_bytes``: of a scale and a zero point."""
        return rows * SLICE * 2 + cols * SLICE * bits // 8 + cols * max(1, SLICE // group) * scale_bytes

    def allocate(self) -> None:
        """The slots. By all threads, which meet before they use them."""
        self.X = nv.smem((self.stages, self.rows, SLICE), self.dtype, swizzle=self.swizzle)
        self.W = nv.smem(self.stages * self.each, nv.i32)
        self.S = [nv.smem(self.stages * self.groups * self.cols, table.dtype) for table in self.tables]
        self.nibbles = nv.smem(BESIDE_SLOTS // 4, nv.i32)
        if nv.thread_id.x == 0:
            self.nibbles[0] = NIBBLES

    def clear(self, thread: Any, threads: int) -> None:
        """Zero the rows of x that no load writes, in all slots: a warp reads eight whole rows. By all threads, which
        meet before they read."""
        each = 16 // self.dtype.bytes
        units, zeros = SLICE // each, nv.vector([self.dtype(0)] * each)
        for unit in nv.range(thread, (self.rows - self.present) * units, threads, unroll=False):
            for stage in range(self.stages):
                self.X[stage].store_vector(zeros, (self.present + unit // units, unit % units * each))

    def load(self, stage: Any, full: nv.Mbarrier, row: Any, col: Any, k: Any) -> None:
        """Load slice ``k`` of the tile at (``row``, ``col``). By one thread."""
        # Beyond the end of K, x is zero, and the weights of any slice do.
        inside = nv.min(k, self.slices - 1)
        packed, part = col // COLUMNS, col % COLUMNS // COLUMNS_OF_PART
        if COLUMNS % self.cols == 0:
            self._load_parts(stage, 0, full, inside, packed, part, self.parts)
        else:
            first = nv.min(self.parts, COLUMNS // COLUMNS_OF_PART - part)
            self._load_parts(stage, 0, full, inside, packed, part, first)
            if first < self.parts:
                self._load_parts(stage, first, full, inside, packed + 1, 0, self.parts - first)
        for table, slots in zip(self.tables, self.S, strict=True):
            for number in nv.range(self.groups, unroll=False):
                place = nv.min(inside * SLICE // self.group + number, table.shape[0] - 1), col
                start, source = (stage * self.groups + number) * self.cols, table.view(place, (1, self.cols))
                bytes = self.cols * table.dtype.bytes
                nv.bulk_load(slots[start : start + self.cols], source, bytes, full, l2_hint=self.hint)
        self.map.load(self.X[stage], full, (row, k * SLICE))  # last: its tensor map is fetched first

    def _load_parts(self, stage: Any, to: Any, full: nv.Mbarrier, k: Any, row: Any, part: Any, count: Any) -> None:
        """``count`` parts of slice ``k`` of the 256 columns of a ``row``, to a slot's parts from ``to`` on."""
        first = (k * (COLUMNS // COLUMNS_OF_PART) + part) * self.of_part
        source, start = self.weights.view((row, first), (1, self.each)), stage * self.each + to * self.of_part
        nv.bulk_load(self.W[start : start + self.each], source, count * (4 * self.of_part), full, l2_hint=self.hint)

    def left(self, col: Any) -> Any:
        """Where the tile that stores columns from ``col`` on begins: all of its columns have been packed."""
        return col if COLUMNS % self.cols == 0 else nv.min(col, self.weights.shape[0] * COLUMNS - self.cols)

    def of_columns(self, slot: Slot, number: int, column: Any) -> tuple[list[Any], list[Any]]:
        """Of ``column`` and the eighth one from it, in a slot's group ``number``: the scales, and what `dequantized`
        subtracts."""
        first = (slot.more * self.groups + number) * self.cols + column
        tables = [slot.behind(table, self.groups * self.cols) for table in self.S]
        found = [[nv.f32(table[first + i]) for i in (0, 8)] for table in tables]
        zeros = found[1] if len(found) > 1 else [nv.f32(2.0 ** (BITS[self.kind] - 1))] * 2
        if self.kind == "e4m3":
            return found[0], []
        return found[0], [zero_pair(self.kind, self.dtype, zero, row) for row, zero in enumerate(zeros)]

    def words_of(self, slot: Slot, part: Any, thread: Any, left: int, count: int, nibbles: Any) -> list[Any]:
        """The weights of one of the 64 threads of a part, `unpacked`: ``count`` elements of K from ``left`` on.
        Vectors of 16 bytes, thread beside thread."""
        memory, start = slot.behind(self.W, self.each), slot.more * self.each + part * self.of_part
        first, count = (x * self.words // SLICE for x in (left, count))
        found: list[Any] = []
        for i in range(first, first + count):
            if i == first or i % 4 == 0:
                vectors = start + i // 4 * 4 * THREADS_OF_PART
                found += list(memory.vector(vectors + thread * 4 + i % 4, min(4 - i % 4, count)))
        return unpacked(found[:count], self.kind, self.dtype, nibbles)
