"""Tiles in shared memory, one for each stage of a pipeline."""

from __future__ import annotations

from typing import Any, NoReturn

from nvdsl.errors import trace_error
from nvdsl.lang.tile import Tile
from nvdsl.values import bounds
from nvdsl.values.dtypes import DType
from nvdsl.values.typing import Int


class TileStack:
    """One tile for each stage of a pipeline: ``stack[stage]``, with a Python or a traced stage."""

    __nv_number__ = "stack[stage][row, column] loads an element: compute with elements"
    __nv_unprintable__ = "print(stack[stage][row, column])"

    def __init__(self, stages: int, stride: int, first: Tile) -> None:
        self.stages, self.stride, self.first = stages, stride, first

    @property
    def shape(self) -> tuple[int, int, int]:
        """Stages, rows and columns."""
        return (self.stages, *self.first.shape)

    @property
    def dtype(self) -> DType:
        """The element type."""
        return self.first.dtype

    @property
    def bytes(self) -> int:
        """Bytes of data in one stage."""
        return self.first.bytes

    def __len__(self) -> int:
        return self.stages

    def __repr__(self) -> str:
        return f"TileStack({self.shape}, {self.dtype.name}, swizzle={self.first.swizzle})"

    def __setitem__(self, key: Any, value: Any) -> NoReturn:
        _refuse(key if isinstance(key, tuple) else (key,))

    def __getitem__(self, stage: Int) -> Tile:
        """The tile of a stage, a Python int or a traced integer."""
        if isinstance(stage, tuple):
            _refuse(stage)
        if isinstance(stage, int) and not 0 <= stage < self.stages:
            raise trace_error(
                f"stage {stage} of {self.stages}",
                rule=f"stages are 0 to {self.stages - 1}",
                fix="index with `k % stages`",
            )
        bounds.within(f"a stack of {self.stages} tiles", (stage,), (self.stages,))
        return self.first._of(self.first.layout, stage * self.stride)


def _refuse(keys: tuple[Any, ...]) -> NoReturn:
    raise trace_error(
        f"{len(keys)} {'index' if len(keys) == 1 else 'indices'} for an element of a stack of tiles",
        rule="a stack is indexed by its stage and gives a tile",
        fix="stack[stage][row, col]",
    )
