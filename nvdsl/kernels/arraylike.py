"""What a type checker knows of the arrays that a call takes."""

from __future__ import annotations

from typing import Any, Protocol


class ArrayLike(Protocol):
    """An array of NumPy, torch, CuPy, JAX, or of any library with DLPack."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Extents in elements."""

    @property
    def dtype(self) -> Any:
        """The element type, in the library's own words."""
