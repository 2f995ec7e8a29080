"""Arithmetic on raw ``ir.Value``s: which MLIR op stands for which operator on which element type.

Both operands have the same type here; the value classes (nvdsl/values/traced.py) bring them there first.
All ops are ``arith`` and ``vector`` ops, and work on scalars and on vectors, except ``intrinsic``:
convert-gpu-to-nvvm turns the ``math`` dialect's ops into libdevice calls, so what has no ``arith`` op is
named as the LLVM intrinsic that the NVPTX backend selects an instruction for.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from nvdsl.errors import trace_error
from nvdsl.mlir import ir
from nvdsl.values.dtypes import DType

# Operator: the op on floats, on signed integers and index, on unsigned integers and bool.
OPS: dict[str, tuple[str | None, str | None, str | None]] = {
    "+": ("arith.addf", "arith.addi", "arith.addi"),
    "-": ("arith.subf", "arith.subi", "arith.subi"),
    "*": ("arith.mulf", "arith.muli", "arith.muli"),
    "/": ("arith.divf", None, None),
    "&": (None, "arith.andi", "arith.andi"),
    "|": (None, "arith.ori", "arith.ori"),
    "^": (None, "arith.xori", "arith.xori"),
    "<<": (None, "arith.shli", "arith.shli"),
    ">>": (None, "arith.shrsi", "arith.shrui"),
    "//": (None, "arith.divsi", "arith.divui"),  # divsi rounds to zero: floor_divide corrects it
    "%": (None, "arith.remsi", "arith.remui"),
    "min": ("arith.minnumf", "arith.minsi", "arith.minui"),
    "max": ("arith.maxnumf", "arith.maxsi", "arith.maxui"),
}

# Comparison: the predicates of arith.cmpf, of cmpi signed, of cmpi unsigned. Floats compare ordered
# (False with a NaN) but for `!=`, which is True with a NaN, as in Python.
PREDICATES = {
    "==": (1, 0, 0),
    "!=": (13, 1, 1),
    "<": (4, 2, 6),
    "<=": (5, 3, 7),
    ">": (2, 4, 8),
    ">=": (3, 5, 9),
    "unordered": (14, None, None),
}


def emit(op: str, type: Any, *operands: Any, **attributes: Any) -> Any:
    """One op with one result of ``type``. (The generic constructor takes half the time of the classes.)"""
    return _create(op, [type], operands, attributes).result


_create = ir.Operation.create


def exists(op: str, t: DType) -> bool:
    """Is there an op for ``op`` on elements of type ``t``?"""
    return OPS[op][_column(t)] is not None


def _column(t: DType) -> int:
    return 0 if t.is_float else 1 if t.signed else 2


def binary(op: str, t: DType, a: Any, b: Any) -> Any:
    """``a op b`` for an ``op`` of ``OPS``; ``t`` is the element type of both."""
    name = OPS[op][_column(t)]
    assert name is not None, (op, t)
    return emit(name, a.type, a, b)


def compare(op: str, t: DType, a: Any, b: Any) -> Any:
    """i1, or a vector of i1: ``a op b`` for an ``op`` of ``PREDICATES``."""
    attr = ir.IntegerAttr.get(ir.IntegerType.get_signless(64), PREDICATES[op][_column(t)])
    name = "arith.cmpf" if t.is_float else "arith.cmpi"
    return emit(name, like(a.type, ir.IntegerType.get_signless(1)), a, b, predicate=attr)


def select(condition: Any, a: Any, b: Any) -> Any:
    return emit("arith.select", a.type, condition, a, b)


def floor_divide(t: DType, a: Any, b: Any, divisor: int | None) -> Any:
    """``a // b`` rounded down, as Python does; ``divisor`` is ``b`` when it is a literal, not 0.

    The machine's division rounds to zero, which differs when there is a remainder whose sign is not
    the divisor's: then the quotient is one less.
    """
    quotient = binary("//", t, a, b)
    if not t.signed:
        return quotient
    remainder = binary("-", t, a, binary("*", t, quotient, b))
    return binary("-", t, quotient, _as_integer(_wrong_sign(t, remainder, b, divisor), a.type))


def floor_modulo(t: DType, a: Any, b: Any, divisor: int | None) -> Any:
    """``a % b`` with the sign of ``b``, as Python does; ``divisor`` as in ``floor_divide``."""
    remainder = binary("%", t, a, b)
    if not t.signed:
        return remainder
    wrong = _wrong_sign(t, remainder, b, divisor)
    return select(wrong, binary("+", t, remainder, b), remainder)


def _wrong_sign(t: DType, remainder: Any, b: Any, divisor: int | None) -> Any:
    """i1: the remainder is not 0 and its sign is not ``b``'s."""
    zero = constant(b.type, 0)
    if divisor is not None:  # the sign is known: one comparison says both
        return compare("<" if divisor > 0 else ">", t, remainder, zero)
    opposite = compare("<", t, binary("^", t, remainder, b), zero)
    some = compare("!=", t, remainder, zero)
    return emit("arith.andi", some.type, some, opposite)


