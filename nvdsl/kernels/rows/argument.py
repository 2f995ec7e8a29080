"""The arrays of a call: each as rows, that is, with all axes but the last made one."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

import nvdsl as nv
from nvdsl.driver.arguments import Disjoint
from nvdsl.driver.staging import share_memory
from nvdsl.driver.view import strided
from nvdsl.errors import ArgumentError
from nvdsl.kernels.gemm.arguments import Argument
from nvdsl.kernels.rows.config import ACCESS


class Rows:
    """An array of rows. ``given``: what a kernel takes for it. ``multiple``: of how many elements the start of each
    row is a multiple."""

    def __init__(self, name: str, array: Any) -> None:
        self.name, self.argument = name, Argument.of(name, array)
        spec, (address, _, _) = self.argument.spec, self.argument.memory
        if spec.dtype not in (nv.f16, nv.bf16, nv.f32):
            raise ArgumentError(f"{name} is of {spec.dtype.name}", rule="elements are f16, bf16 or f32")
        if not spec.shape or spec.shape[-1] < 1:
            raise ArgumentError(f"{name} has the shape {spec.shape}", rule="the last axis has one element or more")
        self.shape = spec.shape
        *leading, self.cols = spec.shape
        self.rows, self.dtype = math.prod(leading), spec.dtype
        self.host = self._as_passed()
        if self.host is not None:
            self.given: Any = np.ascontiguousarray(self.host).reshape(self.rows, self.cols)
            self.multiple = self.cols
            return
        step = self._step(spec.strides)
        self.given = array if len(spec.shape) == 2 else strided(array, (self.rows, self.cols), (step, 1))
        self.multiple = math.gcd(step, max(address % ACCESS, 0) // spec.dtype.bytes or ACCESS)

    def _as_passed(self) -> Any:
        """A host array with its axes in the caller's order. `Argument` has columns that lie side by side as rows."""
        host, steps = self.argument.host, self.argument.spec.strides
        columns = host is not None and host.ndim >= 2 and steps[-2] == 1 != steps[-1] and min(self.shape[-2:]) > 1
        return host.swapaxes(-1, -2) if columns else host

    def _step(self, strides: tuple[int, ...]) -> int:
        """Elements from one row to the next."""
        axes = [(n, step) for n, step in zip(self.shape[:-1], strides[:-1], strict=True) if n > 1]
        even = all(step == n * inner for (_, step), (n, inner) in zip(axes, axes[1:], strict=False))
        if not even or self.cols > 1 and strides[-1] != 1:
            raise ArgumentError(
                f"{self.name} has the shape {self.shape} and the strides {strides}",
                rule="the elements of a row lie side by side, and rows at even distances",
                fix=f"pass a contiguous copy of {self.name}",
            )
        return axes[-1][1] if axes else self.cols

    def check_apart(self, other: Rows, same: bool) -> None:
        """Raises ArgumentError where this array, which is written, shares memory with another one. ``same``: unless
        that is the same array."""
        mine, its = self.argument, other.argument
        pair = Disjoint(self.name, mine.span, other.name, its.span, or_same=same and mine.spec == its.spec)
        if self.host is not None and other.host is not None:
            x, y = self.host, other.host
            if not (same and x.ctypes.data == y.ctypes.data and x.strides == y.strides) and share_memory(x, y):
                raise pair.error()
        elif mine.memory[0] and its.memory[0]:
            pair.check(mine.memory[0], its.memory[0])

    def give_back(self) -> None:
        """Of an output: hand what was written to the caller's host array."""
        if self.host is not None and not np.may_share_memory(self.host, self.given):
            self.host[...] = self.given.reshape(self.host.shape)
