"""Python's operator protocol, spelled out: each special method names its operator, and ``Value``, the
subclass (nvdsl/values.py), says what an operator does. Conversions to Python numbers are errors here."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from nvdsl.dtypes import DType
from nvdsl.errors import TraceError, trace_error
from nvdsl.mlir import ir


class Operators(ir.Value):
    """What a traced value answers to Python's operators."""

    __slots__ = ()
    __array_ufunc__ = None  # NumPy leaves `np.float32(2) * value` to __rmul__
    __hash__ = ir.Value.__hash__  # Python drops it where __eq__ is defined

    @property
    def dtype(self) -> DType:
        """The type of a scalar, or of a vector's elements."""
        raise NotImplementedError

    @property
    def shape(self) -> tuple[int, ...]:
        """``()`` for a scalar, the extents of a vector."""
        raise NotImplementedError

    def _binary(self, op: str, a: Any, b: Any) -> Any:
        """``a op b``; one of them is ``self``. ``NotImplemented`` when the other is no number."""
        raise NotImplementedError

    def _unary(self, op: str) -> Any:
        raise NotImplementedError

    def _compare(self, op: str, other: Any) -> Any:
        raise NotImplementedError

    def _element(self, position: Any) -> Any:
        raise NotImplementedError

    def __add__(self, other: Any) -> Any:
        return self._binary("+", self, other)

    def __radd__(self, other: Any) -> Any:
        return self._binary("+", other, self)

    def __sub__(self, other: Any) -> Any:
        return self._binary("-", self, other)

    def __rsub__(self, other: Any) -> Any:
        return self._binary("-", other, self)

    def __mul__(self, other: Any) -> Any:
        return self._binary("*", self, other)

    def __rmul__(self, other: Any) -> Any:
        return self._binary("*", other, self)

    def __truediv__(self, other: Any) -> Any:
        return self._binary("/", self, other)

    def __rtruediv__(self, other: Any) -> Any:
        return self._binary("/", other, self)

    def __floordiv__(self, other: Any) -> Any:
        return self._binary("//", self, other)

    def __rfloordiv__(self, other: Any) -> Any:
        return self._binary("//", other, self)

    def __mod__(self, other: Any) -> Any:
        return self._binary("%", self, other)

    def __rmod__(self, other: Any) -> Any:
        return self._binary("%", other, self)

    def __divmod__(self, other: Any) -> Any:
        return self // other, self % other

    def __rdivmod__(self, other: Any) -> Any:
        return other // self, other % self

    def __pow__(self, exponent: Any) -> Any:
        return self._binary("**", self, exponent)

    def __rpow__(self, base: Any) -> Any:
        return self._binary("**", base, self)

    def __and__(self, other: Any) -> Any:
        return self._binary("&", self, other)

    def __rand__(self, other: Any) -> Any:
        return self._binary("&", other, self)

    def __or__(self, other: Any) -> Any:
        return self._binary("|", self, other)

    def __ror__(self, other: Any) -> Any:
        return self._binary("|", other, self)

    def __xor__(self, other: Any) -> Any:
        return self._binary("^", self, other)

    def __rxor__(self, other: Any) -> Any:
        return self._binary("^", other, self)

    def __lshift__(self, other: Any) -> Any:
        return self._binary("<<", self, other)

    def __rlshift__(self, other: Any) -> Any:
        return self._binary("<<", other, self)

    def __rshift__(self, other: Any) -> Any:
        return self._binary(">>", self, other)

    def __rrshift__(self, other: Any) -> Any:
        return self._binary(">>", other, self)

    def __neg__(self) -> Any:
        return self._unary("-")

    def __pos__(self) -> Any:
        return self._unary("+")

    def __abs__(self) -> Any:
        return self._unary("abs")

    def __invert__(self) -> Any:
        return self._unary("~")

    def __eq__(self, other: Any) -> Any:
        return self._compare("==", other)

    def __ne__(self, other: Any) -> Any:
        return self._compare("!=", other)

    def __lt__(self, other: Any) -> Any:
        return self._compare("<", other)

    def __le__(self, other: Any) -> Any:
        return self._compare("<=", other)

    def __gt__(self, other: Any) -> Any:
        return self._compare(">", other)

    def __ge__(self, other: Any) -> Any:
        return self._compare(">=", other)

    def __getitem__(self, position: Any) -> Any:
        return self._element(position)

    def __len__(self) -> int:
        if not self.shape:
            raise _not_known("len() of a traced number", "only a vector value has a length")
        return self.shape[0]

    def __iter__(self) -> Iterator[Any]:
        if not self.shape:
            raise _not_known("a loop over a traced number", "write `for i in nv.range(n)`")
        return (self[i] for i in range(self.shape[0]))

    def __bool__(self) -> bool:
        fix = "in a kernel write plain `if`, `while`, `and`, `or`, `not`; elsewhere nv.select(c, a, b), & | ~"
        raise _not_known("the truth value of a traced value", fix)

    def __int__(self) -> int:
        raise _not_known("int() of a traced value", "write nv.i32(x)")

    def __float__(self) -> float:
        raise _not_known("float() of a traced value", "write nv.f32(x), and nv.math for functions of floats")

    def __index__(self) -> int:
        fix = "write nv.range(n) for a traced loop; range(), lists and slices need a Python int"
        raise _not_known("a traced value used as a Python int", fix)


def _not_known(what: str, fix: str) -> TraceError:
    return trace_error(f"{what} is not known", rule="the number exists only when the kernel runs", fix=fix)
