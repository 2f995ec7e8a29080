"""memref on the host: views of arrays, which only move an address.

A layout follows the array through casts, so that what is cast to a dynamic or unranked type is still
known; sizes and strides of a view must be known when the executable is built, offsets need not.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from nvdsl.driver.array_spec import canonical_strides
from nvdsl.driver.host.builder import Builder, Frame, Handler, Layout, Step, layout_of, unsupported
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

    def all_known(self, op: Any, what: str) -> tuple[int, ...]:
        if None in self.known:
            raise unsupported(op, f"with {what} that are not constants")
        return tuple(value for value in self.known if value is not None)

    def dot(self, factors: Sequence[int]) -> tuple[int, list[tuple[int, int]]]:
        """Sum of value * factor: its known part, and ``(slot, factor)`` of the rest."""
        pairs = list(zip(self.known, self.slots, factors, strict=True))
        known = sum(value * factor for value, _, factor in pairs if value is not None)
        return known, [(slot, factor) for _, slot, factor in pairs if slot is not None]


def _view_operands(builder: Builder, op: Any) -> tuple[_Sizes, _Sizes, _Sizes]:
    view = named(op)
    offsets, sizes, strides = (
        _Sizes(builder, integers(op, f"static_{name}"), builder.slots(getattr(view, name)))
        for name in ("offsets", "sizes", "strides")
    )
    return offsets, sizes, strides


def _view(builder: Builder, op: Any, layout: Layout, displacement: int, terms: list[tuple[int, int]]) -> Step | None:
    """The result is the source's address plus ``displacement`` and each ``slot * factor``, in bytes."""
    source = builder.slot(op.operands[0])
    if displacement == 0 and not terms and layout == builder.layouts[source]:
        builder.alias(op.results[0], source)
        return None
    result = builder.define(op.results[0])
    builder.layouts[result] = layout
    builder.roots[result] = builder.root(source)

    def shift(frame: Frame) -> None:
        frame[result] = frame[source] + displacement

    def shift_by_values(frame: Frame) -> None:
        frame[result] = frame[source] + displacement + sum(frame[slot] * factor for slot, factor in terms)

    return shift_by_values if terms else shift


def _subview(builder: Builder, op: Any) -> Step | None:
    source = builder.layout(builder.slot(op.operands[0]), op)
    offsets, sizes, strides = _view_operands(builder, op)
    known, terms = offsets.dot(source.strides)
    layout = layout_of(op.results[0].type)
    if layout is None:
        shape = sizes.all_known(op, "sizes")
        if len(shape) != op.results[0].type.rank:
            raise unsupported(op, "with dropped dimensions and dynamic strides")
        steps = strides.all_known(op, "strides")
        new_strides = tuple(a * b for a, b in zip(steps, source.strides, strict=True))
        layout = Layout(source.element, shape, canonical_strides(shape, new_strides))
    offset = None if terms or source.offset is None else source.offset + known
    layout = Layout(layout.element, layout.shape, layout.strides, offset)
    size = source.dtype.bytes
    return _view(builder, op, layout, known * size, [(slot, factor * size) for slot, factor in terms])


def _reinterpret_cast(builder: Builder, op: Any) -> Step | None:
    """The offset counts from the array's base, not from where the source view starts."""
    source = builder.layout(builder.slot(op.operands[0]), op)
    offsets, sizes, strides = _view_operands(builder, op)
    if source.offset is None:
        raise unsupported(op, "on a view with a dynamic offset")
    known, terms = offsets.dot([1])
    shape = sizes.all_known(op, "sizes")
    steps = canonical_strides(shape, strides.all_known(op, "strides"))
    layout = Layout(source.element, shape, steps, None if terms else known)
    size = source.dtype.bytes
    return _view(builder, op, layout, (known - source.offset) * size, [(slot, size) for slot, _ in terms])


def _cast(builder: Builder, op: Any) -> None:
    """Another type for the same address."""
    builder.alias(op.results[0], builder.slot(op.operands[0]))


def _dim(builder: Builder, op: Any) -> Step | None:
    source, index = builder.slots(op.operands)
    shape = builder.layout(source, op).shape
    if index in builder.constant:
        builder.set_constant(op.results[0], shape[builder.template[index]])
        return None
    result = builder.define(op.results[0])

    def step(frame: Frame) -> None:
        frame[result] = shape[frame[index]]

    return step


HANDLERS: dict[str, Handler] = {
    "memref.cast": _cast,
    "memref.memory_space_cast": _cast,
    "memref.subview": _subview,
    "memref.reinterpret_cast": _reinterpret_cast,
    "memref.dim": _dim,
}
