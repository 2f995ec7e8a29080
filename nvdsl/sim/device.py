"""A CUDA driver without a GPU: `driver.executable` runs a host function on it, and a launch runs the kernel here."""

from __future__ import annotations

import ctypes
import weakref
from collections.abc import Mapping
from typing import Any

import numpy as np

from nvdsl.driver.cuda import Cuda, EncodedMap
from nvdsl.driver.device import Device, Devices
from nvdsl.errors import SimError, Where
from nvdsl.errors.records import dataclass
from nvdsl.hopper.tensor_maps import TensorMap
from nvdsl.mlir import ir
from nvdsl.sim import progress, schedule
from nvdsl.sim.boxes import MapArgument
from nvdsl.sim.code import Code
from nvdsl.sim.machine import Dim3, Machine
from nvdsl.sim.memory import GlobalMemory
from nvdsl.sim.options import Options
from nvdsl.sim.recorders import LaunchRecorder
from nvdsl.sim.recording import current
from nvdsl.sim.tracking import GlobalShadow
from nvdsl.sim.values import element
from nvdsl.values.elements import ELEMENTS, from_bits, integer


@dataclass(frozen=True)
class SimKernel:
    """What the launch layer asks of a kernel. ``cubin`` names it: nothing is loaded."""

    name: str
    symbol: str
    smem_bytes: int
    max_threads: int
    watch: None = None

    @property
    def cubin(self) -> bytes:
        return self.symbol.encode()


@dataclass
class _Config:
    grid: Dim3
    block: Dim3
    cluster: Dim3 | None
    programmatic: bool


class SimDevices(Devices):
    """A device for each call, with memory of its own: calls in several threads share nothing that changes. ``options``:
    of the calls to come."""

    def __init__(self, codes: Mapping[str, Code], options: Options, host: str = "") -> None:
        super().__init__()
        self._codes, self.options, self._host = codes, options, host

    def get(self, ordinal: int) -> Device:
        return Device(SimCuda(self._codes, self.options, self._host), ordinal)

    def default(self) -> Device:
        return self.get(0)


class _Map(EncodedMap):
    """128 bytes of which only the address means something: a kernel's parameter says no more than that."""

    def __init__(self, tensor_map: TensorMap, address: int) -> None:
        super().__init__(ctypes.addressof(_BLANK))
        self.argument = MapArgument(tensor_map, address)


_BLANK = ctypes.create_string_buffer(128)
_maps: weakref.WeakValueDictionary[int, _Map] = weakref.WeakValueDictionary()  # by where they lie: all that are alive


