"""Run: what the steps of one call share."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Any

from nvdsl.driver.cuda import Cuda, CudaError


class Run:
    """One call of an executable: the driver, the stream, the loaded kernels, and the memory taken so far."""

    __slots__ = ("_allocations", "cuda", "functions", "stream", "sync")

    def __init__(self, cuda: Cuda, stream: int, functions: Sequence[Any], sync: bool) -> None:
        self.cuda, self.stream, self.functions, self.sync = cuda, stream, functions, sync
        self._allocations: list[int] = []

    def alloc(self, size: int) -> int:
        """``size`` bytes of device memory in stream order, freed at the end of the call at the latest."""
        pointer = self.cuda.alloc(size, self.stream)
        self._allocations.append(pointer)
        return pointer

    def free(self, pointer: int) -> None:
        if pointer in self._allocations:
            self._allocations.remove(pointer)
            self.cuda.free(pointer, self.stream)

    def release(self) -> None:
        """Free what is left, in stream order."""
        while self._allocations:
            self.cuda.free(self._allocations.pop(), self.stream)

    def abandon(self) -> None:
        """Free what can be freed after an error; a lost context frees nothing, and needs no second error."""
        with contextlib.suppress(CudaError):
            self.release()
