"""Methods that return something new, and change nothing: a call whose result nobody takes is a mistake."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

F = TypeVar("F", bound=Callable[..., Any])


def kept(usage: str) -> Callable[[F], F]:
    """Marks a function whose result is to be kept; ``usage`` shows how. A statement that drops it raises TraceError."""

    def mark(function: F) -> F:
        setattr(function, "__nv_kept__", usage)  # noqa: B010
        return function

    return mark
