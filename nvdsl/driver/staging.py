"""Host arrays during a call: a packed copy where a layout has gaps, and device memory where kernels use the array.
Those that stand for device arrays are copied with their gaps, to where they begin between multiples of `PHASE` bytes.

Arguments that are the same host memory are the same device memory, so that a call means what it means for device
arrays. Where that is not possible (one is a part of the other, with gaps) the call is refused.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

import numpy

from nvdsl.driver.arguments import ArrayArgument
from nvdsl.driver.array_spec import ArraySpec, Memory, shares_elements
from nvdsl.driver.run import Run
from nvdsl.errors import ArgumentError

# Steps of NumPy's search for a common byte, before two arrays count as overlapping. Stubs before 2.5 know 0 and 1.
_MAX_WORK: Any = 100_000

PHASE = 128
"""Bytes: what stands for a device array begins as far behind a multiple of these as in the memory of the host. No
access, tensor map or cache line asks for more."""


class Member:
    """A host array of a call: the argument that it is given for, and a NumPy array over its memory. ``stands_in``: see
    `Place`."""

    __slots__ = ("argument", "stands_in", "view")

    def __init__(self, argument: ArrayArgument, spec: ArraySpec, memory: Memory) -> None:
        address, place, array = memory
        self.argument, self.stands_in = argument, place.stands_in
        self.view = _lying(spec, address) if place.stands_in else place.library.host_view(array)


def _lying(spec: ArraySpec, address: int) -> numpy.ndarray:
    """The memory at an address as an array of unsigned integers."""
    size = spec.dtype.bytes
    kind = numpy.dtype(f"u{size}")
    one = numpy.ctypeslib.as_array((ctypes.c_uint8 * (size if numpy.prod(spec.shape) else 0)).from_address(address))
    strides = tuple([step * size for step in spec.strides])
    return numpy.lib.stride_tricks.as_strided(one.view(kind), spec.shape, strides)


class Staged:
    """The memory of one argument, or of several that are the same memory."""

    def __init__(self, members: Sequence[Member], run: Run) -> None:
        argument, self._view = members[0].argument, members[0].view
        self._written = any(m.argument.written for m in members)
        self._on_device = argument.on_device
        stands_in, lead = any(m.stands_in for m in members), 0
        if stands_in or self._view.flags.c_contiguous:  # then all of them are
            self._packed = self._view
            starts = [m.view.ctypes.data for m in members]
            bounds = [numpy.lib.array_utils.byte_bounds(m.view) for m in members]
            self._host = min(low for low, _ in bounds)
            self._size = max(high for _, high in bounds) - self._host
            lead = self._host % PHASE if stands_in else 0
        else:
            self._packed = self._view.copy(order="C")
            self._host, self._size = self._packed.ctypes.data, self._packed.nbytes
            starts = [self._host] * len(members)
        self._device = self._host
        if self._on_device:
            start = run.alloc(lead + self._size)
            if stands_in:
                run.cuda.begins_at(start, lead, " and ".join(dict.fromkeys(m.argument.name for m in members)))
            self._device = start + lead
            run.cuda.copy(self._device, self._host, self._size, run.stream)
        slots = [m.argument.slot for m in members]
        self.addresses = [(slot, self._device + s - self._host) for slot, s in zip(slots, starts, strict=True)]

    def collect(self, run: Run) -> None:
        """Copy back what the call wrote, in stream order."""
        if self._written and self._on_device:
            run.cuda.copy(self._host, self._device, self._size, run.stream)

    def finish(self) -> None:
        """After the stream was synchronized: hand the packed copy to the caller's array."""
        if self._written and self._packed is not self._view:
            self._view[...] = self._packed


def groups(host: Sequence[Member]) -> list[list[Member]]:
    """The host arrays of a call, those together that share memory of which the call writes some.

    Raises ArgumentError for outputs whose elements share memory, and arrays that overlap and can't be staged as one.
    """
    found: list[list[Member]] = []
    for member in host:
        _check_elements(member.argument, member.view)
        joined = [group for group in found if any(_overlap(member, other) for other in group)]
        if joined:
            found = [group for group in found if not any(group is one for one in joined)]
        found.append([m for group in joined for m in group] + [member])
    return found


def _check_elements(argument: ArrayArgument, view: numpy.ndarray) -> None:
    if not argument.written or view.flags.c_contiguous:
        return
    if shares_elements(view.shape, view.strides, view.itemsize):
        raise argument.shares_elements(f"{view.strides} bytes")


def _overlap(one: Member, other: Member) -> bool:
    """Whether two arguments are staged as one."""
    a, b, x, y = one.argument, other.argument, one.view, other.view
    if one.stands_in and other.stands_in:
        return a.on_device and b.on_device and numpy.may_share_memory(x, y)
    if not (a.written or b.written) or not (a.on_device and b.on_device) or not share_memory(x, y):
        return False
    alike = one.stands_in == other.stands_in
    if alike and same_elements(x, y) or x.flags.c_contiguous and y.flags.c_contiguous:
        return True
    first, second = sorted((a, b), key=lambda argument: argument.index)
    raise ArgumentError(
        f"{first.name} and {second.name} overlap in memory, and the call writes {(a if a.written else b).name}",
        rule="host arrays are copied to the device; what overlaps is copied as one where each array is C-contiguous",
        fix=f"pass a copy as {second.name}, or arrays without gaps",
    )


def share_memory(x: numpy.ndarray, y: numpy.ndarray) -> bool:
    """Whether two host arrays have a byte in common, or may have one where that is hard to say."""
    if not numpy.may_share_memory(x, y):
        return False
    try:
        return numpy.shares_memory(x, y, max_work=_MAX_WORK)
    except numpy.exceptions.TooHardError:
        return True


def same_elements(x: numpy.ndarray, y: numpy.ndarray) -> bool:
    """Whether two host arrays hold the same elements in the same order, in one place."""
    return _place(x) == _place(y)


def _place(view: numpy.ndarray) -> tuple[Any, ...]:
    """Equal for arrays that hold the same elements in the same order."""
    axes = [(n, step) for n, step in zip(view.shape, view.strides, strict=True) if n > 1]
    return view.ctypes.data, view.itemsize, axes
