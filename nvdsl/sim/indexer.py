"""From a memref's value and indices to an address, with each index checked against its extent.

A memref's value is (aligned address, address of the first element), in bytes; shape and strides are in its type. Where
they are not, because an array is dynamic, they follow: (aligned, first, extents, strides in elements).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from nvdsl.ir import views
from nvdsl.ir.location import where
from nvdsl.ir.walk import defining
from nvdsl.mlir import ir
from nvdsl.sim import indices
from nvdsl.sim.access import GLOBAL, SHARED
from nvdsl.sim.decode import Decoder, Frame, is_shared, unknown
from nvdsl.sim.report import error
from nvdsl.sim.values import element

_DYNAMIC = ir.ShapedType.get_dynamic_stride_or_offset()


class Layout:
    """Facts of a memref type: extents, strides in bytes, address space. ``is_static``: whether it has them all."""

    def __init__(self, op: Any, type: Any) -> None:
        strides, self.offset = type.get_strides_and_offset()
        self.element = element(type)
        self.shape = tuple(type.shape)
        self.is_static = type.has_static_shape and _DYNAMIC not in strides
        self.strides = tuple(s * self.element.bytes if s != _DYNAMIC else s for s in strides)
        self.space = SHARED if is_shared(type) else GLOBAL
        name = str(type.memory_space)
        if type.memory_space is not None and not is_shared(type) and "global" not in name and name[:1] not in "01":
            raise unknown(op, f"a memref in memory space {name}")

    def of(self, ref: Any) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
        """Extents, and strides in bytes, of the value ``ref``; an extent that nobody knows is negative."""
        if self.is_static or len(ref) == 2:
            return self.shape, self.strides
        return ref[2], tuple([s * self.element.bytes for s in ref[3]])


class Indexer:
    """The address of an element, with the index checked against each extent."""

    def __init__(self, d: Decoder, op: Any, ref: Any, keys: list[int], trailing: int = 1) -> None:
        self.layout = Layout(op, ref.type)
        self.ref, self.at = d.slot(ref), where(op)
        self.keys = keys
        self.beyond = [*[0] * (len(keys) - 1), trailing - 1] if keys else []  # so many elements behind it count, too
        self.terms = list(zip(keys, self.layout.strides, strict=True))
        self.bounded = True  # whether the last axis is
        self.what = op.name
        self.behind = _arrays_behind(d, ref, trailing)

    def __call__(self, v: Frame) -> Any:
        ref = v[self.ref]
        address, terms = ref[1], self.terms
        if len(ref) > 2:
            terms = list(zip(self.keys, self.layout.of(ref)[1], strict=True))
        for slot, stride in terms:
            address = address + v[slot] * stride
        if v[0].machine.checks:
            self._check(v, ref)
        return address

    def shape(self, ref: Any) -> tuple[Any, ...]:
        return self.layout.of(ref)[0]

    def _check(self, v: Frame, ref: Any) -> None:
        w = v[0]
        found = [v[slot] for slot in self.keys]
        extents = _below(self.shape(ref), self.beyond)
        if not self.bounded:
            extents[-1] = -1
        wrong = indices.first_outside(w, zip(found, extents, strict=True))
        if wrong is not None:
            raise self._outside(w, found, wrong, self.shape(ref), "an array")
        for layout, slot_of_ref, beyond, axes in self.behind:
            shape = layout.of(v[slot_of_ref])[0]
            found = [
                (v[slot] if slot else start) + (0 if position is None else found[position] * step)
                for slot, start, step, position in axes
            ]
            wrong = indices.first_outside(w, zip(found, _below(shape, beyond), strict=True))
            if wrong is not None:
                raise self._outside(w, found, wrong, shape, "an array (through a view)")

    def _outside(self, w: Any, found: list[Any], wrong: tuple[int, int], shape: Any, what: str) -> Any:
        axis, lane = wrong
        bad, extents = indices.in_lane(found, lane)[axis], " x ".join(map(str, indices.in_lane(shape, lane)))
        return error(
            "out-of-bounds",
            f"{self.what} by {w.name} lane {lane}: index {bad} on axis {axis} of {what} of {extents}",
            self.at,
            "indices are 0 to extent - 1",
            "guard the access with an `if`, or change the grid",
        )


def _below(shape: Any, beyond: list[int]) -> list[Any]:
    """What indices are below, where elements ``beyond`` them are accessed, too. (An extent that nobody knows is
    negative, and stays so.)"""
    return [_less(n, more) if more else n for n, more in zip(shape, beyond, strict=True)]


def _less(extent: Any, more: int) -> Any:
    if extent.__class__ is np.ndarray or extent < 0:
        return extent - more
    return max(extent - more, 0)


def _arrays_behind(d: Decoder, ref: Any, trailing: int) -> list[tuple[Layout, int, list[int], list[Any]]]:
    """Of each array that ``ref`` is a view of, with a start or an extent that is known at run time only: its layout,
    its slot, by how much less than its extents the indices there must be, and for each axis (slot or 0, a constant,
    step, axis of the view or None)."""
    found: list[tuple[Layout, int, list[int], list[Any]]] = []
    made, needed = defining(ref), False
    while made is not None and made.name == "memref.subview":
        layout, last = Layout(made, made.operands[0].type), len(ref.type.shape) - 1
        axes = [
            (0 if isinstance(a.start, int) else d.slot(a.start), a.start, a.step, a.position) for a in views.axes(made)
        ]
        beyond = [trailing - 1 if a.position == last and a.step == 1 else 0 for a in views.axes(made)]
        found.append((layout, d.slot(made.operands[0]), beyond, axes))
        needed = needed or not Layout(made, ref.type).is_static or any(slot for slot, *_ in axes)
        ref = made.operands[0]
        made = defining(ref)
    return found if needed else []
