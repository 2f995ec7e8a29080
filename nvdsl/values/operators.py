"""Python's operator protocol, spelled out: each special method names its operator, and ``Value``, the
subclass (nvdsl/values/traced.py), says what an operator does. Conversions to Python numbers are errors here."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from nvdsl.errors import TraceError, frames, trace_error
from nvdsl.mlir import ir
from nvdsl.values import extents
from nvdsl.values.dtypes import DType
from nvdsl.values.tracing import is_tracing

if TYPE_CHECKING:
    from nvdsl.values.traced import Value
    from nvdsl.values.typing import Index, Number

# NumPy's functions that are operators, by name; of comparisons, also the one with the operands exchanged.
_BINARY = {
    "add": "+", "subtract": "-", "multiply": "*", "divide": "/", "true_divide": "/", "floor_divide": "//",
    "remainder": "%", "power": "**", "bitwise_and": "&", "bitwise_or": "|", "bitwise_xor": "^", "left_shift": "<<",
    "right_shift": ">>",
}  # fmt: skip
_COMPARISONS = {
    "equal": ("==", "=="), "not_equal": ("!=", "!="), "less": ("<", ">"), "less_equal": ("<=", ">="),
    "greater": (">", "<"), "greater_equal": (">=", "<="),
}  # fmt: skip
_SAME = "exp exp2 log log2 sqrt sin cos tanh floor ceil trunc isnan isinf isfinite".split()
_REMEDIES = {name: f"math.{name}" for name in _SAME} | {"maximum": "max", "minimum": "min", "rint": "math.round"}
_REMEDIES |= {"absolute": "abs", "fabs": "abs", "where": "where"}


class Operators(ir.Value):
    """What a traced value answers to Python's operators."""

    __slots__ = ()
    def __hash__(self) -> int:
        if frames.is_user(sys._getframe(1).f_code.co_filename) and is_tracing():
            raise _not_known(self,
                "the hash of a traced value",
                "compare it: `x == 0 or x == 1` for `x in {0, 1}`; as a key of a dict or an element of a set take a "
                "plain number, and choose among values with nv.select",
            )
        return ir.Value.__hash__(self)

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        """NumPy's functions and the operators of its scalars: ``np.float32(2) * x`` is ``x``'s operator."""
        inputs = tuple(x[()] if isinstance(x, np.ndarray) and x.ndim == 0 else x for x in inputs)
        if method == "__call__" and not options and not any(isinstance(x, np.ndarray) for x in inputs):
            name, (first, *rest) = ufunc.__name__, inputs
            if name in _BINARY:
                return self._binary(_BINARY[name], first, *rest)
            if name in _COMPARISONS:
                right, left = _COMPARISONS[name]
                return self._compare(left, first) if rest[0] is self else self._compare(right, rest[0])
        call = ufunc.__name__ if method == "__call__" else f"{ufunc.__name__}.{method}"
        raise _not_for_numpy(call, _REMEDIES.get(ufunc.__name__))

    def __array_function__(self, function: Any, types: Any, inputs: Any, options: Any) -> Any:
        """NumPy's other functions: np.sum would ask a vector for its sum, with arguments that it does not take."""
        raise _not_for_numpy(function.__name__, _REMEDIES.get(function.__name__))

    def __format__(self, form: str) -> str:
        if form:
            raise _not_known(self,
                f"a traced value in the format {form!r}", 'the kernel prints it: print(f"x = {x:.3f}"), in one call'
            )
        return self._text(sys._getframe(1).f_code.co_filename)

    def __str__(self) -> str:
        return self._text(sys._getframe(1).f_code.co_filename)

    def _text(self, asking: str) -> str:
        """MLIR's text of the value, which a program must not take for the number's. ``asking``: the caller's file."""
        if frames.is_user(asking) and not frames.is_installed(asking) and is_tracing():
            raise _not_known(self,
                "a traced value as text",
                'the kernel prints it: print(f"x = {x}"), in one call; a name, a key or a message takes a plain number',
            )
        if frames.is_user(asking) and not is_tracing():
            return repr(self)
        return str(ir.Value.__str__(self))

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

    def __add__(self, other: Number) -> Value:
        return self._binary("+", self, other)

    def __radd__(self, other: Number) -> Value:
        return self._binary("+", other, self)

    def __sub__(self, other: Number) -> Value:
        return self._binary("-", self, other)

    def __rsub__(self, other: Number) -> Value:
        return self._binary("-", other, self)

    def __mul__(self, other: Number) -> Value:
        return self._binary("*", self, other)

    def __rmul__(self, other: Number) -> Value:
        return self._binary("*", other, self)

    def __truediv__(self, other: Number) -> Value:
        return self._binary("/", self, other)

    def __rtruediv__(self, other: Number) -> Value:
        return self._binary("/", other, self)

    def __floordiv__(self, other: Number) -> Value:
        return self._binary("//", self, other)

    def __rfloordiv__(self, other: Number) -> Value:
        return self._binary("//", other, self)

    def __mod__(self, other: Number) -> Value:
        return self._binary("%", self, other)

    def __rmod__(self, other: Number) -> Value:
        return self._binary("%", other, self)

    def __divmod__(self, other: Number) -> tuple[Value, Value]:
        return self // other, self % other

    def __rdivmod__(self, other: Number) -> tuple[Value, Value]:
        return other // self, other % self

    def __pow__(self, exponent: int) -> Value:
        return self._binary("**", self, exponent)

    def __rpow__(self, base: Number) -> Value:
        return self._binary("**", base, self)

    def __and__(self, other: Number) -> Value:
        return self._binary("&", self, other)

    def __rand__(self, other: Number) -> Value:
        return self._binary("&", other, self)

    def __or__(self, other: Number) -> Value:
        return self._binary("|", self, other)

    def __ror__(self, other: Number) -> Value:
        return self._binary("|", other, self)

    def __xor__(self, other: Number) -> Value:
        return self._binary("^", self, other)

    def __rxor__(self, other: Number) -> Value:
        return self._binary("^", other, self)

    def __lshift__(self, other: Number) -> Value:
        return self._binary("<<", self, other)

    def __rlshift__(self, other: Number) -> Value:
        return self._binary("<<", other, self)

    def __rshift__(self, other: Number) -> Value:
        return self._binary(">>", self, other)

    def __rrshift__(self, other: Number) -> Value:
        return self._binary(">>", other, self)

    def __neg__(self) -> Value:
        return self._unary("-")

    def __pos__(self) -> Value:
        return self._unary("+")

    def __abs__(self) -> Value:
        return self._unary("abs")

    def __invert__(self) -> Value:
        return self._unary("~")

    def __eq__(self, other: object) -> Value:  # type: ignore[override]
        return self._compare("==", other)

    def __ne__(self, other: object) -> Value:  # type: ignore[override]
        return self._compare("!=", other)

    def __lt__(self, other: Number) -> Value:
        return self._compare("<", other)

    def __le__(self, other: Number) -> Value:
        return self._compare("<=", other)

    def __gt__(self, other: Number) -> Value:
        return self._compare(">", other)

    def __ge__(self, other: Number) -> Value:
        return self._compare(">=", other)

    def __getitem__(self, position: Index | slice) -> Value:
        return self._element(position)

    def __setitem__(self, position: Index | slice, value: Number) -> None:
        raise trace_error(
            "an element of a vector is assigned" if self.shape else "[] on a traced number is assigned",
            rule="a traced value doesn't change: each is computed once",
            fix="build another vector: nv.vector([x, *v[1:]]), or nv.where(mask, x, v)",
        )

    def __len__(self) -> int:
        if not self.shape:
            raise _not_known(self, "len() of a traced number", "only a vector value has a length")
        return self.shape[0]

    def __iter__(self) -> Iterator[Value]:
        if not self.shape:
            raise _not_known(self, "a loop over a traced number", "write `for i in nv.range(n)`")
        return (self[i] for i in range(self.shape[0]))

    def __repr__(self) -> str:
        return f"<{extents.shown(self)}>"

    def __bool__(self) -> bool:
        fix = (
            "in a kernel write plain `if`, `while`, `and`, `or`, `not`, `in`; what Python itself runs (`match`, "
            "comprehensions, sorted(), properties, operators of classes) takes nv.select(c, a, b), & | ~"
        )
        raise _not_known(self, "the truth value of a traced value", fix)

    def __int__(self) -> int:
        raise _not_known(self, "int() of a traced value", "write nv.i32(x)")

    def __float__(self) -> float:
        raise _not_known(self, "float() of a traced value", "write nv.f32(x), and nv.math for functions of floats")

    def __index__(self) -> int:
        fix = (
            "write nv.range(n) for a traced loop, nv.vector(numbers)[i] for an element of a list; "
            "range() needs a Python int"
        )
        raise _not_known(self, "a traced value used as a Python int", fix)


def _not_for_numpy(call: str, remedy: str | None = None) -> TraceError:
    arguments = "c, a, b" if remedy == "where" else "x"
    other = "nv.math has the functions of floats; lists hold traced values"
    return trace_error(
        f"np.{call} of a traced value",
        rule="the number exists only when the kernel runs: NumPy can't compute with it",
        fix=f"write nv.{remedy}({arguments})" if remedy else other,
    )


def _not_known(value: Any, what: str, fix: str) -> TraceError:
    return trace_error(
        f"{what} is not known",
        rule="the number exists only when the kernel runs",
        fix=extents.constant_fix(fix, value),
    )
