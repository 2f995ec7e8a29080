"""Run-time side of `try` with handlers: a kernel raises nothing, so they are for what Python raises while tracing."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from nvdsl.errors import NvdslError, trace_error
from nvdsl.ir.walk import walk
from nvdsl.mlir import ir
from nvdsl.values import scope

_NEVER = (ArithmeticError, IndexError, AssertionError)
_ANY = (LookupError, Exception, BaseException)
_PLACES = ("memref.", "vector.", "nvgpu.")


class Attempt:
    """Around a whole `try`. ``kinds``: gives what its handlers name, None for a bare `except`."""

    def __init__(self, kinds: Callable[[], tuple[Any, ...]]) -> None:
        self._kinds, self._was_caught = kinds, False
        self._block: Any = None

    def __enter__(self) -> Attempt:
        if not scope.is_host():
            self._block = ir.InsertionPoint.current.block
            self._before = len(self._block.operations)
        return self

    def caught(self) -> None:
        """In a handler: an error of nvdsl's goes on, unless the statement names such errors."""
        self._was_caught = True
        error = sys.exception()
        if isinstance(error, NvdslError) and not any(issubclass(kind, NvdslError) for _, kind in self._named()):
            raise error

    def __exit__(self, kind: Any, error: Any, traceback: Any) -> None:
        if kind is not None or self._was_caught or self._block is None:
            return
        traced = list(self._block.operations)[self._before :]
        for text, one in self._named() if traced else ():
            if one in _ANY or (issubclass(one, _NEVER) and self._may_fail(one, traced)):
                raise trace_error(
                    f"`{text}` around what the kernel computes",
                    rule="a kernel raises no exceptions: a handler runs only for what Python raises while it traces",
                    fix="guard it in the kernel, `if d != 0:`, `if i < n:`; a handler for the trace names what that "
                    "raises: `except nv.TraceError:`",
                )

    def _named(self) -> list[tuple[str, type]]:
        found: list[tuple[str, type]] = []
        for kind in self._kinds():
            each = kind if isinstance(kind, tuple) else (kind,)
            found += [(f"except {one.__name__}", one) for one in each if isinstance(one, type)]
            found += [("except:", BaseException)] * (kind is None)
        return found

    @staticmethod
    def _may_fail(kind: type, traced: list[Any]) -> bool:
        """An index may be Python's, of a list; one of memory is the kernel's."""
        return not issubclass(kind, LookupError) or any(
            inner.name.startswith(_PLACES) for op in traced for inner in walk(op)
        )


try_ = Attempt
