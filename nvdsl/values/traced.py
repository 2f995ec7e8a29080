"""Traced values: Python's operators build MLIR ops.

Importing this module registers ``Value`` as MLIR's Python class for every integer, index, float and
vector value, whoever builds it: ``gpu.thread_id(gpu.Dimension.x) * 4`` is a ``Value``, too.

Types meet as ``nvdsl.values.dtypes.common`` says; a Python number takes the other operand's type (f32 for a float
beside an integer) and must fit it. bool counts as i32 but for ``& | ^ ~`` and comparisons of two bools.

==============================  ============================================================================
``+ - *``                       integers wrap; f16 and bf16 round after every operator
``/``                           floats divide (IEEE); index rounds down; other integers: an error
``// %``                        integers, rounding down as in Python; floats: an error
``**``                          exponent: a Python int, by repeated squaring
``<< >>``                       the left operand's type; ``>>`` is arithmetic, on ``Unsigned`` logical;
                                undefined for a count outside 0 .. bits - 1
``& | ^ ~``                     integers and bool; ``~`` of a bool is logical not
``abs -x``                      the least integer has no positive partner and stays itself
``== != < <= > >=``             a bool value; a comparison with NaN is False, ``!=`` is True
``v[i]``, ``len(v)``, ``for``   the elements of a vector value (``i``: Python int or traced integer)
``v[i:j]``                      some of a vector's elements, as a vector (Python ints)
==============================  ============================================================================

``==`` builds an op; whether two objects are the same SSA value, ``ir.Value.__eq__(a, b)`` says.
"""

from __future__ import annotations

from types import FunctionType
from typing import TYPE_CHECKING, Any

import numpy as np

from nvdsl.errors import TraceError, trace_error
from nvdsl.mlir import ir
from nvdsl.values import arith, bounds, casts, dtypes, promotion, python_numbers
from nvdsl.values.dtypes import DType
from nvdsl.values.elementwise import Elementwise, of_each
from nvdsl.values.operators import Operators
from nvdsl.values.results import kept
from nvdsl.values.tracing import is_tracing

if TYPE_CHECKING:
    from nvdsl.values.typing import ElementType, Number, TypeLike

_UNSIGNED = {dtypes.i8: dtypes.u8, dtypes.i16: dtypes.u16, dtypes.i32: dtypes.u32, dtypes.i64: dtypes.u64}


def _is_never_equal(x: object) -> bool:
    """Whether Python would say of ``x``, which is no number, that a number is not equal to it."""
    kind = type(x)
    unaware = kind.__module__ == "builtins" or kind.__eq__ is object.__eq__
    return x is not None and (unaware or kind is DType)



