"""The CUDA driver API, as far as nvdsl uses it: one class, every call checked.

Nothing else in nvdsl calls the driver, so that a test can put a recording fake in its place. The
bindings (and with them libcuda) are loaded when the first ``Cuda`` is made, never at import.
"""

from __future__ import annotations

import ctypes
import functools
import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from nvdsl.driver.cuda_error import STICKY as STICKY
from nvdsl.driver.cuda_error import CudaError, Forked
from nvdsl.errors import DeviceError, Where
from nvdsl.hopper import arch

if TYPE_CHECKING:
    from nvdsl.hopper.tensor_maps import TensorMap

Dim3 = tuple[int, int, int]

LEGACY_STREAM = 1  # CU_STREAM_LEGACY: the default stream that waits for all blocking streams
PER_THREAD_STREAM = 2  # CU_STREAM_PER_THREAD: the default stream of the calling thread


class EncodedMap:
    """An encoded tensor map: 128 bytes at ``address``, 64-byte aligned, alive as long as this object."""

    __slots__ = ("_memory", "address")

    def __init__(self, source: int) -> None:
        self._memory = ctypes.create_string_buffer(arch.TENSOR_MAP_BYTES + arch.TENSOR_MAP_ALIGNMENT)
        start = ctypes.addressof(self._memory)
        self.address = start + -start % arch.TENSOR_MAP_ALIGNMENT
        ctypes.memmove(self.address, source, arch.TENSOR_MAP_BYTES)


