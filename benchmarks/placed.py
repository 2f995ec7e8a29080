"""Arrays at places that are drawn: a kernel's speed depends on where its arrays lie in memory, and on where its results
lie relative to what it reads. So a benchmark of memory's bandwidth measures at several places. Needs torch."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

PAGE = 2 << 20
"""Bytes that a GPU maps, to a multiple of which torch rounds each large allocation."""


class Memory:
    """``pages`` pages of the GPU, and where arrays come to lie in them. ``seed``: of what is drawn."""

    def __init__(self, pages: int, seed: int) -> None:
        import torch

        self._memory = torch.empty(pages * PAGE, dtype=torch.uint8, device="cuda")
        self._pages, self._random = pages, random.Random(seed)

    def place(self, *sizes: int) -> list[Any]:
        """Memory of so many bytes each, on pages of their own, in any order and at any distance."""
        needed = {i: -(-size // PAGE) for i, size in enumerate(sizes)}
        order = self._random.sample(range(len(sizes)), len(sizes))
        gaps = sorted(self._random.randint(0, self._pages - sum(needed.values())) for _ in sizes)
        found, used = {}, 0
        for i, gap in zip(order, gaps, strict=True):
            first = (used + gap) * PAGE
            found[i], used = self._memory[first : first + sizes[i]], used + needed[i]
        return [found[i] for i in range(len(sizes))]

    @staticmethod
    def of(sizes: Sequence[int], seed: int) -> Memory:
        """Twice what arrays of these bytes take, and 256 pages more."""
        return Memory(2 * sum(-(-size // PAGE) for size in sizes) + 256, seed)
