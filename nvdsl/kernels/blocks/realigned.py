"""Copies of rows that start anywhere, as rows that TMA can read: 16 bytes at a time, whatever the type.

Where K is contiguous and its elements have 8 or 16 bits, `contiguous.pack` would load and store one element a thread.
Here a thread loads the two aligned vectors of 16 bytes that the one it writes lies in, and shifts them together.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import nvdsl as nv
from nvdsl.kernels.blocks.contiguous import THREADS, Copy
from nvdsl.kernels.blocks.divisor import Divisor
from nvdsl.lang.packing import as_vector, words_of

WORD, VECTOR = 4, 16
"""Bytes."""
WORDS = VECTOR // WORD
EACH = 4
"""Vectors that a thread writes."""


@nv.jit
def copies(*arguments: Any, kinds: tuple[str, ...]) -> None:
    """Copy arrays by one kernel. ``kinds``: of each; "words": (source, words, packed) as of `WordCopy`, "rows" and
    "turned": (source, packed) as of `contiguous.Copy`. ``arguments``: those of all copies, then the two pitches of each
    `WordCopy`."""
    each = [3 if kind == "words" else 2 for kind in kinds]
    given = [arguments[sum(each[:i]) : sum(each[: i + 1])] for i in range(len(each))]
    numbers = iter(arguments[sum(each) :])
    made: list[WordCopy | Copy] = []
    for kind, (source, *more) in zip(kinds, given, strict=True):
        if kind == "words":
            made.append(WordCopy(source, more[0], more[1], next(numbers), next(numbers)))
        else:
            made.append(Copy(source, more[0], kind == "turned"))
    counts = [copy.count for copy in made]

    @nv.kernel(grid=sum(counts[1:], counts[0]), block=THREADS, programmatic=True)
    def realigned_copies() -> None:
        nv.griddep_wait()  # of what may have written the source, and may yet read what was packed before
        nv.griddep_launch_dependents()
        if len(made) == 1:
            made[0].tile(nv.block_id.x)
        elif nv.block_id.x < counts[0]:
            made[0].tile(nv.block_id.x)
        else:
            made[1].tile(nv.block_id.x - counts[0])

    realigned_copies()


class WordCopy:
    """Of (rows, cols) or (batches, rows, cols), of contiguous rows of elements of 8 or 16 bits, to ``packed``. Made in
    the host function.

    ``words``: the same memory from the first element on, as (vectors, 4) of i32, as many whole ones as it has; one at
    least. ``pitch``, ``batch_pitch``: elements from row to row, and from batch to batch. ``packed``: (all
    rows, vectors, 4). What is behind a row's last element in its last vector is undefined. ``count``: of blocks."""

    def __init__(
        self, source: nv.Array, words: nv.Array, packed: nv.Array, pitch: nv.Int, batch_pitch: nv.Int
    ) -> None:
        self.source, self.words, self.packed = source, words, packed
        self.pitch, self.batch_pitch = pitch, batch_pitch
        *self.batches, self.rows, self.cols = source.shape
        units = nv.cdiv(self.cols * source.dtype.bytes, VECTOR)
        self.vectors = packed.shape[0] * units
        self.of_row, self.of_batch = Divisor.of(units), Divisor.of(self.rows)
        self.count = nv.cdiv(self.vectors, THREADS[0] * THREADS[1] * EACH)

    def tile(self, number: nv.Int) -> None:
        """Copy what block ``number`` copies. By all of its threads."""
        threads, last = THREADS[0] * THREADS[1], self.words.shape[0] - 1
        first = number * (threads * EACH) + nv.thread_id.y * THREADS[0] + nv.thread_id.x
        numbers = [first + i * threads for i in range(EACH)]
        places = [self.of_row.divmod(nv.min(n, self.vectors - 1)) for n in numbers]  # a row of all, and a vector
        starts = [self._begin(row) for row, _ in places]
        vectors = [nv.i32(start >> 4) + unit for start, (_, unit) in zip(starts, places, strict=True)]
        asked = [[self.words.vector((nv.min(at + i, last), 0), WORDS) for i in (0, 1)] for at in vectors]
        values = zip(numbers, places, starts, vectors, asked, strict=True)
        for n, (row, unit), start, at, (low, high) in values:
            if n < self.vectors:
                found = shifted_vector([*low, *high], nv.i32(start) % VECTOR * 8)
                self.packed.store_vector(as_vector(found, nv.i32), (row, unit, 0))
                # What the array ends with may be less than a vector.
                if at >= last:
                    self._end(row, unit)

    def _begin(self, row: Any) -> Any:
        """Bytes from the first element to a row's."""
        batch, row = self._row(row)
        return (nv.i64(row) * nv.i64(self.pitch) + nv.i64(batch) * nv.i64(self.batch_pitch)) * self.source.dtype.bytes

    def _row(self, row: Any) -> tuple[Any, Any]:
        """Batch and row of one of all rows."""
        return self.of_batch.divmod(row) if self.batches else (0, row)

    def _end(self, row: Any, unit: Any) -> None:
        """Copy a vector element by element."""
        each = VECTOR // self.source.dtype.bytes
        batch, of_batch = self._row(row)
        at = (batch,) * len(self.batches), of_batch
        ends = [self.source[(*at[0], at[1], nv.min(unit * each + i, self.cols - 1))] for i in range(each)]
        self.packed.store_vector(as_vector(words_of(ends, self.source.dtype), nv.i32), (row, unit, 0))


def shifted(low: Any, high: Any, bits: Any) -> Any:
    """The word that begins ``bits`` % 32 behind the lowest bit of two (PTX ISA, shf)."""

    def meaning(x: Any, y: Any, count: Any) -> Any:
        x, y = (word.view(np.uint32).astype(np.uint64) for word in (x, y))
        found = (y << np.uint64(32) | x) >> (count.view(np.uint32) % np.uint32(32)).astype(np.uint64)
        return found.astype(np.uint32).view(np.int32)

    return nv.ptx("shf.r.wrap.b32 $0, $1, $2, $3;", low, high, bits, result=nv.i32, meaning=meaning, volatile=False)


def shifted_vector(words: list[Any], bits: Any) -> list[Any]:
    """Four of eight words, from ``bits`` of the first one on: 0 to 127."""
    two, one = bits & 64 != 0, bits & 32 != 0
    words = [nv.select(two, words[i + 2], words[i]) for i in range(6)]
    words = [nv.select(one, words[i + 1], words[i]) for i in range(5)]
    return [shifted(words[i], words[i + 1], bits) for i in range(4)]
