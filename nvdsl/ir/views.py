"""What a ``memref.subview`` takes of each axis of its source."""

from __future__ import annotations

from typing import Any

from nvdsl.errors.records import dataclass
from nvdsl.ir.operands import integers, named
from nvdsl.mlir import ir

_DYNAMIC = ir.ShapedType.get_dynamic_size()


@dataclass(frozen=True)
class Axis:
    """Index ``i`` of the view's axis ``position`` is ``start + i * step`` here; None: the view has no such axis, and
    takes ``start``. ``start``: an int, or the operand that holds it."""

    start: Any
    step: int
    position: int | None


def axes(subview: Any) -> list[Axis]:
    """Of a ``memref.subview``, an entry for each axis of its source.

    Where it drops axes of one element, the type does not say which: the first ones are as good as any, for all have
    the index 0 alone.
    """
    starts, sizes, steps = (integers(subview, f"static_{name}") for name in ("offsets", "sizes", "strides"))
    dynamic = iter(named(subview).offsets)
    drop = len(sizes) - len(subview.results[0].type.shape)
    found: list[Axis] = []
    position = 0
    for start, size, step in zip(starts, sizes, steps, strict=True):
        first = next(dynamic) if start == _DYNAMIC else start
        if drop and size == 1:
            drop -= 1
            found.append(Axis(first, step, None))
            continue
        found.append(Axis(first, step, position))
        position += 1
    return found
