"""Collecting what a program compiles, while its calls run nothing: how a tool gets at a script's kernels.

    with collect.compiled() as found:
        runpy.run_path("script.py")     # each call of a jit function compiles, and returns
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

_found: list[Any] | None = None


@contextmanager
def compiled() -> Iterator[list[Any]]:
    """Every `jit.Compiled` that is made in this context, each once."""
    global _found
    outer, _found = _found, []
    try:
        yield _found
    finally:
        _found = outer


def active() -> bool:
    """Whether a call shall only compile."""
    return _found is not None


def add(one: Any) -> None:
    """A specialization was compiled, or found compiled."""
    if _found is not None and not any(one is known for known in _found):
        _found.append(one)