class SimCuda(Cuda):
    """``codes``: the decoded kernels by symbol; ``host``: whose they are. Streams do nothing: every call is done on
    return. Made for one call (`SimDevices`)."""

    def __init__(self, codes: Mapping[str, Code], options: Options, host: str = "") -> None:
        self.codes, self.options, self.host = codes, options, host
        self.gmem = GlobalMemory()
        self._current = 0

    # --- the device: one Hopper GPU

    def driver_version(self) -> int:
        return 13000

    def device_count(self) -> int:
        return 1

    def device_name(self, ordinal: int) -> str:
        return "simulated H200"

    def compute_capability(self, ordinal: int) -> tuple[int, int]:
        return 9, 0

    def keep_memory(self, ordinal: int, size: int) -> None:
        """Host memory is at hand anyway."""

    def retain_context(self, ordinal: int) -> int:
        return 1

    def current_context(self) -> int:
        return self._current

    def current_device(self) -> int | None:
        return 0

    def is_current(self, context: Any) -> bool:
        return self._current == context

    def push_context(self, context: Any) -> None:
        self._current = context

    def pop_context(self) -> None:
        self._current = 0

    def load_module(self, image: bytes) -> bytes:
        return image

    def function(self, module: bytes, name: str) -> Code:
        return self.codes[module.decode()]

    def allow_shared_memory(self, function: Any, size: int) -> None:
        pass

    def allow_large_clusters(self, function: Any) -> None:
        pass

    # --- memory

    def alloc(self, size: int, stream: int) -> int:
        return self.gmem.alloc(size)

    def leave_arbitrary(self, pointer: int, size: int) -> None:
        self.gmem.span(pointer, size)[:] = np.random.default_rng(self.options.seed).integers(0, 256, size, np.uint8)
        self.gmem.define(pointer, size)

    def expect_turns(self, pointer: int) -> None:
        memory = self.gmem.find(pointer)
        assert memory is not None
        memory.in_turn = True

    def begins_at(self, pointer: int, lead: int, name: str) -> None:
        memory = self.gmem.find(pointer)
        assert memory is not None
        memory.reserved, memory.name = lead, name

    def check_zeros(self, pointer: int, size: int, line: Where | None) -> None:
        if self.gmem.span(pointer, size).any():
            raise SimError(
                "an array of nv.zeros(..., restored=True) is not zero at the end of the call",
                kind="not-restored",
                where=line,
                rule="kernels leave what is restored as zeros: the next call finds it as it is",
                fix="let the last one who adds to it store 0 (a TileQueue's counter wraps to 0), or leave out restored",
            )

    def free(self, pointer: int, stream: int) -> None:
        self.gmem.free(pointer)

    def copy(self, destination: int, source: int, size: int, stream: int) -> None:
        if not size:
            return
        GlobalShadow.forget(self.gmem)
        if GlobalMemory.owns(destination):
            target = self.gmem.span(destination, size)
            self.gmem.define(destination, size, source if GlobalMemory.owns(source) else None)
            if GlobalMemory.owns(source):
                target[:] = self.gmem.span(source, size)
            else:
                ctypes.memmove(target.ctypes.data, source, size)
        elif GlobalMemory.owns(source):
            ctypes.memmove(destination, self.gmem.span(source, size).ctypes.data, size)
        else:
            ctypes.memmove(destination, source, size)

    def fill(self, pointer: int, pattern: int, width: int, count: int, stream: int) -> None:
        if count:
            GlobalShadow.forget(self.gmem)
            self.gmem.span(pointer, width * count).view(f"u{width}")[:] = pattern
            self.gmem.define(pointer, width * count)

    def synchronize(self, stream: int) -> None:
        pass

    def synchronize_context(self) -> None:
        pass

    # --- launches

    def encode(self, tensor_map: TensorMap, address: int) -> EncodedMap:
        encoded = _Map(tensor_map, address)
        _maps[encoded.address] = encoded
        return encoded

    def moved(self, encoded: EncodedMap, tensor_map: TensorMap, address: int) -> EncodedMap:
        return self.encode(tensor_map, address)

    def launch_config(self, grid: Dim3, block: Dim3, cluster: Dim3 | None, smem: int, programmatic: bool) -> _Config:
        return _Config(grid, block, cluster, programmatic)

    def set_stream(self, config: _Config, stream: int) -> None:
        pass

    def launch(self, config: _Config, function: Code, parameters: int) -> None:
        pointers = (ctypes.c_uint64 * max(len(function.argument_types), 1)).from_address(parameters)
        arguments = [self._argument(t, p) for t, p in zip(function.argument_types, pointers, strict=False)]
        cluster = config.cluster or (1, 1, 1)
        machine = Machine(function, arguments, self.gmem, self.options, config.grid, config.block, cluster)
        name = self._name(function)
        recording = current(self.options)
        if recording is not None:
            machine.recorder = LaunchRecorder(recording, name, machine)
        machine.progress = progress.of(name, machine)
        if self.options.checks:
            GlobalShadow.attach(self.gmem, function.global_shift, keep=config.programmatic)
        try:
            schedule.run(machine)
        except SimError as error:
            if machine.recorder is not None:
                machine.recorder.record.stopped = error.message
            raise
        finally:
            if machine.recorder is not None:
                machine.recorder.close()
            if machine.progress is not None:
                machine.progress.close()
            GlobalShadow.detach(self.gmem, machine.waited)

    def _name(self, function: Code) -> str:
        """For people: the host function's, and the kernel's where that has several."""
        kernel = next(symbol for symbol, code in self.codes.items() if code is function).rpartition("::")[2]
        return kernel if not self.host else self.host if len(self.codes) == 1 else f"{self.host}: {kernel}"

    def _argument(self, type: Any, pointer: int) -> Any:
        """A parameter as the kernel's value, out of its bytes."""
        if isinstance(type, ir.MemRefType):
            base = ctypes.c_uint64.from_address(pointer).value
            return base, base + type.get_strides_and_offset()[1] * element(type).bytes
        name = str(type)
        if name.startswith(("!nvgpu.tensormap", "!llvm.ptr")):
            return _maps[pointer].argument
        dtype = ELEMENTS[name]
        bits = int.from_bytes(ctypes.string_at(pointer, dtype.bytes), "little")
        if dtype.is_float:
            return element(type).dtype.type(from_bits(dtype)(bits))
        return bool(bits & 1) if name == "i1" else integer(dtype)(bits)
