"""Collecting what a program compiles, while its calls run nothing: how a tool gets at a script's kernels.

    with collect.compiled() as found:
        runpy.run_path("script.py")     # each call of a jit function compiles, and returns
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

found: list[Any] | None = None


@contextmanager
def compiled() -> Iterator[list[Any]]:
    """Every `jit.Compiled` that is made in this context, each once."""
    global found
    outer, found = found, []
    try:
        yield found
    finally:
        found = outer


def active() -> bool:
    """Whether a call shall only compile."""
    return found is not None


def add(one: Any) -> None:
    """A specialization was compiled, or found compiled."""
    if found is not None and not any(one is known for known in found):
        found.append(one)
