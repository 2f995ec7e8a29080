"""An executable: one specialized host function, ready to be called with arrays.

``build`` compiles the host body once; a call checks its arguments, stages host arrays, and runs the
steps on one stream, with the device's context current.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from nvdsl.driver import stream as streams
from nvdsl.driver.arguments import ArrayArgument, Disjoint, ScalarArgument
from nvdsl.driver.array_spec import Place
from nvdsl.driver.arrays import describe
from nvdsl.driver.cuda import LEGACY_STREAM, CudaError
from nvdsl.driver.device import Device, Devices
from nvdsl.driver.device import devices as all_devices
from nvdsl.driver.host import arith, cf, gpu, memref, scf, tensor_maps
from nvdsl.driver.host.builder import RUN, Builder, Frame, Step, unsupported
from nvdsl.driver.kept_memory import padded
from nvdsl.driver.launch import KernelBinary, Launch, Recorded
from nvdsl.driver.launcher import Launcher
from nvdsl.driver.run import Run
from nvdsl.driver.staging import Member, Staged, groups
from nvdsl.driver.stream import Stream
from nvdsl.errors import ArgumentError, DeviceError, LowerError
from nvdsl.errors.settings import is_on
from nvdsl.ir.operands import string
from nvdsl.values import extents
from nvdsl.values.elements import ELEMENTS

__all__ = ["KernelBinary", "Executable", "build"]

_HANDLERS = {**arith.HANDLERS, **memref.HANDLERS, **scf.HANDLERS, **cf.HANDLERS, **gpu.HANDLERS, **tensor_maps.HANDLERS}
_FOLDABLE = frozenset(arith.HANDLERS)


class Executable:
    """A host function that can be called. Made by ``build``; safe to call from several threads.

    ``written``: indices of the array arguments that a call writes. Kernels run asynchronously on the
    call's stream; a call with host arrays, or with device arrays whose library does not order memory by
    streams (JAX, plain DLPack), waits for them. With NVDSL_SYNC=1 in the environment when the executable is
    built, each launch is waited for, so that a failing kernel is named."""

    def __init__(
        self,
        name: str,
        template: Frame,
        steps: Sequence[Step],
        results: Sequence[int],
        launches: Sequence[Launch],
        arrays: Sequence[ArrayArgument],
        scalars: Sequence[ScalarArgument],
        devices: Devices,
        plain: bool = False,
        early: Sequence[Step] = (),
        taken: Sequence[Callable[[Frame], int]] = (),
    ) -> None:
        self.name = name
        self.written = frozenset(a.index for a in arrays if a.written)
        self.template, self._results = template, tuple(results)
        self._early, self._late, self._steps = tuple(early), tuple(steps), (*early, *steps)
        self._launches, self.arrays, self.scalars = tuple(launches), tuple(arrays), tuple(scalars)
        self.count = len(arrays) + len(scalars)
        self.plain, self._taken = plain, tuple(taken)
        self._devices = devices
        self._functions: dict[int, list[Any]] = {}
        self.restores = any(isinstance(step, gpu.Fill) and step.restored for step in steps) and not any(
            launch.kernel.watch for launch in launches  # what ends before its time leaves no zeros
        )
        self._sync = is_on("NVDSL_SYNC")

    def call(self, *args: Any, stream: Stream | None = None) -> Any:
        """Run with arrays and numbers as they are: ``executable.call(a, b, 3)``."""
        described = [describe(arg) or (None, arg) for arg in args]
        return self([value for _, value in described], [spec for spec, _ in described], stream)

    def __call__(self, values: Sequence[Any], specs: Sequence[Any], stream: Stream | None = None) -> Any:
        """Run the host function: host arrays are staged, device arrays used in place.

        ``values``, ``specs``: for each argument what ``describe`` said of an array, or a number (whose
        spec is not looked at). ``stream``: see ``nvdsl.driver.stream.resolve``; with None, the library
        of the first device array decides. Returns what the function returns: None, a number, or a tuple.

        Raises ``ArgumentError`` for arguments that do not fit, ``DeviceError`` for what the driver reports.
        """
        if len(values) != self.count:
            raise ArgumentError(f"{self.name} takes {self.count} arguments, {len(values)} were given")
        frame = self.template.copy()
        first: Place | None = None  # of the device arrays
        host: list[Member] = []
        ordered = True
        for argument in self.arrays:
            spec = specs[argument.index]
            if spec is not argument.fits:
                argument.accept(spec)
            address, place, _ = memory = values[argument.index]
            if address & argument.unaligned or place.readonly:
                argument.check_memory(address, place)
            if place.device < 0:
                host.append(Member(argument, spec, memory))
                continue
            if first is None:
                first = place
            elif place.device != first.device:
                raise _two_devices(argument, place.device, first.device)
            ordered = ordered and place.stream_ordered
            frame[argument.slot] = address
        for scalar in self.scalars:
            frame[scalar.slot] = scalar.convert(values[scalar.index])
        device = self._devices.default() if first is None else self._devices.get(first.device)
        device.within(self._call, frame, device, streams.resolve(stream, first), host, ordered)
        return self._result(frame)

    def launcher(
        self,
        values: Sequence[Any],
        more: Sequence[Any] = (),
        order: Sequence[int] | None = None,
        offsets: Sequence[Sequence[int]] | None = None,
        disjoint: Sequence[tuple[int, int, Disjoint]] = (),
        numbers: tuple[float, ...] = (),
    ) -> Launcher | None:
        """What is left to do for arguments like these, after a call took them. None where that is everything: for
        arrays of the host, and of libraries without a signature. ``values``: as of a call, but for its last ones,
        ``more``, which each call of the launcher has; the rest: see `Launcher`."""
        places = [values[argument.index][1] for argument in self.arrays]
        if not places or not all(place.has_signature for place in places):
            return None
        return Launcher(self, self._devices.get(places[0].device), places[0], more, order, offsets, disjoint, numbers)

    def run_on(
        self, device: Device, handle: int, kept: int | None = None, zeros: int | None = None, settled: object = None
    ) -> Run:
        """What the steps of a call on a stream share. The first one on a device loads the kernels: its context is
        current then. ``kept``: the address of memory for the arrays of the host function's own; ``zeros``: of such as
        is zero before and after each call. ``settled``: see `Run`."""
        functions = self._functions.get(device.ordinal)
        loaded = self._load(device) if functions is None else functions
        return Run(device.cuda, handle, loaded, self._sync, kept, zeros, settled)

    def memory(self, settled: Frame) -> int:
        """Bytes of the arrays of the host function's own, of a plain executable."""
        return sum(padded(size(settled)) for size in self._taken)

    def _call(self, frame: Frame, device: Device, handle: int, host: Sequence[Member], ordered: bool) -> None:
        run = frame[RUN] = self.run_on(device, handle)
        if host or not ordered:
            self._stage(frame, run, host, ordered)
        else:
            self.execute(frame, run)

    def settled(self, more: Sequence[Any]) -> Frame:
        """A frame of which only what lies where is missing, and the numbers of a call. ``more``: its last arguments,
        extents and strides of the arrays."""
        frame = self.template.copy()
        frame[1 + self.count - len(more) : 1 + self.count] = more
        for scalar in self.scalars:
            if scalar.index >= self.count - len(more):
                frame[scalar.slot] = scalar.convert(frame[scalar.slot])
        for step in self._early:
            step(frame)
        return frame

    def execute(self, frame: Frame, run: Run, settled: bool = False) -> None:
        """The steps, with arrays where they lie. ``settled``: the frame comes from `settled`."""
        try:
            for step in self._late if settled else self._steps:
                step(frame)
        except CudaError as error:
            run.abandon()
            raise self._failure(error) from error
        except BaseException:
            run.abandon()
            raise
        run.release()

    def record(self, frame: Frame) -> list[Recorded]:
        """The launches of a plain executable, to be repeated with the very same arguments on the same stream.
        ``frame``: from `settled`, completed."""
        found = []
        try:
            for step in self._late:
                if not isinstance(step, Launch | gpu.Fill):
                    step(frame)
                elif recorded := step.recorded(frame):
                    found.append(recorded)
        except CudaError as error:
            raise self._failure(error) from error
        return found

    def _stage(self, frame: Frame, run: Run, host: Sequence[Member], ordered: bool) -> None:
        """The steps between copies of host arrays, waited for."""
        staged = []
        try:
            if not ordered:  # the work of these arrays' producers is ordered before the legacy stream
                run.cuda.synchronize(LEGACY_STREAM)
            for members in groups(host):
                staged.append(Staged(members, run))
                for slot, address in staged[-1].addresses:
                    frame[slot] = address
            for step in self._steps:
                step(frame)
            for copy in staged:
                copy.collect(run)
            if staged or not ordered:
                run.cuda.synchronize(run.stream)
        except CudaError as error:
            run.abandon()
            raise self._failure(error) from error
        except BaseException:
            run.abandon()
            raise
        run.release()
        for copy in staged:
            copy.finish()

    def _load(self, device: Device) -> list[Any]:
        functions = [device.function(launch.kernel, launch.needs_large_cluster) for launch in self._launches]
        return self._functions.setdefault(device.ordinal, functions)

    def _failure(self, error: CudaError) -> DeviceError:
        names = ", ".join(dict.fromkeys(launch.kernel.name for launch in self._launches)) or "none"
        return DeviceError(
            f"{self.name}: {error.message} (kernels of this call: {names})",
            fix=error.fix or "NVDSL_SYNC=1 makes the launch that fails raise",
        )

    def _result(self, frame: Frame) -> Any:
        if not self._results:
            return None
        values = tuple(frame[slot] for slot in self._results)
        return values[0] if len(values) == 1 else values


