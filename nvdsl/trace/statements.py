"""Run-time side of a statement that is an expression: Python drops its value without a word."""

from __future__ import annotations

from types import FunctionType, MethodType
from typing import Any

from nvdsl.errors import trace_error
from nvdsl.values.dtypes import DType
from nvdsl.values.traced import Value

_COMPUTING = ("nvdsl.values.math", "nvdsl.values.select", "nvdsl.values.dtypes", "nvdsl.lang.collectives.group")
"""Modules whose functions and methods compute something, and do nothing else."""


def for_effect(function: Any) -> Any:
    """``function``, which is called for what it does: its result is dropped."""
    if isinstance(function, FunctionType | MethodType | DType):
        name = getattr(function, "__name__", repr(function))
        usage = getattr(function, "__nv_kept__", f"y = {name}(...)" if function.__module__ in _COMPUTING else None)
        if usage is not None:
            raise trace_error(
                f"the result of `{name}` is not used",
                rule="it returns something new: what it was given stays as it was",
                fix=usage,
            )
    return function


def unused(x: Any) -> Any:
    """``x``, the value of a statement that calls nothing."""
    if isinstance(x, FunctionType | MethodType) and str(x.__module__).startswith("nvdsl."):
        raise trace_error(
            f"`{x.__name__}` without parentheses",
            rule="a function that is not called does nothing",
            fix=f"call it: {x.__name__}(...)",
        )
    if isinstance(x, Value):
        raise trace_error(
            "the value of an expression is not used",
            rule="a statement that computes a value and keeps it nowhere does nothing",
            fix="assign it: `x = ...`; `==` compares",
        )
    return x
