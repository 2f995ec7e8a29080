"""Many numbers in one object, which answers to Python's operators element by element.

`Value` is one number of each thread. What is spread over the registers of several threads (fragments, vectors of rows
and columns) derives from `Elementwise`. The functions of numbers (`nvdsl.math`, `select`, `max` ...) call `of_each`
for it, and need to know nothing else of it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from nvdsl.errors import TraceError
    from nvdsl.values.dtypes import DType


class Elementwise:
    """The operators. A subclass says in `_each` where the elements are."""

    __array_ufunc__ = None  # NumPy's scalars leave `np.float32(2) * x` to this class

    @property
    def dtype(self) -> DType:
        """The type of the elements."""
        raise NotImplementedError

    def to(self, dtype: Any) -> Any:
        """The elements converted, as `nvdsl.values.traced.cast` does."""
        raise NotImplementedError

    def of_this_thread(self) -> list[Any]:
        """All elements that this thread holds."""
        raise NotImplementedError

    def of_thread(self, function: Callable[[Any, Any], Any]) -> Any:
        """What ``function`` of two makes of all elements that this thread holds: a number."""
        raise NotImplementedError

    def _each(self, function: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
        """``function(*arguments)`` of the elements at each place; ``self`` is one of the arguments."""
        raise NotImplementedError

    def _binary(self, op: str, a: Any, b: Any) -> Any:
        """``a op b`` for an arithmetic or bitwise operator; one of them is ``self``."""
        return self._each(OPERATORS[op], (a, b))

    def _compare(self, op: str, other: Any) -> Any:
        return self._each(OPERATORS[op], (self, other))

    def _no_number(self, what: str) -> TraceError:
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

    def __pow__(self, exponent: int) -> Any:
        return self._binary("**", self, exponent)

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
        return self._each(lambda x: -x, (self,))

    def __pos__(self) -> Any:
        return self

    def __abs__(self) -> Any:
        return self._each(abs, (self,))

    def __invert__(self) -> Any:
        return self._each(lambda x: ~x, (self,))

    def __eq__(self, other: object) -> Any:
        return self._compare("==", other)

    def __ne__(self, other: object) -> Any:
        return self._compare("!=", other)

    def __lt__(self, other: Any) -> Any:
        return self._compare("<", other)

    def __le__(self, other: Any) -> Any:
        return self._compare("<=", other)

    def __gt__(self, other: Any) -> Any:
        return self._compare(">", other)

    def __ge__(self, other: Any) -> Any:
        return self._compare(">=", other)

    __hash__ = object.__hash__

    def __bool__(self) -> bool:
        raise self._no_number("the truth value")

    def __float__(self) -> float:
        raise self._no_number("float()")

    def __int__(self) -> int:
        raise self._no_number("int()")


OPERATORS: dict[str, Callable[[Any, Any], Any]] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "/": lambda a, b: a / b,
    "//": lambda a, b: a // b,
    "%": lambda a, b: a % b,
    "**": lambda a, b: a**b,
    "&": lambda a, b: a & b,
    "|": lambda a, b: a | b,
    "^": lambda a, b: a ^ b,
    "<<": lambda a, b: a << b,
    ">>": lambda a, b: a >> b,
    "==": lambda a, b: a == b,
    "!=": lambda a, b: a != b,
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
}
"""Python's operators as functions."""

Many = TypeVar("Many", bound=Elementwise)


def of_each(function: Callable[..., Any], *arguments: Any) -> Any:
    """``function(*arguments)`` at each place where one of the arguments has many elements; else ``NotImplemented``."""
    for x in arguments:
        if isinstance(x, Elementwise):
            return x._each(function, arguments)
    return NotImplemented
