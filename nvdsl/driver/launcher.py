"""Launcher: an executable for arrays of which all but the address is known. What a repeated call runs.

Where it comes with the very same addresses a second time, its launches are packed: kept with all parameters written.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from nvdsl.driver import stream as streams
from nvdsl.driver.array_spec import Place
from nvdsl.driver.device import Device

if TYPE_CHECKING:
    from nvdsl.driver.executable import Executable

_MOST = 1024  # addresses that are remembered, before that starts again


class Launcher:
    """An executable on one device, for arrays of fixed specs that lie there and belong to one library.

    Made by `Executable.prepare`, after a call that checked all that the specs decide. What is left: addresses, numbers,
    the stream, the context. Keeps no array. It remembers addresses, but reads nothing there: a packed launch is right
    for whatever array of the same spec lies at its address. Safe to call from several threads.
    """

    def __init__(self, executable: Executable, device: Device, place: Place) -> None:
        self._executable, self._device, self._place = executable, device, place
        self._is_current, self._context = device.cuda.is_current, device.context
        self._current_stream = place.library.stream_of(place.device)
        self._aligned = [argument for argument in executable.arrays if argument.unaligned]
        self._rest = executable.template[1 + executable.count :]
        self._run = device.within(executable.run_on, device, 0)
        self._packed: dict[tuple[int, ...], Callable[[], None] | None] = {}  # None: seen once

    def __call__(self, values: Sequence[Any], stream: Any = None) -> None:
        """Run with the arrays' addresses and the numbers, in the order of the executable's arguments.

        ``stream``: see `nvdsl.driver.stream.resolve`; with None the current one of the arrays' library. Raises
        ArgumentError for an address or a number that doesn't fit, DeviceError for what the driver reports.
        """
        handle = self._current_stream() if stream is None else streams.resolve(stream)
        at = (handle, *values)
        go = self._packed.get(at) or self._unpacked(at, values, handle)
        if self._is_current(self._context):
            go()
        else:
            self._device.within(go)

    def _unpacked(self, at: tuple[int, ...], values: Sequence[Any], handle: int) -> Callable[[], None]:
        """The call, with its arguments checked and converted."""
        executable, run = self._executable, self._run
        for argument in self._aligned:
            if values[argument.index] & argument.unaligned:
                argument.check_memory(values[argument.index], self._place)
        if run.stream != handle or not executable.plain:  # a run that may allocate is one call's own
            run = self._run = executable.run_on(self._device, handle)
        frame = [run, *values, *self._rest]
        for scalar in executable.scalars:
            frame[scalar.slot] = scalar.convert(frame[scalar.slot])
        if at in self._packed:
            return functools.partial(self._pack, at, frame)
        if executable.plain and not (executable.scalars and 0 in values):  # 0.0 and -0.0 would be one key
            self._remember(at, None)
        return functools.partial(executable.execute, frame, run)

    def _pack(self, at: tuple[int, ...], frame: list[Any]) -> None:
        go = functools.partial(_launch, frame[0], self._executable.pack(frame))
        self._remember(at, go)
        go()

    def _remember(self, at: tuple[int, ...], packed: Callable[[], None] | None) -> None:
        if len(self._packed) >= _MOST:
            self._packed.clear()
        self._packed[at] = packed


def _launch(run: Any, packed: Sequence[tuple[Any, Any]]) -> None:
    for launch, record in packed:
        launch.launch(run, record)
