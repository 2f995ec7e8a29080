"""Element types: one frozen object per type, for arrays, tiles and traced values alike.

``nv.f32`` names the type; ``nv.f32(x)`` converts to it (``nvdsl.values.traced.cast`` has the rules).

============  ====  =======================================  ==========================================
name          bits  MLIR type                                use
============  ====  =======================================  ==========================================
f64 f32 f16   ..    the same name                            registers and memory
bf16          16    bf16                                     registers and memory
tf32          32    tf32                                     memory that tensor cores read; a register
                                                             holds it as f32 (PTX ISA, "Alternate
                                                             floating-point data formats")
e4m3 e5m2     8     f8E4M3FN f8E5M2                          memory, tensor cores, conversions only
i8 .. i64     8-64  i8 .. i64                                signed integers
u8 .. u64     8-64  i8 .. i64 (MLIR integers are signless)   unsigned integers
bool\\_        1     i1                                       conditions; 1 byte in memory
index         64    index                                    memref subscripts; signed
============  ====  =======================================  ==========================================
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING, Any

import ml_dtypes
import numpy as np

from nvdsl.errors import trace_error
from nvdsl.errors.records import dataclass
from nvdsl.mlir import ir

if TYPE_CHECKING:
    from nvdsl.mlir.ir import Type as MlirType
    from nvdsl.values.traced import Value
    from nvdsl.values.typing import ElementType, Number


_cast: Callable[[Number, DType], Value]


def convert_with(cast: Callable[[Number, DType], Value]) -> None:
    """Let a type that is called convert as ``cast`` does: the module of traced values, built on this one, has it."""
    global _cast
    _cast = cast


@dataclass(frozen=True, eq=False, repr=False)
class DType:
    """One element type. There is exactly one object per type: compare with ``is`` or ``==``.

    ``name``: its public name. ``kind``: ``"float"``, ``"int"``, ``"bool"`` or ``"index"``.
    ``bits``: significant bits (tf32 counts as 32, as in memory). ``signed``: False for u8..u64 and
    bool. ``numpy``: the NumPy dtype of an array with such elements. ``arithmetic``: False for the
    formats that only tensor cores compute with (tf32, e4m3, e5m2).
    """

    name: str
    kind: str
    bits: int
    signed: bool
    numpy: np.dtype
    arithmetic: bool
    _mlir: Callable[[], MlirType]

    __hash__ = object.__hash__

    def __eq__(self, other: object) -> bool:
        """Whether ``other`` is this type, as nvdsl or as NumPy has it. Of anything else that may be meant for a type
        (``"f32"``, ``float``, torch's) Python would say that it differs: that is a TraceError."""
        if isinstance(other, (DType, np.dtype)) or isinstance(other, type) and issubclass(other, np.generic):
            return self is other or not isinstance(other, DType) and self is _BY_NUMPY.get(np.dtype(other))
        if other is type or other is object:  # inspect.signature asks that of whatever can be called
            return False
        if isinstance(other, (str, type)) or type(other).__name__ == "dtype":
            raise trace_error(
                f"nv.{self.name} == {other!r}",
                rule="a type of elements is compared with nvdsl's, or with a NumPy dtype that is one of them",
                fix=f"x.dtype == nv.{self.name}",
            )
        return NotImplemented

    @property
    def bytes(self) -> int:
        """Bytes of one element in memory."""
        return max(self.bits // 8, 1)

    @cached_property
    def is_float(self) -> bool:
        """Whether it is a floating-point type."""
        return self.kind == "float"

    @cached_property
    def is_unsigned(self) -> bool:
        """True for u8, u16, u32 and u64: the types whose values are ``Unsigned``."""
        return self.kind == "int" and not self.signed

    @property
    def ir(self) -> MlirType:
        """The ``ir.Type``, in the current MLIR context."""
        return self._mlir()

    @cached_property
    def min(self) -> int | float:
        """The least finite number."""
        if self.is_float:
            return -self.max
        return -(1 << (self.bits - 1)) if self.signed else 0

    @cached_property
    def max(self) -> int | float:
        """The largest finite number."""
        if self is tf32:
            return float(2 - 2**-10) * 2.0**127  # 8 bits of exponent, 10 of mantissa
        if self.is_float:
            return float(ml_dtypes.finfo(self.numpy).max)
        return (1 << (self.bits - self.signed)) - 1

    def __call__(self, x: Number) -> Value:
        """Convert ``x`` (traced value or number) to this type: see `nvdsl.values.traced.cast`."""
        return _cast(x, self)

    def __repr__(self) -> str:
        return f"nv.{self.name}"

    def __reduce__(self) -> tuple[Any, ...]:
        return by_name, (self.name,)  # copies and pickles stay the one object


def _float(name: str, bits: int, numpy: Any, mlir: Callable[[], Any], arithmetic: bool = True) -> DType:
    return DType(name, "float", bits, True, np.dtype(numpy), arithmetic, mlir)


def _int(name: str) -> DType:
    bits, signed = int(name[1:]), name[0] == "i"
    numpy = np.dtype(f"{'int' if signed else 'uint'}{bits}")
    return DType(name, "int", bits, signed, numpy, True, lambda: ir.IntegerType.get_signless(bits))


f64 = _float("f64", 64, np.float64, ir.F64Type.get)
f32 = _float("f32", 32, np.float32, ir.F32Type.get)
tf32 = _float("tf32", 32, np.float32, ir.FloatTF32Type.get, arithmetic=False)
f16 = _float("f16", 16, np.float16, ir.F16Type.get)
bf16 = _float("bf16", 16, ml_dtypes.bfloat16, ir.BF16Type.get)
e4m3 = _float("e4m3", 8, ml_dtypes.float8_e4m3fn, ir.Float8E4M3FNType.get, arithmetic=False)
e5m2 = _float("e5m2", 8, ml_dtypes.float8_e5m2, ir.Float8E5M2Type.get, arithmetic=False)
i64, i32, i16, i8 = (_int(name) for name in ("i64", "i32", "i16", "i8"))
u64, u32, u16, u8 = (_int(name) for name in ("u64", "u32", "u16", "u8"))
bool_ = DType("bool_", "bool", 1, False, np.dtype(np.bool_), True, lambda: ir.IntegerType.get_signless(1))
index = DType("index", "index", 64, True, np.dtype(np.int64), True, ir.IndexType.get)

ALL = (f64, f32, tf32, f16, bf16, e4m3, e5m2, i64, i32, i16, i8, u64, u32, u16, u8, bool_, index)

_BY_NAME = {t.name: t for t in ALL}
_BY_NUMPY = {t.numpy: t for t in ALL if t not in (tf32, index)}  # float32 is f32, int64 is i64
_SIGNLESS = {1: bool_, 8: i8, 16: i16, 32: i32, 64: i64}
_BY_IR_CLASS = {
    ir.F64Type: f64,
    ir.F32Type: f32,
    ir.FloatTF32Type: tf32,
    ir.F16Type: f16,
    ir.BF16Type: bf16,
    ir.Float8E4M3FNType: e4m3,
    ir.Float8E5M2Type: e5m2,
    ir.IndexType: index,
}


def by_name(name: str) -> DType:
    """The type called ``name``; ``KeyError`` for another name."""
    return _BY_NAME[name]


def from_ir(type: ir.Type) -> DType:
    """The type of a scalar ``ir.Type``. Integers are signless there, so iN is signed here (i1 is bool).

    Raises ``TypeError`` for a type that no DType stands for (vectors, memrefs, other widths).
    """
    found = _BY_IR_CLASS.get(type.__class__)
    if found is None and isinstance(type, ir.IntegerType):
        found = _SIGNLESS.get(type.width)
    if found is None:
        raise TypeError(f"no nvdsl element type stands for MLIR type {type}")
    return found


def from_numpy(dtype: Any) -> DType:
    """The type of a NumPy dtype, or of whatever ``numpy.dtype`` accepts (ml_dtypes' types too).

    Raises ``TypeError`` for a dtype that a kernel can't hold (complex, object, big-endian, ...).
    """
    found = _BY_NUMPY.get(np.dtype(dtype))
    if found is None:
        names = ", ".join(str(known) for known in _BY_NUMPY)
        raise TypeError(f"no nvdsl element type stands for NumPy dtype {np.dtype(dtype)}; known: {names}")
    return found


def element(dtype: ElementType) -> DType:
    """``dtype`` as a DType: one already, or a NumPy dtype or scalar type (``np.float16``, ml_dtypes' types too).

    Raises ``TraceError`` for anything else: Python's ``float`` and ``int`` have no width.
    """
    if isinstance(dtype, DType):
        return dtype
    if isinstance(dtype, np.dtype) or isinstance(dtype, type) and issubclass(dtype, np.generic):
        try:
            return from_numpy(dtype)
        except TypeError as error:
            raise trace_error(str(error), fix="write nv.f32, nv.f16, nv.bf16, ...") from None
    raise trace_error(
        f"{dtype!r} as the type of elements",
        rule="a type of elements is one of nvdsl's, or a NumPy dtype that is one of them",
        fix="write nv.f32, nv.f16, nv.bf16, nv.i32, ...",
    )


def of(x: Any) -> DType:
    """The element type of ``x``: a DType, an ``ir.Type``, a Python number (int is i32, float f32), or
    anything with a ``dtype`` (NumPy arrays and scalars, traced values).

    Raises ``TypeError`` when there is none.
    """
    if isinstance(x, DType):
        return x
    if isinstance(x, ir.Type):
        return from_ir(x)
    if isinstance(x, bool):
        return bool_
    if isinstance(x, int):
        return i32
    if isinstance(x, float):
        return f32
    dtype = getattr(x, "dtype", None)
    if dtype is None:
        raise TypeError(f"{x!r} has no element type")
    return dtype if isinstance(dtype, DType) else from_numpy(dtype)


def common(a: DType, b: DType) -> DType | None:
    """The type in which ``a`` and ``b`` meet in an operator, or None if they have none.

    Two floats: the wider; f16 and bf16 meet in f32. An integer and a float: the float. index and an
    integer: index. Two integers: the wider; of one width, the unsigned one (C's rule). bool gives way
    to any other type. tf32, e4m3 and e5m2 meet nothing but themselves: they have no arithmetic.
    """
    if a is b:
        return a
    if not (a.arithmetic and b.arithmetic):
        return None
    for kind in ("float", "index", "int"):
        if a.kind == b.kind == kind:
            if a.bits == b.bits:
                return f32 if kind == "float" else (b if a.signed else a)
            return a if a.bits > b.bits else b
        if kind in (a.kind, b.kind):
            return a if a.kind == kind else b
    raise AssertionError((a, b))  # two bools are one object
