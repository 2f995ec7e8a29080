"""Stand-ins for torch, CuPy and JAX, with just what the driver asks of them."""

from __future__ import annotations

import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import ml_dtypes
import numpy as np

from nvdsl.driver.array_spec import canonical_strides, packed_strides


def raising(error: Exception) -> Any:
    def function(*args: Any) -> Any:
        raise error

    return function


def _numpy_dtype(name: str) -> np.dtype:
    return np.dtype(getattr(ml_dtypes, name, name))


def _install(monkeypatch: Any, name: str, **members: Any) -> Any:
    module = ModuleType(name)
    vars(module).update(members)
    monkeypatch.setitem(sys.modules, name, module)
    return module


class _TorchDtype:
    known: dict[str, _TorchDtype] = {}

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return f"torch.{self.name}"

    @classmethod
    def of(cls, name: str) -> _TorchDtype:
        return cls.known.setdefault(name, cls(name))


class TorchTensor:
    """A torch.Tensor of a device address, or of a NumPy array (``host``)."""

    def __init__(self, dtype, shape, strides, device=0, address=0x1000, kind=None, host=None):
        self.dtype, self.shape, self._strides = _TorchDtype.of(dtype), tuple(shape), tuple(strides)
        self._ordinal, self._host = device, host
        self._address = address if host is None else host.ctypes.data
        self.device = SimpleNamespace(type=kind or ("cuda" if device >= 0 else "cpu"))

    def stride(self):
        return self._strides

    def is_contiguous(self):
        return canonical_strides(self.shape, self._strides) == packed_strides(self.shape) or 0 in self.shape

    def get_device(self):
        return self._ordinal

    def data_ptr(self):
        return self._address

    def detach(self):
        return self

    def expand(self, shape):
        return TorchTensor(self.dtype.name, shape, (0,) * len(shape), self._ordinal, self._address, self.device.type)

    def untyped_storage(self):
        return SimpleNamespace(resize_=lambda size: None)

    def view(self, dtype):
        viewed = self._host.view(_numpy_dtype(dtype.name))
        return TorchTensor(dtype.name, self.shape, self._strides, -1, host=viewed)

    def numpy(self):
        if self.dtype.name == "bfloat16":
            raise TypeError("Got unsupported ScalarType BFloat16")
        return self._host


def install_torch(monkeypatch: Any, streams: tuple[int, ...] = (0x51, 0x52), raw: bool = True) -> Any:
    """``streams``: the current stream of each device. ``raw``: whether this torch has the fast getter."""
    current = SimpleNamespace(**({"_cuda_getCurrentRawStream": streams.__getitem__} if raw else {}))
    cuda = SimpleNamespace(current_stream=lambda i: SimpleNamespace(cuda_stream=streams[i]))
    dtypes = {name: _TorchDtype.of(name) for name in ("int16", "uint8")}
    like = {"empty_like": lambda x: sys.modules["torch"].empty(x.shape, x.dtype.name, x.device)}
    return _install(monkeypatch, "torch", Tensor=TorchTensor, _C=current, cuda=cuda, **like, **dtypes)


class CuPyArray:
    def __init__(self, dtype, shape, strides, device=0, address=0x1000):
        self.dtype, self.shape, self.strides = np.dtype(dtype), tuple(shape), tuple(strides)
        self.data = SimpleNamespace(ptr=address, device_id=device)


def install_cupy(monkeypatch: Any, streams: tuple[int, ...] = (0x61, 0x62)) -> Any:
    cuda = SimpleNamespace(get_current_stream=lambda i: SimpleNamespace(ptr=streams[i]))
    return _install(monkeypatch, "cupy", ndarray=CuPyArray, cuda=cuda)


class JaxArray:
    def __init__(self, dtype, shape, address=0x1000, devices=1, platform="gpu", host=None):
        self.dtype, self.shape, self._address, self.waited = _numpy_dtype(dtype), tuple(shape), address, False
        self._devices = {SimpleNamespaceDevice(platform, i) for i in range(devices)}
        self._host = host

    def block_until_ready(self):
        self.waited = True
        return self

    def devices(self):
        return self._devices

    def unsafe_buffer_pointer(self):
        return self._address

    def __array__(self, dtype=None, copy=None):
        return self._host


class SimpleNamespaceDevice:
    def __init__(self, platform: str, local_hardware_id: int) -> None:
        self.platform, self.local_hardware_id = platform, local_hardware_id


class JaxTracer(JaxArray):
    def __init__(self) -> None:
        super().__init__("float32", ())


def install_jax(monkeypatch: Any) -> Any:
    return _install(monkeypatch, "jax", Array=JaxArray, core=SimpleNamespace(Tracer=JaxTracer))
