"""The array arguments of a finished kernel's public function: what each is, where it lies, whether it may be written.

    x = Argument.of("x", x)
    out = Argument.output("out", out, x, shape, dtype)       # the caller's array, or a new one where that is None
    out.check_apart(x, or_same=True)
    kernel(x.view(), out.view(), ...)                        # an `nv.jit` function
    return out.result()
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from nvdsl.driver import arrays, new_arrays
from nvdsl.driver.arguments import Disjoint
from nvdsl.driver.array_libraries import NumPy
from nvdsl.driver.array_spec import ArraySpec, Memory, shares_elements
from nvdsl.driver.staging import same_elements, share_memory
from nvdsl.driver.view import View, strided
from nvdsl.errors import ArgumentError
from nvdsl.values.dtypes import DType

ALIGNMENT = 16
"""Bytes of the widest access; also what TMA's addresses are multiples of."""


class Argument:
    """An array of NumPy, torch, CuPy, JAX or DLPack.

    ``spec``: its type, shape and strides in elements. ``memory``: where it lies. Both are what a call is found by.
    ``host``: a host array as it lies in memory; None for a device array. A host array is staged as a packed copy,
    which is made once and only if it is asked for (`source`), so its ``spec`` has the strides of that copy.
    """

    __slots__ = ("_packed", "_result", "host", "memory", "name", "spec")

    def __init__(self, name: str, spec: ArraySpec, memory: Memory, host: np.ndarray | None = None) -> None:
        self.name, self.spec, self.memory, self.host = name, spec, memory, host
        self._packed: np.ndarray | None = None
        self._result: Callable[[], Any] | None = None

    @staticmethod
    def of(name: str, array: Any, *, written: bool = False) -> Argument:
        """Describe an array. ``written``: the call writes it.

        Raises ArgumentError for what is no array. For one that is written, also if it is read-only or if two of its
        elements share memory.
        """
        described = arrays.describe(array)
        if described is None:
            convertible = isinstance(array, list | tuple | int | float) and not isinstance(array, bool)
            raise ArgumentError(
                f"{name} is a {type(array).__qualname__}", rule="arrays are those of NumPy, torch, CuPy or JAX",
                fix=f"np.asarray({name})" if convertible else "",
            )
        spec, memory = described
        address, place, owner = memory
        if written and place.readonly:
            raise ArgumentError(
                f"{name} is read-only",
                rule="a call writes its outputs",
                fix="pass a writable array, or leave it out: a new array is returned",
            )
        if written and spec.overlaps_itself:
            raise _shares_elements(name, spec.strides, "elements")
        if address or place.device >= 0:
            return Argument(name, spec, memory)
        host = place.library.host_view(owner)
        if not isinstance(place.library, NumPy) and host.dtype != spec.dtype.numpy:
            host = host.view(spec.dtype.numpy)  # ints that stand for a type that NumPy lacks
        if written and shares_elements(host.shape, host.strides, host.itemsize):
            raise _shares_elements(name, host.strides, "bytes")
        return Argument(name, spec, memory, host)

    @staticmethod
    def output(name: str, array: Any, like: Argument, shape: tuple[int, ...], dtype: DType) -> Argument:
        """An array that the call writes: the caller's, or where that is None a new C-contiguous one of ``dtype``. The
        new one is of the library and on the device of ``like``. `result` gives what the call returns for it.

        Raises ArgumentError where the caller's array has another shape or can't be written. Its type and its place
        are for the caller to check (`check_apart`).
        """
        if array is None:
            made, result = new_arrays.empty_like(like.memory, shape, dtype)
            new = Argument.of(name, made, written=True)
            new._result = result
            return new
        given = Argument.of(name, array, written=True)
        if given.spec.shape != shape:
            raise ArgumentError(
                f"{name} has the shape {given.spec.shape}",
                rule=f"its shape is {shape}",
                fix="leave it out: a new array is returned",
            )
        return given

    @property
    def is_new(self) -> bool:
        """Whether the call made this array."""
        return self._result is not None

    @property
    def aligned(self) -> bool:
        """Whether its first element lies at a multiple of 16 bytes, as that of a staged copy does."""
        return self.memory[0] % ALIGNMENT == 0

    @property
    def source(self) -> np.ndarray | Memory:
        """The memory that a kernel reads or writes: that of a device array, or the packed copy of a host array, a
        C-contiguous NumPy array. A host array that is C-contiguous is its own copy."""
        if self.host is None:
            return self.memory
        if self._packed is None:
            self._packed = np.ascontiguousarray(self.host).reshape(self.host.shape)
        return self._packed

    def view(self, shape: Sequence[int] | None = None, strides: Sequence[int] | None = None) -> Any:
        """What a jit function takes for the array: `source`, with this shape and these strides in elements. None takes
        its own. Without ``strides``, another shape is a C-contiguous array's."""
        source = self.source
        if shape is None:
            return source if isinstance(source, np.ndarray) else View(self.spec, source)
        if isinstance(source, np.ndarray):
            return source.reshape(shape) if strides is None else strided(source, shape, strides)
        return View(arrays.spec_of(tuple(shape), self.spec.dtype, None if strides is None else tuple(strides)), source)

    def result(self) -> Any:
        """Of an output, after the kernel: the array that the call returns. A host array of the caller gets what was
        written to its packed copy."""
        if self._result is not None:
            return self._result()
        packed, host = self._packed, self.host
        if host is not None and packed is not None and host.size and not np.may_share_memory(host, packed):
            host[...] = packed
        return self.memory[2]

    def maker(self) -> Callable[[], tuple[Any, int]]:
        """Of a new output on a device: a function that makes another one like it, and says where that lies."""
        return new_arrays.maker(self.memory, self.spec.shape, self.spec.dtype)

    @property
    def span(self) -> tuple[int, int]:
        """Bytes from element [0, ..., 0] to the first one in memory, and to behind the last."""
        return _span(self.spec)

    def apart(self, other: Argument, *, or_same: bool = False) -> Disjoint:
        """The rule that this array, which the call writes, shares no memory with ``other``. With ``or_same`` they may
        be one and the same array. Repeated calls check this rule by addresses alone."""
        return Disjoint(self.name, self.span, other.name, other.span, or_same=or_same and self.spec == other.spec)

    def check_apart(self, other: Argument, *, or_same: bool = False) -> None:
        """Raises ArgumentError where `apart` is broken."""
        pair = self.apart(other, or_same=or_same)
        if self.host is not None and other.host is not None:
            same = or_same and self.spec == other.spec and same_elements(self.host, other.host)
            if not same and share_memory(self.host, other.host):
                raise pair.error()
        (address, place, _), (start, where, _) = self.memory, other.memory
        if address and start and where.device == place.device:
            pair.check(address, start)


@functools.lru_cache(maxsize=1024)
def _span(spec: ArraySpec) -> tuple[int, int]:
    steps = [(n - 1) * step for n, step in zip(spec.shape, spec.strides, strict=True)]
    size = spec.dtype.bytes
    return size * sum(min(s, 0) for s in steps), size * (sum(max(s, 0) for s in steps) + 1)


def _shares_elements(name: str, strides: tuple[int, ...], unit: str) -> ArgumentError:
    return ArgumentError(
        f"elements of {name} share memory (strides {strides} {unit})",
        rule="each element of an output has a place of its own",
        fix=f"pass a contiguous array as {name}, or leave it out: a new array is returned",
    )
