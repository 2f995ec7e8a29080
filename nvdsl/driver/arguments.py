"""The arguments of a call: checks against the host function's types."""

from __future__ import annotations

import math
import operator
from typing import Any

import numpy

from nvdsl.driver.array_spec import ArraySpec, Place
from nvdsl.driver.host.builder import Layout
from nvdsl.errors import ArgumentError
from nvdsl.values.dtypes import DType
from nvdsl.values.elements import integer, rounding

_NO_SPEC = object()


class ArrayArgument:
    """A memref argument of the host function.

    ``on_device``: kernels use its memory, so that host arrays are staged; otherwise the program copies it
    itself (gpu.memcpy), and a host array is passed as it is. ``written``: what a call leaves in it comes
    back to a host array. ``axes``: how those of a dynamic array are named, of which ``layout`` is the first element's;
    the call has compared extents and strides."""

    def __init__(
        self, index: int, slot: int, name: str, layout: Layout, on_device: bool, written: bool, axes: str | None = None
    ) -> None:
        self.axes = axes
        self.index, self.slot, self.name, self.layout = index, slot, name, layout
        self.on_device, self.written = on_device, written
        self.unaligned = layout.dtype.bytes - 1  # bits of an address that must be zero
        self.fits: Any = _NO_SPEC  # the spec that was checked last: libraries give the same object

    def accept(self, spec: Any) -> None:
        """Remember that arrays of this spec fit; ``ArgumentError`` with every reason where they don't."""
        if not isinstance(spec, ArraySpec):
            raise ArgumentError(f"{self.name} is no array", rule=f"the kernel was compiled for {self.layout}")
        problems, fix = self._problems(spec)
        if problems:
            raise ArgumentError(
                f"{self.name} is {spec}: " + "; ".join(problems),
                rule=f"the kernel was compiled for {self.axes or self.layout}",
                fix=fix,
            )
        if self.written and spec.overlaps_itself:
            raise self.shares_elements(f"{spec.strides} elements")
        self.fits = spec

    def _problems(self, spec: ArraySpec) -> tuple[list[str], str]:
        layout, problems, fix = self.layout, [], "pass an array of that shape and dtype"
        if spec.element != layout.element:
            problems.append(f"its elements are {spec.dtype.name}, not {layout.element}")
        if self.axes is not None:
            return problems, fix
        if spec.shape != layout.shape:
            problems.append(f"its shape is {spec.shape}, not {layout.shape}")
        elif spec.strides != layout.strides:
            problems.append(f"its strides are {spec.strides} elements, not {layout.strides}")
            fix = "pass a contiguous copy (x.contiguous(), numpy.ascontiguousarray(x))"
        return problems, fix

    def shares_elements(self, strides: str) -> ArgumentError:
        """The error for an output of which two elements are one place in memory."""
        return ArgumentError(
            f"elements of {self.name} share memory (strides {strides}), and the call writes it",
            rule="each element of an output has a place of its own",
            fix=f"pass a contiguous array as {self.name}, numpy.empty({self.axes or self.layout.shape}) say",
        )

    def check_memory(self, address: int, place: Place) -> None:
        """``ArgumentError`` where the memory can't be used, though the layout fits."""
        if place.readonly and self.written:
            raise ArgumentError(
                f"{self.name} is read-only, and the call writes it",
                rule="results go into writable memory; JAX arrays are immutable",
                fix="pass a writable NumPy array, or a torch or CuPy array, and convert it afterwards",
            )
        if address & self.unaligned:
            raise ArgumentError(
                f"{self.name} starts at address {address:#x}",
                rule=f"elements of {self.layout.element} are {self.layout.dtype.bytes}-byte aligned",
                fix="pass a copy",
            )


class Disjoint:
    """Two arrays of a call that may not share memory: ``name``, which the call writes, and ``other``.

    ``span``, ``other_span``: bytes from an array's element [0, ..., 0] to its first one in memory, and to behind its
    last. ``or_same``: they may start at the same address, being one array."""

    def __init__(
        self, name: str, span: tuple[int, int], other: str, other_span: tuple[int, int], or_same: bool = False
    ) -> None:
        self.name, self.other, self._or_same = name, other, or_same
        self._least, self._most = span[0] - other_span[1], span[1] - other_span[0]

    def check(self, address: int, other: int) -> None:
        """``ArgumentError`` where the arrays at these addresses overlap."""
        if self._least < other - address < self._most and not (self._or_same and other == address):
            raise self.error()

    def error(self) -> ArgumentError:
        return ArgumentError(
            f"{self.name} and {self.other} overlap in memory",
            rule="blocks write parts of the result while others still read the operands",
            fix=f"pass another array as {self.name}, or leave it out",
        )


class ScalarArgument:
    """An integer, index or float argument of the host function."""

    def __init__(self, index: int, slot: int, name: str, dtype: DType) -> None:
        self.index, self.slot, self.name, self.dtype = index, slot, name, dtype
        self._round = rounding(dtype) if dtype.is_float else None
        self._wrap = integer(dtype)
        # signless: both the signed and the unsigned range fit
        self._low, self._high = (dtype.min, (1 << dtype.bits) - 1)

    def convert(self, value: Any) -> int | float:
        """The value as the host program computes with it; ``ArgumentError`` where it does not fit."""
        try:
            if self._round is not None:
                rounded: float = self._round(float(value))
                if not math.isinf(rounded) or math.isinf(value):
                    return rounded
                raise ArgumentError(
                    f"{self.name} is {value}",
                    rule=f"{self.dtype.name} holds {self.dtype.min} to {self.dtype.max}; a float is passed as f32",
                    fix="np.float64(x) passes an f64",
                )
            number = operator.index(bool(value) if isinstance(value, numpy.bool_) else value)
        except (TypeError, ValueError, OverflowError):
            what = "a number" if self.dtype.is_float else "an integer"
            raise ArgumentError(
                f"{self.name} is {value!r} (a {type(value).__name__})",
                rule=f"the host function takes {what} ({self.dtype.name}) there",
            ) from None
        if not self._low <= number <= self._high:
            raise ArgumentError(f"{self.name} is {number}", rule=f"{self.dtype.name} holds {self._low} to {self._high}")
        return self._wrap(number)
