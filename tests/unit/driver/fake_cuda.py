"""A CUDA driver without a GPU: device memory is host memory, calls are recorded, and a launch runs a Python
function, which gets the bytes of every parameter as the driver would read them."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from nvdsl.driver.cuda import Cuda, CudaError
from nvdsl.driver.device import Devices


@dataclass(frozen=True)
class Kernel:
    """A stand-in for the lowering's KernelBinary. ``parameters``: bytes of each, for reading them back."""

    name: str
    parameters: tuple[int, ...] = ()
    smem_bytes: int = 0
    max_threads: int = 1024
    cubin: bytes = b"cubin"
    watch: Any = None


@dataclass
class Config:
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    cluster: tuple[int, int, int] | None
    smem: int
    programmatic: bool
    stream: int = 0


@dataclass
class Launched:
    kernel: str
    config: Config
    parameters: list[bytes]


@dataclass(eq=False)
class FakeCuda(Cuda):
    """``calls``: what was called, in order. ``run``: what a launch does. ``fail``: call -> error code.
    ``capturing``: streams whose work becomes a graph."""

    run: Callable[[Launched, FakeCuda], None] | None = None
    capability: tuple[int, int] = (9, 0)
    count: int = 1
    version: int = 13000
    current: int = 0
    fail: dict[str, str] = field(default_factory=dict)
    calls: list[tuple[Any, ...]] = field(default_factory=list)
    launches: list[Launched] = field(default_factory=list)
    maps: list[tuple[Any, int]] = field(default_factory=list)
    allocations: dict[int, Any] = field(default_factory=dict)
    kernels: dict[str, Kernel] = field(default_factory=dict)
    variables: dict[str, Any] = field(default_factory=dict)
    ends: list[bool | str] = field(default_factory=lambda: [True])
    log: Any = None
    capturing: set[int] = field(default_factory=set)

    def _record(self, *call: Any) -> None:
        if call[0] in self.fail:
            raise CudaError(call[0], self.fail[call[0]], "injected")
        self.calls.append(call)

    def names(self) -> list[str]:
        return [call[0] for call in self.calls]

    # --- devices

    def driver_version(self) -> int:
        return self.version

    def device_count(self) -> int:
        return self.count

    def device_name(self, ordinal: int) -> str:
        return f"Fake {ordinal}"

    def compute_capability(self, ordinal: int) -> tuple[int, int]:
        return self.capability

    def retain_context(self, ordinal: int) -> int:
        return 0x100 + ordinal

    def keep_memory(self, ordinal: int, size: int) -> None:
        assert size > 0

    def current_context(self) -> int:
        return self.current

    def asked_context(self) -> tuple[int, int]:
        return 0, self.current

    def is_current(self, context: int) -> bool:
        return self.current == context

    def current_device(self) -> int | None:
        return self.current - 0x100 if self.current else None

    def push_context(self, context: int) -> None:
        self._record("push", context)
        self._before, self.current = self.current, context

    def pop_context(self) -> None:
        self._record("pop")
        self.current = self._before

    # --- modules

    def load_module(self, image: bytes) -> bytes:
        self._record("load", image)
        return image

    def function(self, module: bytes, name: str) -> str:
        self._record("function", name)
        return name

    def variable(self, module: bytes, name: str) -> int:
        """``variables``: name -> its 8 bytes."""
        self._record("variable", name)
        return ctypes.addressof(self.variables.setdefault(name, ctypes.c_uint64()))

    def allow_shared_memory(self, function: str, size: int) -> None:
        self._record("allow_shared_memory", function, size)

    def allow_large_clusters(self, function: str) -> None:
        self._record("allow_large_clusters", function)

    # --- memory: addresses are real, so that copies really copy

    def alloc(self, size: int, stream: int) -> int:
        self._record("alloc", size, stream)
        memory = (ctypes.c_char * (size + 256))()
        address = ctypes.addressof(memory) + -ctypes.addressof(memory) % 256
        self.allocations[address] = memory
        return address

    def free(self, pointer: int, stream: int) -> None:
        self._record("free", stream)
        del self.allocations[pointer]

    def copy(self, destination: int, source: int, size: int, stream: int) -> None:
        self._record("copy", self._side(source) + self._side(destination), size, stream)
        ctypes.memmove(destination, source, size)

    def _side(self, address: int) -> str:
        device = any(a <= address < a + len(m) for a, m in self.allocations.items())
        return "D" if device else "H"

    def fill(self, pointer: int, pattern: int, width: int, count: int, stream: int) -> None:
        self._record("fill", pattern, width, count, stream)
        ctypes.memmove(pointer, pattern.to_bytes(width, "little") * count, width * count)

    def host_memory(self, size: int) -> tuple[int, int]:
        self._record("host_memory", size)
        self.log = (ctypes.c_char * size)()
        return ctypes.addressof(self.log), 0xABC000

    def is_capturing(self, stream: int) -> bool:
        if "capturing" in self.fail:
            raise CudaError("cuStreamIsCapturing", self.fail["capturing"], "injected")
        return stream in self.capturing

    def finished(self, stream: int) -> bool:
        """``ends``: what each call gives, the last for ever; an error's name is raised."""
        end = self.ends.pop(0) if len(self.ends) > 1 else self.ends[0]
        if isinstance(end, str):
            raise CudaError("cuStreamQuery", end, "injected")
        return end

    def synchronize(self, stream: int) -> None:
        self._record("synchronize", stream)

    # --- tensor maps and launches

    def encode(self, tensor_map: Any, address: int) -> Any:
        self._record("encode", address)
        self.maps.append((tensor_map, address))
        memory = ctypes.create_string_buffer(bytes([len(self.maps)]) * 128, 128)
        return _Encoded(memory, ctypes.addressof(memory))

    def moved(self, encoded: Any, tensor_map: Any, address: int) -> Any:
        self._record("moved", address)
        content = ctypes.string_at(encoded.address, 120) + address.to_bytes(8, "little")
        memory = ctypes.create_string_buffer(content, 128)
        return _Encoded(memory, ctypes.addressof(memory))

    def launch_config(self, grid: Any, block: Any, cluster: Any, smem: int, programmatic: bool) -> Config:
        self._record("config", grid)
        return Config(grid, block, cluster, smem, programmatic)

    def set_stream(self, config: Config, stream: int) -> None:
        config.stream = stream

    def prepared(self, config: Config, function: str, parameters: int) -> Any:
        return lambda: self.launch(config, function, parameters)

    def launch(self, config: Config, function: str, parameters: int) -> None:
        self._record("launch", function)
        sizes = self.kernels[function].parameters
        pointers = (ctypes.c_uint64 * len(sizes)).from_address(parameters) if sizes else ()
        values = [ctypes.string_at(p, size) for p, size in zip(pointers, sizes, strict=True)]
        launched = Launched(function, Config(**vars(config)), values)
        self.launches.append(launched)
        if self.run is not None:
            self.run(launched, self)


@dataclass
class _Encoded:
    memory: Any
    address: int


def fake(*kernels: Kernel, **options: Any) -> tuple[FakeCuda, Devices]:
    """A fake driver that knows the kernels, and the devices on it."""
    cuda = FakeCuda(kernels={k.name: k for k in kernels}, **options)
    return cuda, Devices(cuda)


def floats(address: int, count: int) -> Any:
    """``count`` float32 at an address, as a ctypes array that a fake kernel can read and write."""
    return (ctypes.c_float * count).from_address(address)


def pointer(parameter: bytes) -> int:
    return int.from_bytes(parameter, "little")
