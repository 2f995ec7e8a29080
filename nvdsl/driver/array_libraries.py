"""The array libraries that a call understands: how each says dtype, shape, strides, address and stream.

A library is never imported here: who passes its array has imported it. torch and CuPy, which matter for
the time of a call, find the spec by the array's own dtype, shape and strides, made at the first sight.
"""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Callable, Hashable
from typing import Any

import numpy

from nvdsl.driver.array_spec import ArraySpec, Described, Place, canonical_strides, packed_strides, spec_of
from nvdsl.errors import ArgumentError
from nvdsl.values import dtypes
from nvdsl.values.dtypes import DType

_MAX_KNOWN = 4096  # specs of one library, before the cache starts again: shapes may vary without end
_HOST = 1  # kDLCPU of dlpack.h
_BY_NAME = {dtype.numpy.name: dtype for dtype in reversed(dtypes.ALL)}  # float32 is f32, not tf32


def stands_in(library: ArrayLibrary) -> bool:
    """Whether host arrays of a library stand for device arrays: kernels see them as they lie, with their strides and
    where they begin between multiples of `staging.PHASE` bytes. Only in the simulator: torch's CPU tensors, which a
    program would have as CUDA tensors, or as NVDSL_SIM_ARRAYS says NumPy's, too. Raises ArgumentError for another
    setting."""
    from nvdsl.driver.device import simulated

    chosen = os.environ.get("NVDSL_SIM_ARRAYS", "")
    if chosen not in ("", "device", "host"):
        raise ArgumentError(
            f"NVDSL_SIM_ARRAYS={chosen}",
            rule="host arrays stand for device arrays in the simulator (device), or are copied to it (host)",
            fix="use device or host, or unset it: device for torch, host for NumPy",
        )
    return (chosen == "device" if chosen else isinstance(library, Torch)) and simulated()


class ArrayLibrary:
    """One library's arrays.

    ``signature``, ``address``: of a library whose device arrays a call uses as they lie, in the order of a stream.
    They are expressions over ``{x}``, an array. The signature says what it is in the library's own words, and is equal
    only for arrays of one spec at one place. Either may raise RuntimeError for an array that is none of the plain ones.
    """

    signature: tuple[str, ...] = ()
    address = ""

    def __init__(self) -> None:
        self._known: dict[Hashable, tuple[ArraySpec, Place]] = {}

    def describe(self, array: Any) -> Described:
        """The array's spec, and ``(address, place, array)``."""
        raise NotImplementedError

    def current_stream(self, ordinal: int) -> int:
        """The stream on which the library's own next operation would run; 0 where it has none."""
        return self.stream_of(ordinal)()

    def stream_of(self, ordinal: int) -> Callable[[], int]:
        """`current_stream` of one device, to be asked again and again."""
        return int

    def host_view(self, array: Any) -> numpy.ndarray:
        """A host array as a NumPy array over the same memory (ints of the same size stand for dtypes
        that NumPy does not know)."""
        raise NotImplementedError

    def _learn(self, key: Hashable, spec: ArraySpec, place: Place) -> tuple[ArraySpec, Place]:
        if len(self._known) >= _MAX_KNOWN:
            self._known.clear()
        return self._known.setdefault(key, (spec, place))


class NumPy(ArrayLibrary):
    """NumPy arrays of any layout: they are staged (but see `stands_in`)."""

    def describe(self, array: Any) -> Described:
        lies = stands_in(self)
        key = (array.dtype, array.shape, array.flags.writeable, array.strides if lies else None)
        known = self._known.get(key)
        if isinstance(array, numpy.ma.MaskedArray):
            raise ArgumentError(
                "a masked array",
                rule="a kernel sees an array's elements, not its mask",
                fix="pass x.filled(value), or x.data where the mask does not matter",
            )
        if known is None:
            place = Place(self, readonly=not array.flags.writeable, stands_in=lies)
            strides = _whole_strides(array.strides, array.dtype.itemsize) if lies else None
            known = self._learn(key, spec_of(array.shape, _numpy_dtype(array.dtype), strides), place)
        return known[0], (array.ctypes.data if lies else 0, known[1], array)

    def host_view(self, array: Any) -> numpy.ndarray:
        return array


