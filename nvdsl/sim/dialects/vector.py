"""vector: elements along the first axes, lanes along the last (1 where all lanes agree). Memory: `vector_memory`."""

from __future__ import annotations

from typing import Any

import numpy as np

from nvdsl.ir.operands import integers, word
from nvdsl.mlir import ir
from nvdsl.sim.decode import Decoder, Frame, op, unknown
from nvdsl.sim.dialects.arith import unary
from nvdsl.sim.dialects.conversions import bitcast
from nvdsl.sim.values import LANES, Element, column, element, is_uniform, scalar, spread

_DYNAMIC = ir.ShapedType.get_dynamic_size()


def to_scalar(x: Any, e: Element) -> Any:
    """A (1,) or (32,) row as a scalar value."""
    if is_uniform(x):
        return scalar(np.asarray(x), e)
    return x


def stack(parts: list[Any], e: Element) -> Any:
    """Scalars as the elements of a vector."""
    if all(not isinstance(p, np.ndarray) for p in parts):
        return np.array(parts, e.dtype).reshape(-1, 1)
    whole = np.empty((len(parts), LANES), e.dtype)
    for i, part in enumerate(parts):
        whole[i] = part
    return whole


@op("vector.from_elements")
def _from_elements(d: Decoder, op: Any) -> Any:
    slots = d.operands(op)
    r = d.result(op)
    shape = tuple(op.results[0].type.shape)
    e = element(op.results[0].type)
    flat = len(shape) == 1

    def step(v: Frame) -> None:
        x = stack([v[s] for s in slots], e)
        v[r] = x if flat else x.reshape(*shape, x.shape[-1])

    return step


@op("vector.to_elements")
def _to_elements(d: Decoder, op: Any) -> Any:
    (source,) = d.operands(op)
    results = [d.define(result) for result in op.results]
    e = element(op.operands[0].type)

    def step(v: Frame) -> None:
        x = v[source]
        for r, row in zip(results, x.reshape(-1, x.shape[-1]), strict=True):
            v[r] = to_scalar(row, e)

    return step


@op("vector.extract", "vector.extractelement", "llvm.extractelement")
def _extract(d: Decoder, op: Any) -> Any:
    source, *dynamic = d.operands(op)
    r = d.result(op)
    e = element(op.operands[0].type)
    is_scalar = not isinstance(op.results[0].type, ir.VectorType)
    position = _position(op, dynamic)

    def step(v: Frame) -> None:
        x = column(v[source], e)
        at = tuple(v[p.slot] if p.__class__ is Slot else p for p in position)
        if any(p.__class__ is np.ndarray for p in at):
            wide = np.broadcast_to(x, (*x.shape[:-1], LANES))
            row = wide[(*at, np.arange(LANES))]
        else:
            row = x[at]
        v[r] = to_scalar(row, e) if is_scalar else row

    return step


class Slot:
    """A position that is known at run time only."""

    __slots__ = ("slot",)

    def __init__(self, slot: int) -> None:
        self.slot = slot


def _position(op: Any, dynamic: list[int]) -> list[Any]:
    if "static_position" not in op.attributes:
        return [Slot(slot) for slot in dynamic]
    coming = iter(dynamic)
    return [Slot(next(coming)) if p == _DYNAMIC else p for p in integers(op, "static_position")]


@op("vector.insert", "vector.insertelement", "llvm.insertelement")
def _insert(d: Decoder, op: Any) -> Any:
    slots = d.operands(op)
    if op.name == "llvm.insertelement":
        slots = [slots[1], slots[0], *slots[2:]]
    value, target, *dynamic = slots
    r = d.result(op)
    e = element(op.results[0].type)
    position = _position(op, dynamic)
    shape = tuple(op.results[0].type.shape)

    def step(v: Frame) -> None:
        x = np.zeros((*shape, 1), e.dtype) if v[target] is None else v[target]
        part = np.asarray(v[value])
        at = tuple(v[p.slot] if p.__class__ is Slot else p for p in position)
        lanes = max(x.shape[-1], part.shape[-1] if part.ndim else 1, 32 if any(np.ndim(p) for p in at) else 1)
        x = spread(x, (*shape, lanes))
        if any(np.ndim(p) for p in at):
            x[(*at, np.arange(LANES))] = part
        else:
            x[at] = part
        v[r] = x

    return step


@op("vector.broadcast", "vector.splat")
def _broadcast(d: Decoder, op: Any) -> Any:
    e, shape = element(op.results[0].type), tuple(op.results[0].type.shape)

    def f(x: Any) -> Any:
        x = column(x, e)
        return spread(x, (*shape, x.shape[-1]))

    return unary(d, op, f)


@op("vector.bitcast")
def _bitcast(d: Decoder, op: Any) -> Any:
    source, target = element(op.operands[0].type), element(op.results[0].type)
    return unary(d, op, lambda x: bitcast(x, source, target, True, True))


@op("vector.shape_cast")
def _shape_cast(d: Decoder, op: Any) -> Any:
    shape = tuple(op.results[0].type.shape)
    return unary(d, op, lambda x: x.reshape(*shape, x.shape[-1]))


@op("vector.extract_strided_slice")
def _slice(d: Decoder, op: Any) -> Any:
    offsets = integers(op, "offsets")
    sizes = integers(op, "sizes")
    at = tuple(slice(o, o + s) for o, s in zip(offsets, sizes, strict=True))
    return unary(d, op, lambda x: x[at])


@op("vector.shuffle")
def _shuffle(d: Decoder, op: Any) -> Any:
    a, b = d.operands(op)
    r = d.result(op)
    mask = integers(op, "mask")
    e, shapes = element(op.operands[0].type), [tuple(value.type.shape) for value in op.operands]  # None: poison

    def step(v: Frame) -> None:
        x, y = (np.zeros((*n, 1), e.dtype) if v[s] is None else v[s] for s, n in zip((a, b), shapes, strict=True))
        lanes = max(x.shape[-1], y.shape[-1])
        both = np.concatenate([z if z.shape[-1] == lanes else spread(z, (*z.shape[:-1], lanes)) for z in (x, y)])
        v[r] = both[[max(m, 0) for m in mask]]

    return step


_REDUCTIONS: dict[str, Any] = {
    "add": lambda x, y: x + y, "mul": lambda x, y: x * y, "and": lambda x, y: x & y, "or": lambda x, y: x | y,
    "xor": lambda x, y: x ^ y, "minsi": np.minimum, "maxsi": np.maximum, "minnumf": np.fmin, "maxnumf": np.fmax,
    "minimumf": np.minimum, "maximumf": np.maximum,
}  # fmt: skip


@op("vector.reduction")
def _reduction(d: Decoder, op: Any) -> Any:
    """In order, from the first element on."""
    kind = word(op, "kind")
    if kind not in _REDUCTIONS:
        raise unknown(op, f"reduction {kind}")
    f, e = _REDUCTIONS[kind], element(op.results[0].type)
    source, *start = d.operands(op)
    r = d.result(op)

    def step(v: Frame) -> None:
        rows = list(v[source])
        total = column(v[start[0]], e) if start else rows.pop(0)
        for row in rows:
            total = f(total, row)
        v[r] = to_scalar(total, e)

    return step
