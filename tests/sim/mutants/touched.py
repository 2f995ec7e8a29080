"""Which bytes of shared memory each line of a kernel touches, seen in a run of it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from nvdsl.sim.shadow import Shadow

Line = tuple[str, int]


@contextlib.contextmanager
def recorded() -> Iterator[dict[Line, int]]:
    """While open: which units of shared memory each source line touches, as bits."""
    touched: dict[Line, int] = {}
    original = Shadow.note

    def note(self: Any, span: Any, access: Any, *rest: Any, **more: Any) -> Any:
        if access.where is not None:
            line = access.where.file, access.where.line
            touched[line] = touched.get(line, 0) | span[0]
        return original(self, span, access, *rest, **more)

    Shadow.note = note  # type: ignore[method-assign]
    try:
        yield touched
    finally:
        Shadow.note = original  # type: ignore[method-assign]