class Torch(ArrayLibrary):
    """torch tensors: CUDA tensors in place, CPU tensors staged (but see `stands_in`)."""

    # Whether it is contiguous is faster to ask than its strides.
    signature = "{x}.dtype", "{x}.shape", "{x}.get_device()", "{x}.is_contiguous() or {x}.stride()"
    address = "{x}.data_ptr()"

    def describe(self, array: Any) -> Described:
        try:
            ordinal = array.get_device()
            lies = ordinal >= 0 or stands_in(self)
            key = (array.dtype, array.shape, array.stride(), ordinal, lies)
            known = self._known.get(key)
            if known is None:
                known = self._learn(key, *self._look(array, lies))
            spec, place = known
            return spec, (array.data_ptr() if lies else 0, place, array)
        except RuntimeError as error:  # sparse, fake and functional tensors have no strides or no memory
            raise ArgumentError(
                f"a torch tensor without plain memory: {error}",
                fix="pass a dense tensor (x.to_dense(), x.contiguous()) outside of torch's own tracing",
            ) from error

    def _look(self, array: Any, lies: bool) -> tuple[ArraySpec, Place]:
        kind = array.device.type
        if kind not in ("cpu", "cuda"):
            raise ArgumentError(f"a torch tensor on device {kind!r}", fix="move it to the GPU: x.to('cuda')")
        dtype = _dtype(str(array.dtype).removeprefix("torch."))
        spec = spec_of(array.shape, dtype, array.stride() if lies else None)
        return spec, Place(self, array.get_device(), stands_in=lies and kind == "cpu")

    def stream_of(self, ordinal: int) -> Callable[[], int]:
        torch = sys.modules["torch"]
        raw = getattr(torch._C, "_cuda_getCurrentRawStream", None)  # ten times faster than a Stream object
        if raw is not None:
            return functools.partial(raw, ordinal)
        return lambda: torch.cuda.current_stream(ordinal).cuda_stream

    def host_view(self, array: Any) -> numpy.ndarray:
        array, torch = array.detach(), sys.modules["torch"]
        name = str(array.dtype)
        if "bfloat16" in name:
            array = array.view(torch.int16)
        elif "float8" in name:
            array = array.view(torch.uint8)
        return array.numpy()


class CuPy(ArrayLibrary):
    """CuPy arrays, in place."""

    signature = "{x}.dtype", "{x}.shape", "{x}.data.device_id", "{x}.strides"
    address = "{x}.data.ptr"

    def describe(self, array: Any) -> Described:
        memory = array.data
        key = (array.dtype, array.shape, array.strides, memory.device_id)
        known = self._known.get(key)
        if known is None:
            strides = _whole_strides(array.strides, array.dtype.itemsize)
            spec = spec_of(array.shape, _numpy_dtype(array.dtype), strides)
            known = self._learn(key, spec, Place(self, memory.device_id))
        return known[0], (memory.ptr, known[1], array)

    def stream_of(self, ordinal: int) -> Callable[[], int]:
        current = sys.modules["cupy"].cuda.get_current_stream
        return lambda: current(ordinal).ptr


class Jax(ArrayLibrary):
    """JAX arrays: immutable, so inputs only. They live outside of every stream that a user can name:
    a call waits until the array is computed, and for its own kernels before it returns."""

    def describe(self, array: Any) -> Described:
        if isinstance(array, sys.modules["jax"].core.Tracer):
            raise ArgumentError("a traced JAX value has no memory", fix="call the kernel outside of jax.jit")
        array.block_until_ready()
        devices = list(array.devices())
        if len(devices) != 1:
            raise ArgumentError(
                f"a JAX array that is spread over {len(devices)} devices",
                fix="pass the array of one device: jax.device_put(x, device)",
            )
        spec = spec_of(array.shape, _numpy_dtype(array.dtype))
        if devices[0].platform == "cpu":
            return spec, (0, Place(self, readonly=True), array)
        place = Place(self, devices[0].local_hardware_id, readonly=True, stream_ordered=False)
        return spec, (array.unsafe_buffer_pointer(), place, array)

    def host_view(self, array: Any) -> numpy.ndarray:
        return numpy.asarray(array)