def _as_integer(condition: Any, type: Any) -> Any:
    """0 or 1 of an integer ``type``, or of index."""
    if isinstance(element(type), ir.IndexType):
        return emit("arith.index_castui", type, condition)
    return emit("arith.extui", type, condition)


def negate(t: DType, a: Any) -> Any:
    if t.is_float:
        return emit("arith.negf", a.type, a)
    return binary("-", t, constant(a.type, 0), a)


def absolute(t: DType, a: Any) -> Any:
    """|a|. The least signed integer is its own absolute value (two's complement)."""
    if t.is_float:
        return intrinsic("llvm.fabs", a.type, a)
    return binary("max", t, a, negate(t, a)) if t.signed else a


def power(t: DType, a: Any, exponent: int) -> Any:
    """``a ** exponent`` by squaring, ``exponent`` >= 0."""
    result = None
    while exponent:
        if exponent & 1:
            result = a if result is None else binary("*", t, result, a)
        exponent >>= 1
        if exponent:
            a = binary("*", t, a, a)
    return constant(a.type, 1) if result is None else result


def fma(a: Any, b: Any, c: Any) -> Any:
    """``a * b + c`` rounded once, on floats (PTX fma.rn)."""
    return emit("llvm.intr.fma", a.type, a, b, c)


def intrinsic(name: str, type: Any, *operands: Any, approximate: bool = False) -> Any:
    """Call LLVM's intrinsic ``name``; ``llvm.*`` ones get the type's suffix, ``llvm.nvvm.*`` have it.

    ``approximate`` sets the afn flag, with which the backend selects the ``.approx`` instruction.
    """
    suffix = "" if name.startswith("llvm.nvvm.") else "." + _mangled(type)
    flags = {"fastmathFlags": ir.Attribute.parse("#llvm.fastmath<afn>")} if approximate else {}
    return emit(
        "llvm.call_intrinsic",
        type,
        *operands,
        intrin=ir.StringAttr.get(name + suffix),
        operandSegmentSizes=ir.DenseI32ArrayAttr.get([len(operands), 0]),
        op_bundle_sizes=ir.DenseI32ArrayAttr.get([]),
        **flags,
    )


def _mangled(type: Any) -> str:
    if isinstance(type, ir.VectorType):
        return f"v{type.shape[0]}{type.element_type}"
    return str(type)


def constant(type: Any, value: int | float) -> Any:
    """``arith.constant``; for a vector type, every element is ``value``. No range check."""
    scalar = element(type)
    if isinstance(scalar, (ir.IntegerType, ir.IndexType)):
        value = int(value)
        if value > 127:  # the attribute wants the signed reading of the bits
            bits = 64 if isinstance(scalar, ir.IndexType) else scalar.width
            value -= (value >> (bits - 1)) << bits
        attr = ir.IntegerAttr.get(scalar, value)
    else:
        attr = ir.FloatAttr.get(scalar, float(value))
    if scalar is not type:
        attr = ir.DenseElementsAttr.get_splat(type, attr)
    return emit("arith.constant", type, value=attr)


def element(type: Any) -> Any:
    """The element type of a vector type; any other type itself."""
    return type.element_type if isinstance(type, ir.VectorType) else type


def like(type: Any, scalar: Any) -> Any:
    """``scalar``, or a vector of it with the shape of the vector ``type``."""
    return ir.VectorType.get(type.shape, scalar) if isinstance(type, ir.VectorType) else scalar


def extract(vector: Any, type: Any, position: Sequence[int], dynamic: Sequence[Any] = ()) -> Any:
    """``vector.extract``; in ``position``, ``DYNAMIC`` stands for the next value of ``dynamic`` (index)."""
    static = ir.DenseI64ArrayAttr.get(list(position))
    return emit("vector.extract", type, vector, *dynamic, static_position=static)


OVERFLOW = "overflowFlags"
"""Attribute of an arith op: ``nsw`` where a host function's number must not leave its type."""

DYNAMIC = -(1 << 63)  # ShapedType::kDynamic


def shuffle(vector: Any, positions: Sequence[int]) -> Any:
    """The elements at ``positions`` of a vector of rank 1, as a vector (``vector.shuffle``)."""
    type = ir.VectorType.get([len(positions)], vector.type.element_type)
    return emit("vector.shuffle", type, vector, vector, mask=ir.DenseI64ArrayAttr.get(list(positions)))


def per_element(fn: Callable[[Any], Any], vector: Any) -> Any:
    """Apply ``fn``, which knows only scalars, to each element of a vector of rank 1."""
    scalar = vector.type.element_type
    return pack([fn(extract(vector, scalar, [i])) for i in range(length(vector.type))])


def length(type: Any) -> int:
    """The number of elements of a vector type of rank 1. Raises ``TraceError`` for another rank."""
    if len(type.shape) != 1:
        raise trace_error(f"this function of {type}", rule="it takes numbers and vectors of rank 1")
    return type.shape[0]


def pack(elements: Sequence[Any]) -> Any:
    """A vector of rank 1 out of its elements."""
    return emit("vector.from_elements", ir.VectorType.get([len(elements)], elements[0].type), *elements)
