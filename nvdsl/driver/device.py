"""Devices: which GPU a call runs on, its context, and the kernels loaded into it."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from nvdsl.driver import cuda as driver
from nvdsl.driver.cuda import Cuda, CudaError
from nvdsl.driver.kept_memory import KeptMemories
from nvdsl.errors import DeviceError
from nvdsl.hopper import arch
from nvdsl.mlir import threads

if TYPE_CHECKING:
    from nvdsl.driver.launch import KernelBinary

MIN_DRIVER = 13000  # what loads the cubins of any ptxas 13.x, which the project pins


KEPT = 2 << 30
"""Bytes of freed device memory that stay at hand: a host function's own (`nvdsl.scratch`), copies of host arrays. What
is above is given back whenever somebody waits for the GPU, and taken again by the next call: milliseconds for the 134
MB that attention's gradients need for dQ in f32. A Hopper has 80 GB and more."""


class Device:
    """One GPU: its primary context, kept for the life of the process, its loaded kernels, and the memory that repeated
    calls use: for arrays of the host function's own (``memories``), and for copies of operands (``copies``)."""

    def __init__(self, cuda: Cuda, ordinal: int) -> None:
        self.cuda, self.ordinal = cuda, ordinal
        problem = unusable(cuda, ordinal)
        if problem:
            raise DeviceError(
                problem,
                rule="nvdsl compiles for sm_90a (H100, H200, GH200): its code runs on no other GPU",
                fix="choose a Hopper GPU (CUDA_VISIBLE_DEVICES), or only compile here: function.compile(...)",
            )
        self.context: Any = cuda.retain_context(ordinal)
        cuda.keep_memory(ordinal, KEPT)
        self.memories, self.copies = KeptMemories(cuda), KeptMemories(cuda)
        self._modules: dict[bytes, Any] = {}
        self._functions: dict[tuple[bytes, str, int], Any] = {}
        self._lock = threads.lock()

    def function(self, kernel: KernelBinary, large_cluster: bool = False) -> Any:
        """The kernel's CUfunction, loaded on first use. The device's context must be current.

        ``large_cluster``: it is launched in clusters of more than 8 blocks."""
        key = (kernel.cubin, kernel.name, kernel.smem_bytes)
        with self._lock:
            if key not in self._functions:
                self._functions[key] = self._load(kernel)
            if large_cluster:
                self.cuda.allow_large_clusters(self._functions[key])
            return self._functions[key]

    def synchronize(self) -> None:
        """Wait for all work of the device's context; ``DeviceError`` with what failed in it."""
        self.within(self.cuda.synchronize_context)

    def within(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Call with the device's context current."""
        if self.cuda.is_current(self.context):
            return function(*arguments)
        self.cuda.push_context(self.context)
        try:
            return function(*arguments)
        finally:
            self.cuda.pop_context()

    def _load(self, kernel: KernelBinary) -> Any:
        try:
            module = self._modules.get(kernel.cubin)
            if module is None:
                module = self._modules[kernel.cubin] = self.cuda.load_module(kernel.cubin)
                if kernel.watch is not None:
                    from nvdsl.driver import watchdog  # debug mode's

                    watchdog.attach(self.cuda, module)
            function = self.cuda.function(module, kernel.name)
            if kernel.smem_bytes > arch.SMEM_WITHOUT_OPT_IN:
                self.cuda.allow_shared_memory(function, kernel.smem_bytes)
            return function
        except CudaError as error:
            name, version = self.cuda.device_name(self.ordinal), _dotted(self.cuda.driver_version())
            raise DeviceError(
                f"kernel {kernel.name} ({kernel.smem_bytes} bytes of shared memory) can't be loaded on "
                f"device {self.ordinal} ({name}, driver for CUDA {version}): {error.message}",
                fix=error.fix or f"a block has at most {arch.MAX_SMEM_PER_BLOCK} bytes of shared memory",
            ) from error


class Devices:
    """The process's devices by ordinal, each made at its first use. ``cuda``: a fake in tests."""

    def __init__(self, cuda: Cuda | None = None) -> None:
        self._cuda = cuda
        self._devices: dict[int, Device] = {}
        self._default: int | None = None
        self._lock = threads.lock()

    @property
    def cuda(self) -> Cuda:
        if self._cuda is None:
            self._cuda = driver.cuda()
        return self._cuda

    def get(self, ordinal: int) -> Device:
        """The device of an ordinal. ``DeviceError`` where it is not a usable Hopper GPU."""
        device = self._devices.get(ordinal)
        if device is None:
            with self._lock:
                device = self._devices.get(ordinal) or Device(self.cuda, ordinal)
                self._devices[ordinal] = device
        return device

    def default(self) -> Device:
        """Where a call without device arrays runs: the thread's current device (what torch.cuda.set_device
        or cupy.cuda.Device chose), or else the first Hopper GPU."""
        current = self.cuda.current_device()
        if current is not None:
            return self.get(current)
        if self._default is None:
            self._default = first_usable(self.cuda)
        return self.get(self._default)


devices = Devices()


def unusable(cuda: Cuda, ordinal: int) -> str | None:
    """Why a device can't run nvdsl's kernels, in one sentence, or None."""
    version = cuda.driver_version()
    if version < MIN_DRIVER:
        return f"the NVIDIA driver is for CUDA {_dotted(version)}; {_dotted(MIN_DRIVER)} or newer is needed"
    capability = cuda.compute_capability(ordinal)
    if capability != arch.COMPUTE_CAPABILITY:
        name, (major, minor) = cuda.device_name(ordinal), capability
        return f"device {ordinal} ({name}) has compute capability {major}.{minor}, not 9.0 (Hopper)"
    return None


def first_usable(cuda: Cuda) -> int:
    """Ordinal of the first usable GPU; ``DeviceError`` with every device's reason when there is none."""
    reasons = []
    for ordinal in range(cuda.device_count()):
        reason = unusable(cuda, ordinal)
        if reason is None:
            return ordinal
        reasons.append(reason)
    raise DeviceError(
        "; ".join(dict.fromkeys(reasons)) or "the NVIDIA driver sees no GPU",
        rule="nvdsl compiles for sm_90a (H100, H200, GH200): its code runs on no other GPU",
        fix="check nvidia-smi and CUDA_VISIBLE_DEVICES, or only compile here: function.compile(...)",
    )


def probe(from_devices: Devices | None = None) -> str | None:
    """None when kernels can run here; else the reason in one sentence. Never raises."""
    try:
        first_usable((from_devices or devices).cuda)
    except DeviceError as error:
        return error.message
    return None


@functools.cache
def simulated() -> bool:
    """Whether calls that say nothing of a target run in the simulator: as NVDSL_TARGET says, else where there is no
    Hopper GPU."""
    chosen = os.environ.get("NVDSL_TARGET", "")
    return chosen == "sim" if chosen else probe() is not None


def _dotted(version: int) -> str:
    return f"{version // 1000}.{version % 1000 // 10}"