class Interchange(ArrayLibrary):
    """Any other array that offers ``__dlpack__`` or ``__cuda_array_interface__``, through cuda.core.

    Its producer's pending work is ordered before CUDA's legacy default stream; a call waits for that
    stream, and for its own kernels before it returns."""

    def describe(self, array: Any) -> Described:
        if self._of(array, _is_in_host_memory):
            host = self._of(array, self.host_view)
            place = Place(self, readonly=not host.flags.writeable)
            return spec_of(host.shape, _numpy_dtype(host.dtype)), (0, place, array)
        view = self._of(array, self._view)
        dtype, shape = _numpy_dtype(view.dtype), tuple(view.shape)
        if not view.is_device_accessible:
            return spec_of(shape, dtype), (0, Place(self, readonly=view.readonly), array)
        strides = packed_strides(shape) if view.strides is None else tuple(view.strides)
        place = Place(self, view.device_id, view.readonly, stream_ordered=False)
        return ArraySpec(dtype, shape, canonical_strides(shape, strides)), (view.ptr, place, array)

    @staticmethod
    def _view(array: Any) -> Any:
        from cuda.core.utils import StridedMemoryView  # type: ignore[import-untyped]

        from nvdsl.driver.cuda import LEGACY_STREAM

        return StridedMemoryView.from_any_interface(array, stream_ptr=LEGACY_STREAM)

    @staticmethod
    def _of(array: Any, view: Callable[[Any], Any]) -> Any:
        """``view(array)``. Raises ArgumentError for what its producer does not hand out."""
        try:
            return view(array)
        except Exception as error:  # whatever the producer raises
            raise ArgumentError(
                f"a {type(array).__qualname__} whose memory can't be read: {error or type(error).__name__}",
                fix="pass a NumPy, torch or CuPy array",
            ) from error

    def host_view(self, array: Any) -> numpy.ndarray:
        return numpy.from_dlpack(array)


def _is_in_host_memory(array: Any) -> bool:
    """As DLPack says. Such a producer has no streams: it is not asked for one."""
    device = getattr(array, "__dlpack_device__", None)
    return device is not None and not hasattr(array, "__cuda_array_interface__") and device()[0] == _HOST


def _dtype(name: str) -> DType:
    """The dtype that NumPy (with ml_dtypes) and torch call ``name``."""
    dtype = _BY_NAME.get(name)
    if dtype is None:
        raise ArgumentError(
            f"an array of dtype {name}",
            rule=f"nvdsl has {', '.join(_BY_NAME)}",
            fix="convert the array, or pass a view of its bytes",
        )
    return dtype


def _numpy_dtype(dtype: Any) -> DType:
    if dtype is None:
        raise ArgumentError("an array of a dtype that NumPy has no name for", fix="pass a view of its bytes")
    if not dtype.isnative:
        raise ArgumentError(
            f"an array of dtype {dtype.str}, whose bytes are swapped",
            fix="x.astype(x.dtype.newbyteorder('='))",
        )
    return _dtype(dtype.name)


def _whole_strides(strides: tuple[int, ...], size: int) -> tuple[int, ...]:
    """Strides in elements, from bytes."""
    if any(stride % size for stride in strides):
        raise ArgumentError(
            f"an array with strides of {strides} bytes for elements of {size}",
            rule="strides are whole elements",
            fix="pass a contiguous copy",
        )
    return tuple(stride // size for stride in strides)
