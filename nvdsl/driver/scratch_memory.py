"""Device memory between the launches of one call: taken and given back in the order of the call's stream."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

import numpy

from nvdsl.driver import stream as streams
from nvdsl.driver.arguments import Disjoint
from nvdsl.driver.array_spec import Place
from nvdsl.driver.cuda import CudaError
from nvdsl.driver.device import Device, devices
from nvdsl.driver.kept_memory import MOST, padded
from nvdsl.driver.launcher import Launcher
from nvdsl.driver.staging import PHASE
from nvdsl.driver.stream import Stream


@contextmanager
def taken(wanted: Sequence[tuple[Place, int]], stream: Stream | None) -> Iterator[list[int]]:
    """The addresses of blocks of memory, each beside an array at its place, of so many bytes. Beside what stands for
    device arrays it is the host's."""
    if not wanted:
        yield []
        return
    place = wanted[0][0]
    if place.stands_in:
        blocks = [numpy.empty(size + PHASE, numpy.uint8) for _, size in wanted]
        yield [-(-block.ctypes.data // PHASE) * PHASE for block in blocks]
        return
    with _taken(devices.get(place.device), streams.resolve(stream, place), [size for _, size in wanted]) as pointers:
        yield pointers


@contextmanager
def _taken(device: Device, handle: int, sizes: Sequence[int]) -> Iterator[list[int]]:
    pointers: list[int] = []
    try:
        for size in sizes:
            pointers.append(device.within(device.cuda.alloc, size, handle))
        yield pointers
    finally:
        with suppress(CudaError):  # a lost context frees nothing, and needs no second error
            while pointers:
                device.within(device.cuda.free, pointers.pop(), handle)


class PackedLauncher:
    """What a repeated call runs that copies some of its arrays first, into memory that is kept where that is possible.
    Called as a `Launcher` is.

    ``copies``: for each such array its position among a call's values, and the bytes of its copy; ``copy`` makes all of
    them, of (array, copy, array, copy, ...). ``main`` runs then, with the copies in place of these arrays.
    ``disjoint``: see `Launcher`; of the arrays themselves.
    """

    def __init__(
        self,
        main: Launcher,
        copy: Launcher,
        copies: Sequence[tuple[int, int]],
        disjoint: Sequence[tuple[int, int, Disjoint]],
        place: Place,
    ) -> None:
        self._main, self._copy, self._disjoint, self._place = main, copy, tuple(disjoint), place
        self._device = devices.get(place.device)
        self._copied, self._sizes = [position for position, _ in copies], [size for _, size in copies]
        self._starts = list(itertools.accumulate(map(padded, self._sizes), initial=0))

    def __call__(self, values: tuple[Any, ...], stream: Stream | None = None) -> None:
        """Run with the arrays' addresses and the numbers. Raises what `Launcher` raises."""
        for first, second, pair in self._disjoint:
            pair.check(values[first], values[second])
        handle, given = streams.resolve(stream, self._place), list(values)
        with self._memory(handle) as pointers:
            made: list[Any] = []
            for position, pointer in zip(self._copied, pointers, strict=True):
                made += (values[position], pointer)
                given[position] = pointer
            self._copy(tuple(made), handle)
            self._main(tuple(given), handle)

    @contextmanager
    def _memory(self, handle: int) -> Iterator[list[int]]:
        """Where the copies are made."""
        device, size = self._device, self._starts[-1]
        kept = device.within(device.copies.of, handle) if size <= MOST else None
        if kept is None:
            with _taken(device, handle, self._sizes) as pointers:
                yield pointers
            return
        try:
            first = device.within(kept.reserve, size, device.cuda, handle)
            yield [first + start for start in self._starts[:-1]]
        finally:
            kept.lock.release()
