"""The arrays of a problem on the GPU, what the product must be, and whether it is. Needs torch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from benchmarks.problems import Workload

DEVICE = "cuda"
ROWS = 2048
"""Rows of a result that are compared at a time: f64 copies of all at once would be large."""


class Wrong(Exception):
    """A result is not the product."""


@dataclass
class Operands:
    """``a`` (m, k), ``b`` (k, n): as the layout says, transposed views where it says T. ``scale_a``, ``scale_b``: f32
    tensors (1, 1), or (m, 1) and (1, n); None without scales. ``out``: what contenders write."""

    problem: Workload
    a: Any
    b: Any
    out: Any
    scale_a: Any = None
    scale_b: Any = None
    exact: Any = None
    typical: float = 0.0

    @staticmethod
    def empty(problem: Workload) -> Operands:
        """Memory, nothing in it: enough to compile for."""
        import torch

        made = lambda shape, name: torch.empty(shape, dtype=torch_dtype(name), device=DEVICE)  # noqa: E731
        stored = lambda rows, cols, letter: (  # noqa: E731
            made((rows, cols), problem.dtype) if letter == "N" else made((cols, rows), problem.dtype).T
        )
        m, n, k = problem.m, problem.n, problem.k
        arrays = stored(m, k, problem.layout[0]), stored(k, n, problem.layout[1]), made((m, n), problem.out)
        shapes = {"": None, "tensor": ((1, 1), (1, 1)), "rows": ((m, 1), (1, n))}[problem.scales]
        return Operands(problem, *arrays, *([made(s, "f32") for s in shapes] if shapes else []))

    @staticmethod
    def random(problem: Workload, seed: int) -> Operands:
        """Standard normal values, integers of the whole range for int8; and the product in f64."""
        import torch

        self = Operands.empty(problem)
        generator = torch.Generator(device=DEVICE).manual_seed(seed)
        for array in (self.a, self.b):
            if problem.dtype == "i8":
                array.random_(-128, 128, generator=generator)
            else:
                array.copy_(torch.randn(array.shape, generator=generator, device=DEVICE))
        for scales in filter(lambda x: x is not None, (self.scale_a, self.scale_b)):
            scales.uniform_(0.5, 2.0, generator=generator)
        self._multiply()
        return self

    def _multiply(self) -> None:
        """The product in f64, rounded to f32 where that loses nothing that a check looks at; and the root of the mean
        square of its elements, but for the scales."""
        import torch

        b = self.b.double()
        wide = torch.float64 if self.problem.acc == "i32" else torch.float32
        self.exact = torch.empty(self.out.shape, dtype=wide, device=DEVICE)
        squares = torch.zeros((), dtype=torch.float64, device=DEVICE)
        for first in range(0, self.problem.m, ROWS):
            part = slice(first, first + ROWS)
            product = self.a[part].double() @ b
            squares += product.square().sum()
            self.exact[part] = product.mul_(self._scale(part))
        self.typical = (squares / self.exact.numel()).sqrt().item()

    def _scale(self, rows: slice) -> Any:
        """Of each element of some rows of the result, in f64; 1 without scales."""
        if self.scale_a is None:
            return 1.0
        return (self.scale_a[rows] if self.problem.scales == "rows" else self.scale_a).double() * self.scale_b

    def poison(self) -> None:
        """Fill the result with NaN (the lowest integer), so that what is not written shows."""
        import torch

        floating = self.out.dtype.is_floating_point
        self.out.fill_(float("nan") if floating else torch.iinfo(self.out.dtype).min)

    def error(self, out: Any | None = None) -> float:
        """||out - exact|| / ||exact||. Raises `Wrong` where it, or that of a single element, is above what rounding
        explains.

        An element's error is relative to its size and to the typical size of a sum with its scales: sums are rounded
        before they are scaled, so that an element with large scales has an error as large.
        """
        import torch

        out = self.out if out is None else out
        size = self.exact.norm(dtype=torch.float64)
        total, worst = torch.zeros(2, dtype=torch.float64, device=DEVICE).unbind()
        for first in range(0, self.problem.m, ROWS):
            exact = self.exact[first : first + ROWS].double()
            difference = (out[first : first + ROWS].double() - exact).abs()
            total = total + difference.square().sum()
            usual = exact.abs() + self.typical * self._scale(slice(first, first + ROWS))
            worst = torch.maximum(worst, (difference / usual).max())  # NaN stays NaN
        error, single = (total.sqrt() / size).item(), worst.item()
        bound = self.problem.tolerance
        if not (error <= bound and single <= 4 * bound):
            raise Wrong(f"wrong result: relative error {error:.3g}, of an element {single:.3g}, bound {bound:.3g}")
        return error


def torch_dtype(name: str) -> Any:
    import torch

    return {
        "f16": torch.float16, "bf16": torch.bfloat16, "f32": torch.float32, "tf32": torch.float32,
        "e4m3": torch.float8_e4m3fn, "e5m2": torch.float8_e5m2, "i8": torch.int8, "i32": torch.int32,
    }[name]  # fmt: skip
