"""Host arrays during a call: a packed copy where a layout has gaps, and device memory where kernels use the array.

Arguments that are the same host memory are the same device memory, so that a call means what it means for device
arrays. Where that is not possible (one is a part of the other, with gaps) the call is refused.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy

from nvdsl.driver.arguments import ArrayArgument
from nvdsl.driver.array_spec import Memory, shares_elements
from nvdsl.driver.run import Run
from nvdsl.errors import ArgumentError

# Steps of NumPy's search for a common byte, before two arrays count as overlapping. Stubs before 2.5 know 0 and 1.
_MAX_WORK: Any = 100_000

Member = tuple[ArrayArgument, numpy.ndarray]


class Staged:
    """The memory of one argument, or of several that are the same memory."""

    def __init__(self, members: Sequence[Member], run: Run) -> None:
        argument, self._view = members[0]
        self._written = any(a.written for a, _ in members)
        self._on_device = argument.on_device
        first = self._view.ctypes.data
        if self._view.flags.c_contiguous:  # then all of them are
            self._packed = self._view
            starts = [view.ctypes.data for _, view in members] if len(members) > 1 else [first]
            self._host = min(starts)
            self._size = max(s + view.nbytes for s, (_, view) in zip(starts, members, strict=True)) - self._host
        else:
            self._packed = self._view.copy(order="C")
            self._host, self._size = self._packed.ctypes.data, self._packed.nbytes
            starts = [self._host] * len(members)
        self._device = self._host
        if self._on_device:
            self._device = run.alloc(self._size)
            run.cuda.copy(self._device, self._host, self._size, run.stream)
        self.addresses = [(a.slot, self._device + s - self._host) for s, (a, _) in zip(starts, members, strict=True)]

    def collect(self, run: Run) -> None:
        """Copy back what the call wrote, in stream order."""
        if self._written and self._on_device:
            run.cuda.copy(self._host, self._device, self._size, run.stream)

    def finish(self) -> None:
        """After the stream was synchronized: hand the packed copy to the caller's array."""
        if self._written and self._packed is not self._view:
            self._view[...] = self._packed


def groups(host: Sequence[tuple[ArrayArgument, Memory]]) -> list[list[Member]]:
    """The host arrays of a call, those together that share memory of which the call writes some.

    Raises ArgumentError for outputs whose elements share memory, and arrays that overlap and can't be staged as one.
    """
    found: list[list[Member]] = []
    for argument, (_, place, array) in host:
        member = argument, place.library.host_view(array)
        _check_elements(*member)
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
    (a, x), (b, y) = one, other
    if not (a.written or b.written) or not (a.on_device and b.on_device) or not share_memory(x, y):
        return False
    if same_elements(x, y) or x.flags.c_contiguous and y.flags.c_contiguous:
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