def _two_devices(argument: ArrayArgument, ordinal: int, other: int) -> ArgumentError:
    return ArgumentError(
        f"{argument.name} is on device {ordinal}, an array before it on device {other}",
        rule="all device arrays of a call are on one device",
        fix="move them to one device",
    )


def build(
    host_module: Any,
    function_name: str,
    kernels: Mapping[str, KernelBinary],
    *,
    written: frozenset[int] | None = None,
    names: Sequence[str] | None = None,
    devices: Devices = all_devices,
) -> Executable:
    """Compile the host function of an outlined module (``gpu-kernel-outlining`` done) into a ``Executable``.

    ``kernels``: the binaries by "module::kernel" or by "kernel". ``written``: indices of the arguments
    that kernels write (None: all that kernels see); those that gpu.memcpy or gpu.memset write are found
    here. ``names``: the arguments' names for messages. ``devices``: others only in tests.

    Raises ``LowerError`` for a host operation that can't be executed, ``ArgumentError`` for a tensor map or
    a launch that breaks a rule of the hardware whatever the arguments are; both name the line.
    """
    function = _function(host_module, function_name)
    entry = function.regions[0].blocks[0]
    names = [f"argument {i}" for i in range(len(entry.arguments))] if names is None else names
    builder = Builder(_HANDLERS, _FOLDABLE, kernels=kernels, names=names)
    scalars = _define_arguments(builder, function, entry)
    builder.extents |= {scalar.slot for scalar in scalars if extents.name_of(entry.arguments[scalar.index])}
    steps, terminator = builder.block(entry)
    results = builder.slots(terminator.operands)
    if any(slot in builder.layouts for slot in results):
        raise unsupported(terminator, "of a memref")
    arrays = [_array_argument(builder, entry, slot, written) for slot in sorted(builder.arguments)]
    made = builder.template, steps, results, builder.launches
    return Executable(function_name, *made, arrays, scalars, devices, builder.plain, builder.early, builder.taken)


