"""Storing rows that start anywhere, 16 bytes at a time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import nvdsl as nv
from nvdsl.kernels.blocks.realigned import VECTOR, shifted_vector
from nvdsl.lang.packing import as_vector, as_words


def store_rows(
    out: nv.Array, at: tuple[Any, ...], end: Any, sides: tuple[Any, Any], bits: Any, thread: Any, threads: int,
    vector: Callable[[Any, Any], Any], element: Callable[[Any, Any], Any],
) -> None:  # fmt: skip
    """Store a tile of ``sides``, rows and columns, whose first element is ``out[at]``, but no rows from ``end`` on.

    ``out``: rows contiguous, of 16- or 32-bit elements, wherever they start in memory that starts at a multiple of 16
    bytes. By so many ``threads``. ``vector``, ``element``: what gives those of shared memory, from (row, column).
    ``bits``: a tile's row has 2 to this power of vectors.

    What of a row lies in whole vectors of 16 bytes is stored as such: a thread reads the two vectors of shared memory
    in which its one lies, and shifts them together. The elements before the first vector and behind the last one, fewer
    than 16 bytes each, are stored one by one.
    """
    (*of_batch, row, col), (*of_batches, pitch, _), (height, widest) = at, out.strides, sides
    each = VECTOR // out.dtype.bytes
    width = nv.min(widest, out.shape[-1] - col)

    def head(r: Any) -> Any:
        """Elements of a row before the first that starts at a multiple of 16 bytes."""
        start = (row + r) * nv.i32(pitch) + col
        for index, step in zip(of_batch, of_batches, strict=True):
            start = start + index * nv.i32(step)
        return -start & (each - 1)  # wrapped around, it is right yet

    for number in nv.range(thread, height << bits, threads, unroll=2):
        r, unit = number >> bits, number & (1 << bits) - 1
        before = head(r)
        c = unit * each + before
        if (row + r < end) & (c + each <= width):
            two = [vector(r, nv.min(unit + i, (width - 1) // each) * each) for i in (0, 1)]
            found = shifted_vector(as_words(two, out.dtype), before * (out.dtype.bytes * 8))
            out.store_vector(as_vector(found, out.dtype), (*of_batch, row + r, col + c))
    # Inside of a row both ends together are a vector. Where the result ends, each may be one but for an element.
    bits = each.bit_length() - nv.select(width == widest, 1, 0)
    for number in nv.range(thread, height << bits, threads, unroll=2):
        r, c = number >> bits, number & (1 << bits) - 1
        before = head(r)
        c = nv.select(c < before, c, c + nv.max(width - before, 0) // each * each)
        if (row + r < end) & (c < width):
            out[(*of_batch, row + r, col + c)] = element(r, c)
