"""What threads hold of a matrix in their registers, by a layout."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from nvdsl.lang.packing import as_elements, words_of
from nvdsl.lang.threads import Threads
from nvdsl.layout import Layout
from nvdsl.values.dtypes import DType
from nvdsl.values.traced import Value


class Registers:
    """``layout`` takes (thread, value) to (row, column) of a matrix of ``shape``. Loops carry it.

    ``words``: this thread's registers: i32 words of ``4 // itemsize`` values that follow each other, or f64.
    """

    __nv_unprintable__ = "for row, column, x in registers.elements(): print(row, column, x)"

    def __init__(
        self, layout: Layout, shape: tuple[int, int], dtype: DType, words: Sequence[Value], threads: Threads
    ) -> None:
        self.layout, self.shape, self.dtype, self.words, self.threads = layout, shape, dtype, list(words), threads

    @property
    def values(self) -> list[Value]:
        """This thread's elements, in the order of the layout."""
        return as_elements(self.words, self.dtype)

    def with_values(self, values: Sequence[Value]) -> Registers:
        """Other elements in the same places, of their own type."""
        dtype = values[0].dtype
        return Registers(self.layout, self.shape, dtype, words_of(values, dtype), self.threads)

    def elements(self) -> Iterator[tuple[Value, Value, Value]]:
        """Yield (row, column, value) of this thread's elements."""
        row0, col0 = self.layout[0](self.threads.number)
        for i, value in enumerate(self.values):
            row, col = self.layout(0, i)
            yield row0 + row, col0 + col, value

    @property
    def __nv_key__(self) -> tuple[Any, ...]:
        return self.layout, self.shape, self.dtype

    def __nv_values__(self) -> list[Value]:
        return self.words

    def __nv_rebuild__(self, values: Sequence[Any]) -> Registers:
        return Registers(self.layout, self.shape, self.dtype, values, self.threads)

    def __repr__(self) -> str:
        return f"Registers({self.shape}, {self.dtype.name}, {self.layout})"
