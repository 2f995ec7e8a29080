"""Debug mode on the host: one launch at a time, watched until it ends, and its log read when it does not end well.

A kernel's bounded waits stop it (`nvdsl.lower.watchdog`). Where it stops nowhere and says nothing new for a while, this
side gives up waiting; the kernel itself can only be ended with its process.
"""

from __future__ import annotations

import ctypes
import math
import time
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from nvdsl.driver import watchdog_log, watchdog_report
from nvdsl.driver.cuda import Cuda, CudaError, Dim3
from nvdsl.errors import WatchdogError
from nvdsl.hopper.arch import WARP_SIZE
from nvdsl.lower import device_log
from nvdsl.lower.device_log import Watch
from nvdsl.mlir import threads

_LOOK = 0.2
"""Seconds between two looks at the log."""

_STOPS = 1.0
"""Seconds from a warp's report until it is believed without CUDA's error, which says that the kernel has stopped. Where
kernels of other processes hang or stop at the same time, that may come seconds late; the report has been complete since
`debug_ptx.LINGER`."""

_BEGINS = 60.0
"""Seconds that a kernel may take to begin: other streams and other processes may have the GPU."""


class Log:
    """The slots that kernels write into, in host memory that all devices see."""

    def __init__(self, cuda: Cuda) -> None:
        size = device_log.SLOTS * device_log.SLOT.itemsize
        here, self.address = cuda.host_memory(size)
        memory: Any = (ctypes.c_char * size).from_address(here)
        self._bytes: Any = np.frombuffer(memory, np.uint8)
        self._slots = self._bytes.view(device_log.SLOT)
        self._cuda, self._stream = cuda, 0
        self._shape: tuple[Dim3, Dim3] = ((0, 0, 0), (0, 0, 0))
        self._used = 0
        self.hung: WatchdogError | None = None

    def clear(self, grid: Dim3, block: Dim3) -> None:
        """Make the log ready for a launch. Raises CudaError with what failed before it."""
        self._cuda.synchronize(self._stream)
        self._shape = (grid, block)
        self._used = min(math.prod(grid) * -(-math.prod(block) // WARP_SIZE), device_log.SLOTS)
        self._slots[: self._used] = 0

    def watch(self, kernel: str, watch: Watch) -> None:
        """Wait until the launch has ended. Raises WatchdogError with what the log says, or CudaError."""
        try:
            ended = self._wait(patience=2 * watch.timeout + 1)
        except CudaError as error:
            stopped = watchdog_report.stopped(kernel, self._read(watch), watch)
            if stopped is None:
                raise
            raise stopped from error
        if not ended:
            said = self._read(watch)
            stopped = watchdog_report.stopped(kernel, said, watch)
            if stopped is not None:
                raise stopped
            self.hung = watchdog_report.hung(kernel, said, watch)
            raise self.hung

    def use(self, stream: int) -> None:
        self._stream = stream

    def _wait(self, patience: float) -> bool:
        """False where the log says nothing new for too long, and the launch has not ended. ``patience``: how many
        seconds that is where the kernel has begun, and none of its warps has stopped it."""
        said, pause = 0, 2e-5
        looked = changed = time.monotonic()
        while not self._cuda.finished(self._stream):
            time.sleep(pause)
            pause = min(1.5 * pause, 0.01)
            now = time.monotonic()
            if now - looked > _LOOK:
                looked, says = now, zlib.crc32(self._bytes[: self._used * device_log.SLOT.itemsize])
                if says != said:
                    said, changed = says, now
                elif now - changed > self._silence(patience):
                    return False
        return True

    def _silence(self, patience: float) -> float:
        """Seconds without news after which a launch isn't waited for any longer."""
        states = self._slots["state"][: self._used]
        if (states == device_log.FAULT).any():
            return _STOPS
        return patience if states.any() else _BEGINS

    def _read(self, watch: Watch) -> watchdog_log.Launch:
        return watchdog_log.read(self._slots[: self._used].copy(), *self._shape, watch)


_lock = threads.lock()
_log: Log | None = None


def attach(cuda: Cuda, module: Any) -> None:
    """Tell a loaded module's kernels where the log is."""
    with _lock:
        address = ctypes.c_uint64(_the_log(cuda).address)
        cuda.copy(cuda.variable(module, device_log.SYMBOL), ctypes.addressof(address), 8, 0)
        cuda.synchronize(0)


@contextmanager
def log(cuda: Cuda, stream: int) -> Iterator[Log]:
    """The log, for one launch on ``stream``. Raises WatchdogError where an earlier kernel hangs."""
    with _lock:
        found = _the_log(cuda)
        if found.hung is not None:
            raise WatchdogError(
                "nothing can be launched: a kernel that was launched before still hangs",
                kind="hang",
                where=found.hung.where,
                rule="a kernel that hangs ends with its process",
                fix="restart the process; nv.debug.run(f, ...) gives each call one of its own",
                running=True,
            )
        found.use(stream)
        yield found


def _the_log(cuda: Cuda) -> Log:
    global _log
    if _log is None or _log._cuda is not cuda:
        _log = Log(cuda)
    return _log