class Value(Operators):
    """A number, or a vector of numbers, that exists when the kernel runs. Integers are signed."""

    __slots__ = ("_dtype", "_shape")
    _dtype: DType
    _shape: tuple[int, ...]

    @property
    def dtype(self) -> DType:
        """The element type."""
        try:
            return self._dtype
        except AttributeError:
            self._dtype = t = self._find_dtype()
            return t

    def _find_dtype(self) -> DType:
        try:
            return dtypes.from_ir(arith.element(self.type))
        except TypeError as error:
            raise trace_error(str(error)) from None

    @property
    def shape(self) -> tuple[int, ...]:
        """``()`` for a number; the extents of a vector."""
        try:
            return self._shape
        except AttributeError:
            type = self.type
            self._shape = shape = tuple(type.shape) if isinstance(type, ir.VectorType) else ()
            return shape

    def _binary(self, op: str, a: Any, b: Any) -> Any:
        _require_trace(f"`{op}` of a traced value")
        result = promotion.binary(op, a, b)
        return result if result is NotImplemented else wrap(*result)

    def _unary(self, op: str) -> Any:
        _require_trace(f"`{op}` of a traced value")
        return wrap(*promotion.unary(op, self))

    def _compare(self, op: str, other: Any) -> Any:
        _require_trace(f"`{op}` of a traced value")
        raw = promotion.compare(op, self, other)
        if raw is not NotImplemented:
            return wrap(raw, dtypes.bool_)
        if op in ("==", "!=") and _is_never_equal(other):
            raise trace_error(
                f"{op} of a traced number and {other!r}",
                rule="a number is compared with numbers; beside anything else Python would say that it differs, while "
                "tracing",
                fix="compare the elements of a tuple or list; `x.dtype == nv.f32` asks for the type",
            )
        return NotImplemented

    @kept("y = x.to(dtype)")
    def to(self, dtype: ElementType) -> Value:
        """The number, or each element, converted to ``dtype``: short for ``dtype(x)``, see `cast`."""
        return cast(self, dtypes.element(dtype))

    def sum(self) -> Value:
        """The sum of a vector's elements, in their type: 16-bit floats round at every step, narrow integers wrap.

        ``v.to(nv.f32).sum()`` adds in f32. The halves are added first, then their halves, so that the steps do not
        wait for each other, and two 16-bit floats are added by one instruction.
        """
        return self._reduce("+", "sum")

    def max(self) -> Value:
        """The greatest of a vector's elements, as `nvdsl.max` compares them."""
        return self._reduce("max", "max")

    def min(self) -> Value:
        """The least of a vector's elements, as `nvdsl.min` compares them."""
        return self._reduce("min", "min")

    def _reduce(self, op: str, name: str) -> Any:
        if len(self.shape) != 1:
            raise trace_error(
                f".{name}() of {'a traced number' if not self.shape else self.type}",
                rule="it combines the elements of a vector of rank 1, in each thread",
            )
        whole, odd = self, []
        while (half := whole.shape[0] // 2) > 1:
            if whole.shape[0] % 2:
                odd.append(whole[-1])
            whole = wrap(*promotion.binary(op, whole[:half], whole[half : 2 * half]))
        first, *rest = [*whole, *odd]
        for x in rest:
            first = wrap(*promotion.binary(op, first, x))
        return first

    def _element(self, position: Any) -> Any:
        if not self.shape:
            raise trace_error("[] on a traced number", rule="only a vector value has elements")
        if isinstance(position, slice):
            return self._part(position)
        positions = position if isinstance(position, tuple) else (position,)
        if len(positions) != len(self.shape):
            raise trace_error(f"{len(positions)} subscripts for a vector of shape {self.shape}")
        static = [_static_position(p, extent) for p, extent in zip(positions, self.shape, strict=True)]
        _state_bounds(positions, static, self.shape)
        dynamic = [cast(p, dtypes.index) for p in positions if isinstance(p, ir.Value)]
        return wrap(arith.extract(self, arith.element(self.type), static, dynamic), self.dtype)

    def _part(self, wanted: slice) -> Any:
        bounds_ = (wanted.start, wanted.stop, wanted.step)
        known = all(x is None or isinstance(x, (int, np.integer)) for x in bounds_) and len(self.shape) == 1
        positions = range(self.shape[0])[wanted] if known and wanted.step != 0 else ()
        if not positions:
            shown = ":".join("" if x is None else _known(x) for x in bounds_)
            raise trace_error(
                f"{self._shown()}[{shown if wanted.step is not None else shown[:-1]}]",
                rule="a part of a vector takes one element or more, which are known while tracing: registers have no "
                "addresses",
                fix="slice with Python ints, or take one element with v[i]",
            )
        return wrap(arith.shuffle(self, positions), self.dtype)

    def _shown(self) -> str:
        return f"a vector of {'x'.join(map(str, self.shape))} {self.dtype.name}"


class Unsigned(Value):
    """A traced unsigned integer: ``nv.u32(x)`` makes one, and operators keep it. MLIR's type is signless."""

    __slots__ = ()

    def _find_dtype(self) -> DType:
        t = super()._find_dtype()
        if t not in _UNSIGNED:
            raise trace_error(f"{t.name} has no unsigned reading", rule="u8, u16, u32 and u64 are unsigned")
        return _UNSIGNED[t]


def _register() -> None:
    types = [ir.IntegerType, ir.IndexType, ir.VectorType, ir.F64Type, ir.F32Type, ir.FloatTF32Type]
    types += [ir.F16Type, ir.BF16Type, ir.Float8E4M3FNType, ir.Float8E5M2Type]
    for type in types:
        ir.register_value_caster(type.static_typeid, replace=True)(Value)


_register()


def wrap(raw: ir.Value, t: DType) -> Value:
    """``raw``, an ``ir.Value`` whose elements are ``t``, as a ``Value`` or, for u8..u64, ``Unsigned``."""
    kind = Unsigned if t.is_unsigned else Value
    value = raw if raw.__class__ is kind else kind(raw)
    value._dtype = t
    return value


def _known(x: Any) -> str:
    return "..." if isinstance(x, ir.Value) else str(x)


def _static_position(p: Any, extent: int) -> int:
    if isinstance(p, ir.Value):
        return arith.DYNAMIC
    if not isinstance(p, (int, np.integer)) or not -extent <= p < extent:
        raise trace_error(f"subscript {p!r} of a vector", rule=f"an integer in {-extent} .. {extent - 1}")
    return int(p) % extent


def _state_bounds(positions: tuple[Any, ...], static: list[int], shape: tuple[int, ...]) -> None:
    if any(isinstance(p, ir.Value) for p in positions):
        known = [p if isinstance(p, ir.Value) else s for p, s in zip(positions, static, strict=True)]
        bounds.within(f"a vector of {'x'.join(map(str, shape))} elements", known, shape)


def as_value(x: Number | ir.Value, like: TypeLike | None = None) -> Value:
    """``x`` as a traced value. A Python number takes the type of ``like`` (a DType, ``ir.Type`` or value)
    as it would beside it in an operator; without ``like`` bool is i1, int i32, float f32. A NumPy scalar
    keeps its own type, an ``ir.Value`` stays what it is.

    Raises ``TraceError`` for a number that does not fit the type, and for what is no number.
    """
    if isinstance(x, Value):
        return x
    if python_numbers.is_number(x):
        if like is None:
            return const(x, dtypes.of(x))
        t, mlir_type = _resolve(like)
        beside = python_numbers.type_beside(x, t)
        return const(x, like if beside is t else arith.like(mlir_type, beside.ir))
    if isinstance(x, np.generic):
        return const(x.item(), dtypes.from_numpy(x.dtype))
    if isinstance(x, ir.Value) and _is_numeric(x):
        return Value(x)
    raise no_number(x)


def const(value: Number, ty: TypeLike | None = None) -> Value:
    """A constant of type ``ty``: a DType, an ``ir.Type`` (of a vector: every element), or a value's type.
    Without ``ty`` an int is index, a float f32, a bool i1. An ``ir.Value`` is passed through; with ``ty``,
    converted. Raises ``TraceError`` for a number that does not fit, and outside of a traced function.
    """
    if isinstance(value, ir.Value):
        return value if ty is None else cast(value, _resolve(ty)[0])
    if isinstance(value, np.generic):
        value = value.item()
    if not python_numbers.is_number(value):
        raise no_number(value)
    if ty is None:
        ty = dtypes.index if type(value) is int else dtypes.of(value)
    _require_trace(f"the constant {value}")
    t, mlir_type = _resolve(ty)
    return wrap(arith.constant(mlir_type, python_numbers.fit(value, t)), _in_register(t))


def _resolve(ty: Any) -> tuple[DType, Any]:
    """The element type and the ``ir.Type`` of a constant of "type" ``ty``."""
    if isinstance(ty, DType):
        return ty, _in_register(ty).ir
    if isinstance(ty, ir.Value):
        return as_value(ty).dtype, ty.type
    return dtypes.from_ir(arith.element(ty)), ty


def _in_register(t: DType) -> DType:
    return dtypes.f32 if t is dtypes.tf32 else t


def _require_trace(what: str) -> None:
    if not is_tracing():
        raise trace_error(
            f"no function is being traced that could hold {what}",
            rule="traced values exist inside of a decorated host function or kernel",
            fix="keep a Python number outside, and convert it inside",
        )


def cast(x: Number | ir.Value, dtype: DType) -> Value:
    """``x`` (a value, or a number) as ``dtype``; ``nv.f32(x)`` is short for ``cast(x, nv.f32)``.

    Values convert as nvdsl/values/casts.py says; a number becomes a constant, cut toward zero for an integer type.
    The result for tf32 is an f32 that tf32 represents exactly. Raises ``TraceError`` for a number out of
    range, for what is no number, and for a tf32 value, which no register holds. Fragments convert element by element.
    """
    if isinstance(x, Elementwise):
        return x.to(dtype)
    if python_numbers.is_number(x) or isinstance(x, np.generic):
        return const(x, dtype)
    x = as_value(x)
    source = x.dtype
    if source is dtypes.tf32:
        raise promotion.no_arithmetic("a conversion", source)
    return wrap(casts.convert(x, source, dtype), _in_register(dtype))


dtypes.convert_with(cast)


def stored(x: Number, dtype: DType) -> Value:
    """``x`` as an element of an array of ``dtype``: converted as `cast` does, except that no float becomes an integer
    unasked. NumPy calls this casting "same_kind": a store rounds to a narrower float and keeps the low bits of a wider
    integer. Raises ``TraceError`` for a traced float, and for a number with a fraction, where elements are integers,
    and where they are tf32.
    """
    if dtype.kind in ("int", "index") and _is_cut(x):
        raise trace_error(
            f"{'a traced ' + x.dtype.name if isinstance(x, Value) else x} stored into an array of {dtype.name}",
            rule="a store does not cut a float to an integer unasked",
            fix=f"write nv.{dtype.name}(x), which cuts toward zero, or nv.{dtype.name}(nv.math.round(x))",
        )
    if dtype is dtypes.tf32:
        raise trace_error(
            "a number stored into memory of tf32",
            rule="no register holds a tf32: copies bring it to memory, and tensor cores read it there",
            fix="make the memory nv.f32, which wgmma and mma.sync read as tf32, and store nv.tf32(x), which rounds",
        )
    return cast(x, dtype)


def _is_cut(x: Any) -> bool:
    if isinstance(x, Value):
        return x.dtype.is_float
    return isinstance(x, float | np.floating) and not float(x).is_integer()


def bitcast(x: Value, dtype: DType) -> Value:
    """Read the bits of the traced value ``x`` as a ``dtype`` of the same width (``arith.bitcast``).

    Raises ``TraceError`` for index, bool and tf32, and where the widths differ.
    """
    if isinstance(x, Elementwise):
        return of_each(lambda one: bitcast(one, dtype), x)
    if not isinstance(x, ir.Value):
        raise trace_error(f"bitcast of {x!r}", rule="a number has no bits", fix="write nv.f32(x) first")
    x = as_value(x)
    source = x.dtype
    fixed = all(t.kind in ("int", "float") and t is not dtypes.tf32 for t in (source, dtype))
    if not fixed or source.bits != dtype.bits:
        raise trace_error(
            f"bitcast from {source.name} to {dtype.name}",
            rule="both types have the same number of bits, and are not index, bool_ or tf32",
            fix=f"convert the number with nv.{dtype.name}(x)",
        )
    return wrap(casts.reinterpret(x, dtype), dtype)


def _is_numeric(x: Any) -> bool:
    try:
        dtypes.from_ir(arith.element(x.type))
    except TypeError:
        return False
    return True


def no_number(x: Any) -> TraceError:
    """``__nv_number__`` of a class: how its objects give numbers."""
    if isinstance(x, FunctionType):
        name = f"nv.{x.__name__}" if x.__module__.startswith("nvdsl.") else x.__name__
        return trace_error(f"the function `{name}` is not a number", fix=f"call it: {name}()")
    fix = getattr(type(x), "__nv_number__", "pass a Python or NumPy number, or a traced value")
    return trace_error(f"{x!r} is not a number", fix=fix)
