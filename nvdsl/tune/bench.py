"""Where candidates run: checked and timed on a GPU, in a process of their own.

`GpuBench` is the process's side, `ProcessBench` this side: it starts a new process when one hangs or crashes, so that
a bad candidate costs its deadline and nothing else. Any class with the methods of `Bench` can take their place.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from nvdsl.driver.array_spec import ArraySpec, Place
from nvdsl.errors.records import dataclass
from nvdsl.tune import data
from nvdsl.tune.process import Lost, Process, Refused

FLUSH_BYTES = 128 << 20  # twice an H200's L2 and more
CHECK_DEADLINE = 30.0  # seconds: loading, one launch, copying and comparing the results


class Failed(Exception):
    """A candidate failed: it hung, crashed, or was refused by the driver. ``number`` says which."""

    def __init__(self, number: int, reason: str) -> None:
        super().__init__(reason)
        self.number, self.reason = number, reason


class Bench(Protocol):
    """Runs candidates by number. Both methods raise `Failed`."""

    def check(self, number: int) -> int:
        """Run it once on fresh data: the group of candidates that agree with it, 0 for the first or the reference."""

    def time(self, numbers: Sequence[int], rounds: int) -> dict[int, list[float]]:
        """Milliseconds of each, ``rounds`` times, in turn: in each round once, forward and backward."""

    def close(self) -> None: ...


@dataclass(frozen=True)
class Setup:
    """What a bench works on. ``specs``: of the run-time arguments in the order of the call, then of named extents and
    strides, which have none; ``values``: of scalars, extents and strides, by name; ``given``: flat memory of arrays
    that are not random; ``expected``: flat results to compare with, by name; ``written``: positions of the arrays that
    a call writes."""

    name: str
    specs: Mapping[str, Any]
    values: Mapping[str, Any]
    given: Mapping[str, np.ndarray]
    expected: Mapping[str, np.ndarray] | None
    written: frozenset[int]
    tolerance: float | None = None
    seed: int = 0
    device: int = 0


class GpuBench:
    """The process's side: owns a CUDA context, the arrays, and the loaded candidates."""

    doing: Callable[[Any], None]

    def __init__(self, setup: Setup, devices: Any = None) -> None:
        from nvdsl.driver import device

        self._setup, self._devices = setup, devices or device.devices
        self._device = self._devices.get(setup.device)
        self._cuda = self._device.cuda
        self._cuda.push_context(self._device.context)
        self._names = list(setup.specs)
        self._written = [n for i, n in enumerate(self._names) if i in setup.written]
        self._sizes: dict[str, int] = {}
        self._memory = {n: self._fill(n, s) for n, s in self._arrays().items()}
        self._pristine = {n: self._copy_of(n) for n in self._written}
        self._scratch = self._cuda.alloc(FLUSH_BYTES, 0)
        self._plans: dict[int, Any] = {}
        self._groups: list[dict[str, np.ndarray]] = [dict(setup.expected)] if setup.expected else []
        self._events = self._cuda.event(), self._cuda.event()

    def add(self, number: int, packed: bytes) -> None:
        from nvdsl.call.module import context
        from nvdsl.driver import executable
        from nvdsl.lower import stored

        lowered, _ = stored.unpack(packed, "candidate", context())
        made = executable.build(
            lowered.host, self._setup.name, lowered.kernels, written=self._setup.written, names=self._names,
            devices=self._devices,
        )  # fmt: skip
        self._plans[number] = lowered.host, made

    def check(self, number: int) -> int:
        self._restore()
        self._launch(number)
        self._cuda.synchronize(0)
        got = {name: self._result(name) for name in self._written}
        for group, known in enumerate(self._groups):
            if all(data.difference(got[n], known[n], self._setup.tolerance) is None for n in known):
                return group
        self._groups.append(got)
        return len(self._groups) - 1

    def time(self, numbers: Sequence[int], rounds: int) -> dict[int, list[float]]:
        times: dict[int, list[float]] = {number: [] for number in numbers}
        for turn in range(rounds):
            for number in numbers if turn % 2 == 0 else reversed(numbers):
                self.doing(number)
                times[number].append(self._once(number))
        return times

    def _once(self, number: int) -> float:
        start, end = self._events
        self._restore()
        self._cuda.fill(self._scratch, 0, 4, FLUSH_BYTES // 4, 0)  # its time hides the host's part of the launch
        self._cuda.record(start, 0)
        self._launch(number)
        self._cuda.record(end, 0)
        return self._cuda.elapsed(start, end)

    def _launch(self, number: int) -> None:
        place = Place(None, self._setup.device)  # type: ignore[arg-type]  # no library: the stream is given
        specs = list(self._setup.specs.values())
        values = [
            (self._memory[name], place, None) if name in self._memory else self._setup.values[name]
            for name in self._names
        ]
        self._plans[number][1](values, specs, 0)

    def _arrays(self) -> dict[str, ArraySpec]:
        return {n: s for n, s in self._setup.specs.items() if isinstance(s, ArraySpec)}

    def _fill(self, name: str, spec: ArraySpec) -> int:
        """Device memory with the array's data: the pattern is copied once, then doubled on the device."""
        number = list(self._arrays()).index(name)
        flat = self._setup.given.get(name)
        if flat is None:
            flat = data.pattern(spec, self._setup.seed + number)
        size = max(1, data.elements(spec)) * flat.itemsize
        self._sizes[name] = size
        memory = self._cuda.alloc(size, 0)
        filled = min(flat.nbytes, size)
        self._cuda.copy(memory, flat.ctypes.data, filled, 0)
        while filled < size:
            more = min(filled, size - filled)
            self._cuda.copy(memory + filled, memory, more, 0)
            filled += more
        self._cuda.synchronize(0)
        return memory

    def _copy_of(self, name: str) -> int:
        copy = self._cuda.alloc(self._sizes[name], 0)
        self._cuda.copy(copy, self._memory[name], self._sizes[name], 0)
        return copy

    def _restore(self) -> None:
        for name, pristine in self._pristine.items():
            self._cuda.copy(self._memory[name], pristine, self._sizes[name], 0)

    def _result(self, name: str) -> np.ndarray:
        spec = self._setup.specs[name]
        got = np.empty(self._sizes[name] // spec.dtype.numpy.itemsize, spec.dtype.numpy)
        self._cuda.copy(got.ctypes.data, self._memory[name], got.nbytes, 0)
        self._cuda.synchronize(0)
        return got


class ProcessBench:
    """This side. ``packed``: each candidate's kernels; ``factory``: what serves, made with the `Setup`."""

    def __init__(
        self, setup: Setup, packed: Mapping[int, bytes], factory: str = f"{__name__}:GpuBench",
        check_deadline: float = CHECK_DEADLINE,
    ) -> None:  # fmt: skip
        self._setup, self._packed, self._factory = setup, packed, factory
        self._check_deadline = check_deadline
        self._process: Process | None = None
        self._loaded: set[int] = set()
        self._first_of: dict[int, int] = {}  # group of this side: its first candidate
        self._group_there: dict[int, int] = {0: 0} if setup.expected else {}  # group of the process: of this side
        self._slowest = 0.0  # seconds of one launch, restoring and flushing included

    def check(self, number: int) -> int:
        there = self._check_there(number)
        if there not in self._group_there:
            group = max([*self._first_of, *self._group_there.values()], default=-1) + 1
            self._group_there[there] = group
            self._first_of[group] = number
        return self._group_there[there]

    def time(self, numbers: Sequence[int], rounds: int) -> dict[int, list[float]]:
        self._load(numbers)
        deadline = self._check_deadline + 4 * self._slowest * rounds * len(numbers)
        times = self._call(numbers[0], "time", list(numbers), rounds, deadline=deadline)
        self._slowest = max([self._slowest, *(t / 1e3 for ts in times.values() for t in ts)])
        return times

    def close(self) -> None:
        if self._process is not None:
            self._process.close()
            self._process = None

    def _check_there(self, number: int) -> int:
        self._load([number])
        return self._call(number, "check", number, deadline=self._check_deadline)

    def _load(self, numbers: Sequence[int]) -> None:
        if self._process is None:
            self._process, self._loaded = Process(self._factory, self._setup), set()
            self._restore_groups()
        for number in numbers:
            if number not in self._loaded:
                self._call(number, "add", number, self._packed[number], deadline=self._check_deadline)
                self._loaded.add(number)

    def _restore_groups(self) -> None:
        """A new process knows no results but the expected ones: make the groups' first candidates run again."""
        self._group_there = {0: 0} if self._setup.expected else {}
        for group, number in list(self._first_of.items()):
            try:
                self._group_there[self._check_there(number)] = group
            except Failed:  # it was right once; who agreed with it now makes a group of its own
                del self._first_of[group]
                if self._process is None:
                    return self._load([])
        return None

    def _call(self, number: int, method: str, *arguments: Any, deadline: float) -> Any:
        """Raises `Failed` for the candidate ``number``, or the one that was running."""
        assert self._process is not None
        try:
            return self._process.call(method, *arguments, deadline=deadline)
        except Refused as error:
            self.close()  # an error of a kernel leaves no usable context
            raise Failed(number, str(error)) from None
        except Lost as error:
            self.close()
            raise Failed(number if error.doing is None else error.doing, error.reason) from None