class Cuda:
    """Checked calls of the driver API: each raises ``CudaError`` where the driver reports one.

    Streams and device pointers are ints; contexts, modules, functions and launch configurations are
    whatever this class hands out. Sizes are bytes unless a name says otherwise."""

    def __init__(self) -> None:
        from cuda.bindings import driver  # type: ignore[import-untyped]

        self._api: Any = driver
        self._call("cuInit", 0)

    def _call(self, name: str, *arguments: Any) -> Any:
        code, *values = getattr(self._api, name)(*arguments)
        if code:
            raise self._error(name, code)
        return values[0] if values else None

    def _error(self, call: str, code: Any) -> CudaError:
        texts = [query(code)[1] for query in (self._api.cuGetErrorName, self._api.cuGetErrorString)]
        name, text = (t.decode() if isinstance(t, bytes) else "unknown error" for t in texts)
        return CudaError(call, name, text)

    # --- devices and contexts

    def driver_version(self) -> int:
        """1000 * major + 10 * minor of the newest CUDA that the driver knows."""
        return int(self._call("cuDriverGetVersion"))

    def device_count(self) -> int:
        return int(self._call("cuDeviceGetCount"))

    def device_name(self, ordinal: int) -> str:
        return self._call("cuDeviceGetName", 256, ordinal).split(b"\0")[0].decode()

    def compute_capability(self, ordinal: int) -> tuple[int, int]:
        kind = self._api.CUdevice_attribute
        major, minor = (
            int(self._call("cuDeviceGetAttribute", attribute, ordinal))
            for attribute in (
                kind.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR,
                kind.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR,
            )
        )
        return major, minor

    def multiprocessors(self, ordinal: int) -> int:
        """How many SMs a device has."""
        attribute = self._api.CUdevice_attribute.CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT
        return int(self._call("cuDeviceGetAttribute", attribute, ordinal))

    def retain_context(self, ordinal: int) -> Any:
        """The device's primary context, the one that torch, CuPy and JAX use."""
        return self._call("cuDevicePrimaryCtxRetain", ordinal)

    def current_context(self) -> int:
        """The calling thread's context as an int, 0 when there is none."""
        return int(self._call("cuCtxGetCurrent"))

    @property
    def asked_context(self) -> Callable[[], tuple[Any, Any]]:
        """A function that gives a code and the calling thread's context: what `is_current` asks."""
        asked: Callable[[], tuple[Any, Any]] = self._api.cuCtxGetCurrent
        return asked

    def is_current(self, context: Any) -> bool:
        """Whether a context is the calling thread's."""
        code, current = self.asked_context()
        if code:
            raise self._error("cuCtxGetCurrent", code)
        return bool(current == context)

    def current_device(self) -> int | None:
        """Ordinal of the calling thread's current context, None when there is no context."""
        return int(self._call("cuCtxGetDevice")) if self.current_context() else None

    def push_context(self, context: Any) -> None:
        self._call("cuCtxPushCurrent", context)

    def pop_context(self) -> None:
        self._call("cuCtxPopCurrent")

    # --- modules

    def load_module(self, image: bytes) -> Any:
        """Load a cubin (or PTX text that ends with a zero byte) into the current context."""
        return self._call("cuModuleLoadData", image)

    def function(self, module: Any, name: str) -> Any:
        return self._call("cuModuleGetFunction", module, name.encode())

    def variable(self, module: Any, name: str) -> int:
        """Address of a module's global variable."""
        return int(self._call("cuModuleGetGlobal", module, name.encode()))

    def allow_shared_memory(self, function: Any, size: int) -> None:
        """Let a launch use up to ``size`` bytes of dynamic shared memory (without it: 48 KB)."""
        attribute = self._api.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
        self._call("cuFuncSetAttribute", function, attribute, size)

    def allow_large_clusters(self, function: Any) -> None:
        """Let a launch use clusters of more than 8 blocks."""
        attribute = self._api.CUfunction_attribute.CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED
        self._call("cuFuncSetAttribute", function, attribute, 1)

    # --- memory

    def alloc(self, size: int, stream: int) -> int:
        return int(self._call("cuMemAllocAsync", max(size, 1), stream))

    def leave_arbitrary(self, pointer: int, size: int) -> None:
        """What this memory holds is read before it is written: nothing to do but for a simulator."""

    def expect_turns(self, pointer: int) -> None:
        """Additions to this memory come in one order: nothing to do but for a simulator."""

    def begins_at(self, pointer: int, lead: int, name: str) -> None:
        """An array begins ``lead`` bytes behind the start of this memory: nothing to do but for a simulator."""

    def check_zeros(self, pointer: int, size: int, line: Where | None) -> None:
        """The kernels left zeros here, says ``line``: nothing to do but for a simulator."""

    def keep_memory(self, ordinal: int, size: int) -> None:
        """Let a device's pool keep ``size`` bytes of freed memory, where it keeps less. By default it gives all back
        whenever somebody waits for the GPU, and the next `alloc` takes 80 us."""
        attribute = self._api.CUmemPool_attribute.CU_MEMPOOL_ATTR_RELEASE_THRESHOLD
        pool = self._call("cuDeviceGetDefaultMemPool", ordinal)
        if int(self._call("cuMemPoolGetAttribute", pool, attribute)) < size:
            self._call("cuMemPoolSetAttribute", pool, attribute, self._api.cuuint64_t(size))

    def free(self, pointer: int, stream: int) -> None:
        self._call("cuMemFreeAsync", pointer, stream)

    def copy(self, destination: int, source: int, size: int, stream: int) -> None:
        """Copy in stream order between any two pointers: host or device, the driver tells them apart
        (unified addressing). A copy from or to pageable host memory is done with it on return."""
        if size:
            self._call("cuMemcpyAsync", destination, source, size, stream)

    def fill(self, pointer: int, pattern: int, width: int, count: int, stream: int) -> None:
        """Store ``count`` copies of a ``width``-byte pattern (1, 2 or 4)."""
        if count:
            self._call(f"cuMemsetD{8 * width}Async", pointer, pattern, count, stream)

    def host_memory(self, size: int) -> tuple[int, int]:
        """Host memory that kernels can write, of every context: its address here and on the device. Never freed."""
        flags = 1 | 2  # CU_MEMHOSTALLOC_PORTABLE | _DEVICEMAP
        here = int(self._call("cuMemHostAlloc", size, flags))
        return here, int(self._call("cuMemHostGetDevicePointer", here, 0))

    def is_capturing(self, stream: int) -> bool:
        """Whether what is put into the stream becomes part of a graph instead of running."""
        code, status = self._api.cuStreamIsCapturing(stream)
        if code:
            raise self._error("cuStreamIsCapturing", code)
        return bool(status)

    def finished(self, stream: int) -> bool:
        """Whether all work of the stream is done. ``CudaError`` where something of it failed."""
        (code,) = self._api.cuStreamQuery(stream)
        if code and code != self._api.CUresult.CUDA_ERROR_NOT_READY:
            raise self._error("cuStreamQuery", code)
        return not code

    def synchronize(self, stream: int) -> None:
        self._call("cuStreamSynchronize", stream)

    def synchronize_context(self) -> None:
        """Wait for all work of the current context."""
        self._call("cuCtxSynchronize")

    # --- time

    def event(self) -> Any:
        """An event that takes the time when a stream reaches it."""
        return self._call("cuEventCreate", 0)

    def record(self, event: Any, stream: int) -> None:
        self._call("cuEventRecord", event, stream)

    def elapsed(self, start: Any, end: Any) -> float:
        """Milliseconds from one event to another; waits for the second."""
        self._call("cuEventSynchronize", end)
        return float(self._call("cuEventElapsedTime", start, end))

    # --- tensor maps

    def encode(self, tensor_map: TensorMap, address: int) -> EncodedMap:
        """Encode a tensor map of the tensor at a global address. The rules are checked elsewhere."""
        api, rank = self._api, len(tensor_map.shape)
        data_type, interleave, swizzle, l2_promotion, oob = tensor_map.modes
        strides = tensor_map.stride_bytes or (arch.TMA_STRIDE_MULTIPLE,)  # rank 1 has none, but null is refused
        encoded = self._call(
            "cuTensorMapEncodeTiled",
            api.CUtensorMapDataType(data_type),
            rank,
            address,
            [api.cuuint64_t(n) for n in tensor_map.dims],
            [api.cuuint64_t(n) for n in strides],
            [api.cuuint32_t(n) for n in tensor_map.box_dims],
            [api.cuuint32_t(1)] * rank,
            api.CUtensorMapInterleave(interleave),
            api.CUtensorMapSwizzle(swizzle),
            api.CUtensorMapL2promotion(l2_promotion),
            api.CUtensorMapFloatOOBfill(oob),
        )
        return EncodedMap(int(encoded.getPtr()))

    def moved(self, encoded: EncodedMap, tensor_map: TensorMap, address: int) -> EncodedMap:
        """The same tensor map of a tensor at another address; ten times as fast as to encode it anew."""
        moved = EncodedMap(encoded.address)
        self._call("cuTensorMapReplaceAddress", self._api.CUtensorMap(moved.address), address)
        return moved

    # --- launches

    def launch_config(self, grid: Dim3, block: Dim3, cluster: Dim3 | None, smem: int, programmatic: bool) -> Any:
        """A CUlaunchConfig, made once and used for many launches (one at a time).

        ``programmatic``: programmatic stream serialization, where the kernel may start before the one
        ahead of it in the stream ends (it must execute griddepcontrol.wait)."""
        config = self._api.CUlaunchConfig()
        config.blockDimX, config.blockDimY, config.blockDimZ = block
        config.sharedMemBytes = smem
        config.gridDimX, config.gridDimY, config.gridDimZ = grid
        attributes = []
        if cluster is not None:
            attributes.append(self._attribute("CLUSTER_DIMENSION"))
            value = attributes[-1].value.clusterDim
            value.x, value.y, value.z = cluster
        if programmatic:
            attributes.append(self._attribute("PROGRAMMATIC_STREAM_SERIALIZATION"))
            attributes[-1].value.programmaticStreamSerializationAllowed = 1
        config.attrs = attributes
        config.numAttrs = len(attributes)
        return config

    def _attribute(self, name: str) -> Any:
        attribute = self._api.CUlaunchAttribute()
        attribute.id = getattr(self._api.CUlaunchAttributeID, f"CU_LAUNCH_ATTRIBUTE_{name}")
        return attribute

    def set_stream(self, config: Any, stream: int) -> None:
        config.hStream = self._api.CUstream(stream)

    def prepared(self, config: Any, function: Any, parameters: int) -> Callable[[], tuple[Any, ...]]:
        """`launch`, for one that comes again: what is returned launches, and gives the driver's code, for `check`."""
        return functools.partial(self._api.cuLaunchKernelEx, config, function, parameters, 0)

    def check(self, code: Any) -> None:
        """Raise CudaError for what a launch gave."""
        if code:
            raise self._error("cuLaunchKernelEx", code)

    def launch(self, config: Any, function: Any, parameters: int) -> None:
        """cuLaunchKernelEx; ``parameters`` is the address of the array of pointers to the parameters."""
        (code,) = self._api.cuLaunchKernelEx(config, function, parameters, 0)
        self.check(code)


