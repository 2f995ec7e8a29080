"""Accesses that have elements of a row in part: its first one and its last ones, where rows begin anywhere in memory.

They are loaded whole, with the elements of the rows beside it, which others may be writing: these are taken out of
registers then. A row that is wrapped has its last elements in the place of those before its first one.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

import nvdsl as nv
from nvdsl.kernels.rows.staged import Edge, group_of, joined
from nvdsl.lang.packing import as_vector, as_words
from nvdsl.ops.pointer import GLOBAL, element_address

if TYPE_CHECKING:
    from nvdsl.kernels.rows.row import Row

_WORD = 32
"""Bits."""


def border(row: Row, step: int) -> Any:
    """The element of an access with which the row begins, if it is the first one, or that is behind the row's last."""
    return -row.column(0) if step == 0 else row.end - row.column(step)


def within(row: Row, step: int) -> list[Any]:
    """Whether each element of an access is the row's. Those of ``config.grain`` share a condition."""
    grain, wide, at = row.config.grain, row.config.wide, border(row, step)
    there = [first >= at if step == 0 else first < at for first in range(0, wide, grain)]
    if step == 0 and row.config.wrapped:
        last = border(row, row.config.steps)
        there = [one | (i * grain < last) for i, one in enumerate(there)]
    return [there[i // grain] for i in range(wide)]


def load(row: Row, x: nv.Array, step: int, missing: float, policy: Any = None) -> Any:
    """An access, for `cut`. What is behind the last row, or rows that all are the same, need not be their memory."""
    wide, at, front = row.config.wide, border(row, step), step == 0
    part, there = nv.vector([missing] * wide, x.dtype), row.exists & ((at < wide) if front else (at > 0))
    another = (row.index + 1 < x.shape[0]) & (nv.i64(x.strides[0]) >= wide)
    if there & (True if front else (at >= wide) | another):
        part = _loaded(x, row.at(step), wide, at, front, policy)
    elif there:
        part = _gathered(row, x, step, missing)
    return part


def cut(row: Row, part: Any, step: int, missing: float, wrapped: Any = None) -> Any:
    """An access as it was loaded, with ``missing`` in the place of elements that are not the row's; or with those of
    ``wrapped``, the access behind the last one, in the first one."""
    if not row.config.ragged or row.full(step):
        return part
    other = nv.vector([missing] * row.config.wide, part.dtype)
    if wrapped is not None:
        other = _replaced(wrapped, border(row, row.config.steps), other, False)
    return _replaced(part, border(row, step), other, step == 0)


def all_cut(row: Row, parts: list[Any], missing: float) -> list[Any]:
    """Those of a row, which are one more where it is wrapped."""
    steps = row.config.steps
    wrapped = [parts[steps] if step == 0 and row.config.wrapped else None for step in range(steps)]
    return [cut(row, parts[step], step, missing, wrapped[step]) for step in range(steps)]


def _loaded(x: nv.Array, key: tuple[Any, Any], wide: int, at: Any, front: bool, policy: Any) -> Any:
    """An aligned access of 8 or 16 bytes, with 0 for what is not the row's."""
    size = x.dtype.bytes
    each, count = 4 // size, wide * size // 4

    def meaning(pointer: Any, at: Any, *_: Any) -> tuple[Any, ...]:
        words = []
        for i in range(count):
            word = np.zeros(len(at), np.uint32)
            for k in range(each):
                mine = i * each + k >= at if front else i * each + k < at
                place = np.where(mine, i * each + k, at if front else at - 1)
                found = pointer.load(nv.u16 if size == 2 else nv.u32, place * size)
                word |= np.where(mine, found, 0).astype(np.uint32) << np.uint32(k * 8 * size)
            words.append(word.view(np.int32))
        return tuple(words)

    hint, given = (".L2::cache_hint", [policy]) if policy is not None else ("", [])
    place, last = element_address(x, key, x.strides, GLOBAL), f", ${count + 2}" if given else ""
    words = ", ".join(f"${i}" for i in range(count))
    text = f"{{ ld.global{hint}.v{count}.b32 {{{words}}}, [${count}]{last}; // ${count + 1} is for the meaning\n}}"
    return as_vector(nv.ptx(text, place, at, *given, result=[nv.i32] * count, meaning=meaning), x.dtype)


def _replaced(values: Any, at: Any, others: Any, front: bool) -> Any:
    """``values``, with those of ``others`` in the place of elements before ``at``, or from there on. Word by word."""

    def meaning(word: Any, other: Any, bits: Any) -> Any:
        bits = np.clip(bits.astype(np.int64), 0, _WORD).astype(np.uint64)
        mask = (np.uint64(2**_WORD - 1) << bits).astype(np.uint32).view(np.int32)
        return word & mask | other & ~mask if front else other & mask | word & ~mask

    one, other = ("$1", "$2") if front else ("$2", "$1")
    text = f"{{ .reg .b32 m; max.s32 m, $3, 0; shl.b32 m, -1, m; lop3.b32 $0, m, {one}, {other}, 0xCA; }}"
    dtype = values.dtype
    pairs = zip(as_words([values], dtype), as_words([others], dtype), strict=True)
    words = [
        nv.ptx(text, *pair, at * dtype.bits - i * _WORD, result=nv.i32, meaning=meaning, volatile=False)
        for i, pair in enumerate(pairs)
    ]
    return as_vector(words, dtype)


def _gathered(row: Row, x: nv.Array, step: int, missing: float) -> Any:
    """What the row has of an access, ``config.grain`` elements at a time."""
    grain, found = row.config.grain, []
    for i in range(0, row.config.wide, grain):
        piece, col = nv.vector([missing] * grain, x.dtype), row.column(step) + i
        if row.exists and row.has(col):
            piece = x.vector((row.index, col), grain) if grain > 1 else nv.vector([x[row.index, col]])
        found.append(piece)
    return joined(found)


class Kept:
    """What is stored of accesses in part: it waits in shared memory until all of the warp have left theirs, and then a
    thread stores each ``config.grain`` elements, all at once."""

    def __init__(self, row: Row, dtype: nv.DType) -> None:
        self.row, self.wide, config = row, row.config.wide, row.config
        self.memory, self.first = nv.smem(2 * self.wide * config.groups, dtype), 2 * self.wide * group_of(config)

    def keep(self, step: int, values: Any) -> None:
        """By all threads, those of an access in part."""
        row, config = self.row, self.row.config
        count, first = row.part(step), self.first
        self.memory.store(first + (step > 0) * self.wide, values, predicate=(count > 0) & (count < self.wide))
        if step == 0 and config.wrapped:
            self.memory.store(first + self.wide, values, predicate=border(row, config.steps) > 0)

    def store(self, y: nv.Array) -> None:
        """By all threads."""
        row, grain = self.row, self.row.config.grain
        nv.sync_warp()
        for i, edge in enumerate(Edge.of(row, [nv.i32(0), row.end])):
            if edge.mine:
                at = self.first + i * self.wide + edge.piece * grain
                values = self.memory.vector(at, grain) if grain > 1 else nv.vector([self.memory[at]])
                row.store_access(y, edge.column, values)


def pieces(values: Any, count: nv.Int, grain: int, front: bool) -> Iterator[tuple[Any, Any, Any]]:
    """Of the first ``count`` elements of an access, or with ``front`` of its last ones, for a thread to store: each
    piece, where it begins, and whether it is there. A piece is a half of an access or none, a quarter or none, and so
    on down to ``grain``: the bits of ``count`` say which. Each lies at a multiple of its own size."""
    wide = values.shape[0]
    size = wide // 2
    while size >= grain:
        at, there = wide - (count & -size) if front else count & -2 * size, (count & size) != 0
        low, high = (nv.vector([values[k] for k in range(i, i + size)]) for i in (0, size))
        piece, other = (high, low) if front else (low, high)
        yield piece, at, there
        values = nv.where(there, other, piece)
        size //= 2
