"""Launcher: what a repeated call runs. All is known of its arrays but where they lie.

Where a call comes with the very same addresses a second time, its launches are recorded: kept with all parameters
written.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING, Any

from nvdsl.driver import stream as streams
from nvdsl.driver.arguments import Disjoint
from nvdsl.driver.array_spec import Place
from nvdsl.driver.cuda import CudaError
from nvdsl.driver.device import Device
from nvdsl.driver.kept_memory import MOST, KeptMemory
from nvdsl.driver.launch import Recorded
from nvdsl.driver.run import Run
from nvdsl.driver.stream import Stream

if TYPE_CHECKING:
    from nvdsl.driver.executable import Executable

_MOST = 1024  # addresses that are remembered, before that starts again


class Launcher:
    """An executable on one device, for arrays of fixed specs that lie there and belong to one library.

    ``more``: the executable's last arguments, which are no values of a call: extents and strides of the arrays.
    ``order``: for each argument of the executable its position among a call's values; None: they are the arguments.
    ``offsets``: bytes that are added to each argument, for each of several runs; None: one run, with nothing added.
    ``disjoint``: (position, position, what may not overlap) among a call's values. ``numbers``: the last values of each
    call, which give the others.

    Made by `Executable.launcher`, after a call that checked all that the specs decide. What is left: addresses,
    numbers, the stream, the context. It keeps no array. It remembers addresses, but reads nothing there: a recorded
    launch is right for whatever array of the same spec lies at its address. Safe to call from several threads.
    """

    def __init__(
        self,
        executable: Executable,
        device: Device,
        place: Place,
        more: Sequence[Any] = (),
        order: Sequence[int] | None = None,
        offsets: Sequence[Sequence[int]] | None = None,
        disjoint: Sequence[tuple[int, int, Disjoint]] = (),
        numbers: tuple[float, ...] = (),
    ) -> None:
        self._numbers = numbers
        self._executable, self._device, self._place = executable, device, place
        self._order, self._offsets, self._disjoint = order, offsets or [()], disjoint
        self._cuda, self._context = device.cuda, device.context
        self._asked_context = device.cuda.asked_context
        self._current_stream = place.library.stream_of(place.device)
        self._aligned = [argument for argument in executable.arrays if argument.unaligned]
        given = executable.count - len(more)
        settled = executable.settled(more)
        self._rest = settled[1 + given :]
        self._memory = executable.memory(settled) if executable.plain else 0
        self._repeats = executable.plain and self._memory <= MOST
        self._scalars = [scalar for scalar in executable.scalars if scalar.index < given]
        places = [scalar.index for scalar in self._scalars if scalar.dtype.is_float]
        order = range(given) if order is None else order
        self._floats = [order[i] for i in places if order[i] <= max(order) - len(numbers)]  # among a call's own values
        self._run = device.within(self._on, 0)
        self._recorded: dict[Hashable, Sequence[Recorded]] = {}  # by stream and values; (): seen once

    def __call__(self, values: tuple[Any, ...], stream: Stream | None = None) -> None:
        """Run with the arrays' addresses and the numbers.

        ``stream``: see `nvdsl.driver.stream.resolve`; with None the current one of the arrays' library. Raises
        ArgumentError for an address or a number that doesn't fit, DeviceError for what the driver reports.
        """
        handle = self._current_stream() if stream is None else streams.resolve(stream)
        cuda = self._cuda
        code, current = self._asked_context()
        elsewhere = code or not current == self._context
        if elsewhere:
            cuda.push_context(self._context)
        memory = None
        try:
            if self._memory:
                memory = self._device.memories.of(handle) if self._repeats else None
                if memory is None:
                    self._run_alone(handle, values)
                    return
            key: tuple[Any, ...] = (handle, values)
            for i in self._floats:
                if values[i] == 0:  # 0.0 and -0.0 are equal
                    key = (*key, math.copysign(1.0, values[i]))
            for launch in self._recorded.get(key) or self._unrecorded(key, handle, values, memory):
                try:
                    done = launch.again()
                    if done is not None and done[0]:
                        cuda.check(done[0])
                except CudaError as error:
                    raise launch.failure(error) from error
        finally:
            if memory is not None:
                memory.lock.release()
            if elsewhere:
                cuda.pop_context()

    def _unrecorded(
        self, key: Hashable, handle: int, values: tuple[Any, ...], memory: KeptMemory | None
    ) -> Sequence[Recorded]:
        """Check and convert the arguments, and run; or else give what is to be launched, recorded."""
        executable, run = self._executable, self._run
        if not executable.plain:
            self._run_alone(handle, values)
            return ()
        arguments = self._arguments(values)
        if memory is not None:  # each of the runs has all of it
            address = memory.reserve(self._memory, self._cuda, handle)
            zeros = memory.zeros(self._cuda, handle) if executable.restores else None
            runs = [self._on(handle, address, zeros) for _ in self._offsets]
        else:
            if run.stream != handle:
                run = self._run = self._on(handle)
            runs = [run for _ in self._offsets]
        frames = [self._frame(run, arguments, offsets) for run, offsets in zip(runs, self._offsets, strict=True)]
        if key in self._recorded:
            recorded = [launch for frame in frames for launch in executable.record(frame)]
            self._remember(key, recorded)
            return recorded
        self._remember(key, ())
        for run, frame in zip(runs, frames, strict=True):
            executable.execute(frame, run, settled=True)
        return ()

    def _run_alone(self, handle: int, values: tuple[Any, ...]) -> None:
        """Run with memory of the call's own."""
        run, arguments = self._on(handle), self._arguments(values)
        for offsets in self._offsets:
            self._executable.execute(self._frame(run, arguments, offsets), run, settled=True)

    def _on(self, handle: int, kept: int | None = None, zeros: int | None = None) -> Run:
        return self._executable.run_on(self._device, handle, kept, zeros, self._rest)

    def _arguments(self, values: tuple[Any, ...]) -> Sequence[Any]:
        """The executable's, of a call's values."""
        values += self._numbers
        for first, second, pair in self._disjoint:
            pair.check(values[first], values[second])
        return values if self._order is None else [values[i] for i in self._order]

    def _frame(self, run: Run, arguments: Sequence[Any], offsets: Sequence[int]) -> list[Any]:
        if offsets:
            arguments = [x + offset if offset else x for x, offset in zip(arguments, offsets, strict=True)]
        for argument in self._aligned:
            if arguments[argument.index] & argument.unaligned:
                argument.check_memory(arguments[argument.index], self._place)
        frame = [run, *arguments, *self._rest]
        for scalar in self._scalars:
            frame[scalar.slot] = scalar.convert(frame[scalar.slot])
        return frame

    def _remember(self, key: Hashable, recorded: Sequence[Recorded]) -> None:
        if len(self._recorded) >= _MOST:
            self._recorded.clear()
        self._recorded[key] = recorded
