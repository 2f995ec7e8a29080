"""The arrays of a call: each as rows, that is, with all axes but the last made one."""

from __future__ import annotations

import math
from functools import cached_property
from typing import Any

import nvdsl as nv
from nvdsl.errors import ArgumentError
from nvdsl.kernels.arguments import ALIGNMENT, Argument


class Rows:
    """An array of rows. ``step``: elements from one row to the next. ``multiple``: of how many elements the start of
    each row is a multiple."""

    def __init__(self, argument: Argument) -> None:
        self.argument, self.name, spec = argument, argument.name, argument.spec
        if spec.dtype not in (nv.f16, nv.bf16, nv.f32):
            raise ArgumentError(f"{self.name} is of {spec.dtype.name}", rule="elements are f16, bf16 or f32")
        if not spec.shape or spec.shape[-1] < 1:
            raise ArgumentError(f"{self.name} has the shape {spec.shape}", rule="the last axis has one element or more")
        self.shape, self.dtype = spec.shape, spec.dtype
        *leading, self.cols = spec.shape
        self.rows = math.prod(leading)
        self.step = self._step(spec.strides)
        unaligned = argument.memory[0] % ALIGNMENT // spec.dtype.bytes
        self.multiple = math.gcd(self.step, unaligned or ALIGNMENT)

    @cached_property
    def given(self) -> Any:
        """What a kernel takes for it."""
        return self.argument.view((self.rows, self.cols), (self.step, 1))

    def _step(self, strides: tuple[int, ...]) -> int:
        axes = [(n, step) for n, step in zip(self.shape[:-1], strides[:-1], strict=True) if n > 1]
        even = all(step == n * inner for (_, step), (n, inner) in zip(axes, axes[1:], strict=False))
        if not even or self.cols > 1 and strides[-1] != 1:
            raise ArgumentError(
                f"{self.name} has the shape {self.shape} and the strides {strides}",
                rule="the elements of a row lie side by side, and rows at even distances",
                fix=f"pass a contiguous copy of {self.name}",
            )
        return axes[-1][1] if axes else self.cols
