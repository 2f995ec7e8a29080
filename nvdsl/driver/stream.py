"""The stream of a call, as an int handle, out of what people pass as ``stream=``."""

from __future__ import annotations

import operator
from typing import Any, Protocol, SupportsIndex, SupportsInt

from nvdsl.driver.array_spec import Place
from nvdsl.errors import ArgumentError


class TorchStream(Protocol):
    """A torch.cuda.Stream."""

    @property
    def cuda_stream(self) -> int: ...


class CuPyStream(Protocol):
    """A cupy.cuda.Stream."""

    @property
    def ptr(self) -> int: ...


class CudaStream(Protocol):
    """What has cuda.core's protocol for streams."""

    def __cuda_stream__(self) -> tuple[int, int]: ...


Stream = CudaStream | TorchStream | CuPyStream | SupportsIndex | SupportsInt
"""What people pass as ``stream=``: a stream of a library, a handle, or a CUstream of cuda.bindings."""


def resolve(stream: Stream | None, place: Place | None = None) -> int:
    """The handle (CUstream as an int) of ``stream``.

    ``stream``: an int handle, an object with ``__cuda_stream__`` (cuda.core, torch), a torch stream
    (``.cuda_stream``), a CuPy stream (``.ptr``), or a CUstream / cudaStream_t of cuda.bindings. None
    stands for the current stream of the library of the device array at ``place`` (torch and CuPy have
    one), and for the legacy default stream 0 where there is no device array.
    """
    if stream is None:
        return place.library.current_stream(place.device) if place is not None else 0
    if type(stream) is int:
        return stream
    return _handle(stream)


def _handle(stream: Any) -> int:
    protocol = getattr(stream, "__cuda_stream__", None)
    if protocol is not None:  # (version, handle): a method, in its first version a property
        return int((protocol() if callable(protocol) else protocol)[1])
    for name in ("cuda_stream", "ptr"):
        value = getattr(stream, name, None)
        if type(value) is int:
            return value
    if not isinstance(stream, bool | str | bytes | float):
        for convert in (operator.index, int):
            try:
                return convert(stream)
            except (TypeError, ValueError):
                continue
    raise ArgumentError(
        f"stream={stream!r} (a {type(stream).__name__})",
        rule="a stream is an int handle, an object with __cuda_stream__, .cuda_stream (torch) or .ptr "
        "(CuPy), a CUstream of cuda.bindings, or None",
        fix="pass stream=torch.cuda.current_stream(), or leave it out",
    )
