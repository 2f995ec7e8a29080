"""Run: what the steps of one call share."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Any

from nvdsl.driver.cuda import Cuda, CudaError
from nvdsl.driver.kept_memory import ZEROS, padded
from nvdsl.errors import Where


class Run:
    """One call of an executable: the driver, the stream, the loaded kernels, and the memory taken so far. ``kept``: the
    address of memory that its arrays come from, one after the other. ``zeros``: the address of `ZEROS` bytes that are
    zero before and after each call of the stream. ``restored``: addresses, bytes and lines of what ends as zeros.
    ``settled``: the very same object in all runs of which the shapes of arrays are the same; None: of no others."""

    __slots__ = (
        "_allocations", "_kept", "_left", "_zeros", "cuda", "functions", "restored", "settled", "stream", "sync"
    )  # fmt: skip

    def __init__(
        self, cuda: Cuda, stream: int, functions: Sequence[Any], sync: bool, kept: int | None = None,
        zeros: int | None = None, settled: object = None,
    ) -> None:  # fmt: skip
        self.settled = settled
        self._zeros, self._left = zeros, ZEROS
        self.restored: list[tuple[int, int, Where | None]] = []
        self.cuda, self.stream, self.functions, self.sync = cuda, stream, functions, sync
        self._allocations: list[int] = []
        self._kept = kept

    def alloc(self, size: int) -> int:
        """``size`` bytes of device memory in stream order, freed at the end of the call at the latest; or the next ones
        of memory that is kept."""
        if self._kept is not None:
            pointer, self._kept = self._kept, self._kept + padded(size)
            return pointer
        pointer = self.cuda.alloc(size, self.stream)
        self._allocations.append(pointer)
        return pointer

    def zeros(self, size: int) -> int | None:
        """The address of ``size`` bytes that are zero, and that kernels leave so. None where there are none."""
        if self._zeros is None or padded(size) > self._left:
            return None
        pointer, self._zeros, self._left = self._zeros, self._zeros + padded(size), self._left - padded(size)
        return pointer

    def free(self, pointer: int) -> None:
        if pointer in self._allocations:
            self._allocations.remove(pointer)
            self.cuda.free(pointer, self.stream)

    def release(self) -> None:
        """Free what is left, in stream order."""
        for pointer, size, line in self.restored:
            self.cuda.check_zeros(pointer, size, line)
        while self._allocations:
            self.cuda.free(self._allocations.pop(), self.stream)

    def abandon(self) -> None:
        """Free what can be freed after an error; a lost context frees nothing, and needs no second error."""
        self.restored.clear()
        with contextlib.suppress(CudaError):
            self.release()