def _array_argument(builder: Builder, entry: Any, slot: int, written: frozenset[int] | None) -> ArrayArgument:
    index, on_device = slot - 1, slot in builder.on_device
    is_written = slot in builder.written or (on_device and (written is None or index in written))
    axes = extents.name_of(entry.arguments[index])
    return ArrayArgument(index, slot, builder.names[index], builder.layouts[slot], on_device, is_written, axes)


def _function(host_module: Any, name: str) -> Any:
    for op in host_module.body.operations:
        if op.operation.name == "func.func" and string(op, "sym_name") == name:
            return op.operation
    raise LowerError(f"the module has no function {name!r}")


def _define_arguments(builder: Builder, function: Any, entry: Any) -> list[ScalarArgument]:
    """Slots 1, 2, ... for the arguments, in order; returns those that are scalars."""
    scalars = []
    for index, value in enumerate(entry.arguments):
        slot, name = builder.define(value), str(value.type)
        if slot in builder.layouts:
            builder.roots[slot] = frozenset((slot,))
        elif name in ELEMENTS:
            scalars.append(ScalarArgument(index, slot, builder.names[index], ELEMENTS[name]))
        else:
            raise unsupported(function, f"with an argument of type {name}")
    builder.arguments = frozenset(builder.roots)
    return scalars
