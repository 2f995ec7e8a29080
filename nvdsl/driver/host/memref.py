"""memref on the host: views of arrays, which only move an address.

A layout follows the array through casts, so that what is cast to a dynamic or unranked type is still
known. Offsets, sizes and strides of a view may be values that only a run knows.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

from nvdsl.driver.array_spec import canonical_strides
from nvdsl.driver.host.builder import (
    Builder,
    Frame,
    Handler,
    Layout,
    Slot,
    Step,
    layout_of,
    sequence,
    unsupported,
)
from nvdsl.ir import views
from nvdsl.ir.operands import integers, named
from nvdsl.mlir import ir


class _Sizes:
    """Offsets, sizes or strides of a view: each a known int, or the slot of a host value."""

    def __init__(self, builder: Builder, static: Any, slots: Sequence[int]) -> None:
        dynamic, remaining = ir.ShapedType.get_dynamic_stride_or_offset(), iter(slots)
        self.known: list[int | None] = []
        self.slots: list[int | None] = []
        for value in static:
            slot = next(remaining) if value == dynamic else None
            if slot is not None and slot in builder.constant:
                value, slot = builder.template[slot], None
            self.known.append(value if slot is None else None)
            self.slots.append(slot)

    @property
    def sizes(self) -> tuple[int, ...]:
        """Each as an extent of a `Layout`."""
        pairs = zip(self.known, self.slots, strict=True)
        return tuple(Slot(slot) if slot is not None else known for known, slot in pairs)  # type: ignore[misc]

    def dot(self, factors: Sequence[int]) -> tuple[int, list[tuple[int, int]]]:
        """Sum of value * factor: its known part, and (value, factor), one of them at least a `Slot`, of the rest."""
        pairs = [(value, factor) for value, factor in zip(self.sizes, factors, strict=True) if value or _is_slot(value)]
        known = sum(value * factor for value, factor in pairs if not (_is_slot(value) or _is_slot(factor)))
        return known, [pair for pair in pairs if any(map(_is_slot, pair))]


def _is_slot(value: int) -> bool:
    return isinstance(value, Slot)


def _value(frame: Frame, number: int) -> int:
    value: int = frame[number] if isinstance(number, Slot) else number
    return value


def _view_operands(builder: Builder, op: Any) -> tuple[_Sizes, _Sizes, _Sizes]:
    view = named(op)
    offsets, sizes, strides = (
        _Sizes(builder, integers(op, f"static_{name}"), builder.slots(getattr(view, name)))
        for name in ("offsets", "sizes", "strides")
    )
    return offsets, sizes, strides


def _view(builder: Builder, op: Any, layout: Layout, displacement: int, terms: list[tuple[int, int]]) -> Step | None:
    """The result is the source's address plus ``displacement`` and each term's product, in elements."""
    source, size = builder.slot(op.operands[0]), layout.dtype.bytes
    if displacement == 0 and not terms and layout == builder.layouts[source]:
        builder.alias(op.results[0], source)
        return None
    result = builder.define(op.results[0])
    builder.layouts[result] = layout
    builder.roots[result] = builder.root(source)
    if op.name == "memref.subview":
        builder.wholes[result] = builder.wholes.get(source, source)

    def shift(frame: Frame) -> None:
        frame[result] = frame[source] + displacement * size

    def shift_by_values(frame: Frame) -> None:
        moved = displacement + sum(_value(frame, x) * _value(frame, factor) for x, factor in terms)
        frame[result] = frame[source] + moved * size

    return shift_by_values if terms else shift


def _subview(builder: Builder, op: Any) -> Step | None:
    source = builder.layout(builder.slot(op.operands[0]), op)
    offsets, sizes, steps = _view_operands(builder, op)
    known, terms = offsets.dot(source.strides)
    layout = layout_of(op.results[0].type)
    products: list[Step] = []
    if layout is None:
        strides, products = _products(builder, op, steps.sizes, source.strides)
        kept = [k for k, axis in enumerate(views.axes(op)) if axis.position is not None]
        layout = _made(source.element, tuple([sizes.sizes[k] for k in kept]), tuple([strides[k] for k in kept]))
    offset = None if terms or source.offset is None else source.offset + known
    layout = Layout(layout.element, layout.shape, layout.strides, offset)
    move = _view(builder, op, layout, known, terms)
    return sequence([*products, move]) if products and move else move


def _products(builder: Builder, op: Any, steps: Sequence[int], strides: Sequence[int]) -> tuple[list[int], list[Step]]:
    """The strides of a view, and what computes those that only a run knows."""
    found: list[int] = []
    compute: list[Step] = []
    for step, stride in zip(steps, strides, strict=True):
        if not (_is_slot(step) or _is_slot(stride)):
            found.append(step * stride)
        elif step == 1 and not _is_slot(step):
            found.append(stride)
        else:
            found.append(Slot(builder.new_slot()))
            compute.append(functools.partial(_multiply, int(found[-1]), step, stride))
    return found, compute


def _multiply(result: int, a: int, b: int, frame: Frame) -> None:
    frame[result] = _value(frame, a) * _value(frame, b)


def _made(element: str, shape: tuple[int, ...], strides: tuple[int, ...]) -> Layout:
    """A layout, in its canonical form where all of it is known."""
    layout = Layout(element, shape, strides)
    return Layout(element, shape, canonical_strides(shape, strides)) if layout.is_static else layout


def _reinterpret_cast(builder: Builder, op: Any) -> Step | None:
    """The offset counts from the array's base, not from where the source view starts."""
    source = builder.layout(builder.slot(op.operands[0]), op)
    offsets, sizes, strides = _view_operands(builder, op)
    if source.offset is None:
        raise unsupported(op, "on a view with a dynamic offset")
    known, terms = offsets.dot([1])
    made = _made(source.element, sizes.sizes, strides.sizes)
    layout = Layout(made.element, made.shape, made.strides, None if terms else known)
    return _view(builder, op, layout, known - source.offset, terms)


def _cast(builder: Builder, op: Any) -> None:
    """Another type for the same address."""
    builder.alias(op.results[0], builder.slot(op.operands[0]))


def _dim(builder: Builder, op: Any) -> Step | None:
    source, index = builder.slots(op.operands)
    shape = builder.layout(source, op).shape
    if index in builder.constant:
        extent = shape[builder.template[index]]
        if isinstance(extent, Slot):
            builder.alias(op.results[0], extent)
        else:
            builder.set_constant(op.results[0], extent)
        return None
    result = builder.define(op.results[0])

    def step(frame: Frame) -> None:
        frame[result] = _value(frame, shape[frame[index]])

    return step


HANDLERS: dict[str, Handler] = {
    "memref.cast": _cast,
    "memref.memory_space_cast": _cast,
    "memref.subview": _subview,
    "memref.reinterpret_cast": _reinterpret_cast,
    "memref.dim": _dim,
}
