"""For tests of the verifier: a kernel, the verdict on it, and the line that the verdict names."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import pytest

import nvdsl as nv
from tests.unit.kernels import trace


def accepted(body: Callable[..., Any], *arguments: Any, **launch: Any) -> None:
    """Fails where the verifier refuses the kernel."""
    trace(body, *arguments, **launch)


def verdict(body: Callable[..., Any], at: str, *arguments: Any, source: Any = None, **launch: Any) -> nv.VerifyError:
    """The error that the verifier raises for the kernel, at the line of its source that holds ``at``."""
    with pytest.raises(nv.VerifyError) as caught:
        trace(body, *arguments, **launch)
    error = caught.value
    assert error.where is not None and error.rule and error.fix, error
    assert error.where.line == line(source or body, at), error
    assert error.where.file == inspect.getsourcefile(source or body)
    return error


def line(function: Callable[..., Any], text: str) -> int:
    """The number of the only line of a function that holds ``text``."""
    lines, first = inspect.getsourcelines(function)
    (found,) = [first + i for i, one in enumerate(lines) if text in one]
    return found