_the_cuda: Cuda | None = None


def cuda(make: Callable[[], Cuda] = Cuda) -> Cuda:
    """The process's one ``Cuda``, made at the first call; ``DeviceError`` where there is no driver."""
    global _the_cuda
    if _the_cuda is None:
        _the_cuda = _load(make)
    return _the_cuda


def _forbid_in_child() -> None:
    if _the_cuda is not None:
        _the_cuda._api = Forked()


os.register_at_fork(after_in_child=_forbid_in_child)


def _load(make: Callable[[], Cuda]) -> Cuda:
    try:
        return make()
    except ImportError as error:
        raise DeviceError(
            f"the CUDA bindings can't be imported ({error})",
            fix="pip install cuda-bindings cuda-core",
        ) from error
    except CudaError as error:
        raise DeviceError(
            f"no usable NVIDIA GPU: {error.message}",
            rule="running a kernel needs a Hopper GPU; tracing, verifying, compiling and simulating do not",
            fix=error.fix or "check nvidia-smi and CUDA_VISIBLE_DEVICES, or only compile here: function.compile(...)",
        ) from error
    except Exception as error:  # the bindings' own "libcuda not found", whose type changes with the version
        raise DeviceError(
            f"no NVIDIA driver: libcuda can't be loaded ({type(error).__name__})",
            rule="running a kernel needs a Hopper GPU; tracing, verifying, compiling and simulating do not",
            fix="install the NVIDIA driver (in a container: run it with --gpus all), or only compile here: "
            "function.compile(...)",
        ) from error
