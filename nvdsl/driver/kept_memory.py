"""Memory that the calls of one stream use one after the other, so that a repeated call takes none of its own."""

from __future__ import annotations

import threading

from nvdsl.driver.cuda import PER_THREAD_STREAM, Cuda, CudaError

MOST = 64 << 20
"""Bytes of a call, at most: one that needs more takes and gives back its own."""
LEAST = 1 << 16
ZEROS = 1 << 16
"""Bytes that calls find as zeros, and leave so."""
ALIGNMENT = 256
"""Of an array within it, as cuMemAlloc aligns."""


def padded(size: int) -> int:
    """Bytes that an array takes."""
    return -(-size // ALIGNMENT) * ALIGNMENT


class KeptMemory:
    """Of one stream. What a call does with it is over before the next call of that stream begins.

    ``lock``: of whoever puts a call's launches into the stream, so that no other call's come between. It is only tried:
    who doesn't get it takes memory of the call's own. Memory is never given back, since launches that are recorded hold
    addresses in it. It grows by doubling, so that all of it together is at most twice the last.
    """

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self._address = self._size = self._zeros = 0

    def reserve(self, size: int, cuda: Cuda, stream: int) -> int:
        """The address of at least ``size`` bytes. By the holder of the lock."""
        if size > self._size:
            grown = max(LEAST, 1 << (size - 1).bit_length())
            self._address, self._size = cuda.alloc(grown, stream), grown
        return self._address

    def zeros(self, cuda: Cuda, stream: int) -> int:
        """The address of `ZEROS` bytes of zeros. By the holder of the lock."""
        if not self._zeros:
            self._zeros = cuda.alloc(ZEROS, stream)
            cuda.fill(self._zeros, 0, 4, ZEROS // 4, stream)
        return self._zeros


class KeptMemories:
    """Of one device, by stream."""

    def __init__(self, cuda: Cuda) -> None:
        self._cuda = cuda
        self._known: dict[int, KeptMemory] = {}

    def of(self, stream: int) -> KeptMemory | None:
        """The memory of a stream, its lock taken; None where a call needs memory of its own: while a graph is captured,
        which may run beside the stream; for the handle that means another stream in each thread; and while another call
        is being put into the stream."""
        if stream == PER_THREAD_STREAM:
            return None
        try:
            if self._cuda.is_capturing(stream):
                return None
        except CudaError:  # what is wrong with the stream is said by who uses it
            return None
        memory = self._known.get(stream)
        if memory is None:
            memory = self._known.setdefault(stream, KeptMemory())
        return memory if memory.lock.acquire(blocking=False) else None
