"""How a kernel reads the factors of a product and writes its result: along which axis, and whether TMA can.

One of the factors' axes is to be contiguous, and rows are to start at multiples of 16 bytes; else a copy is read.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import nvdsl as nv
from nvdsl.errors import ArgumentError
from nvdsl.kernels.blocks.direct_epilogue import VECTORS
from nvdsl.kernels.blocks.either_epilogue import EITHER
from nvdsl.kernels.blocks.realigned import VECTOR
from nvdsl.kernels.gemm.config import Config
from nvdsl.kernels.gemm.problem import GemmProblem, Matrix, fits_tma

Factor = tuple[Matrix, int]
"""A factor with the axis last along which it is read, or its copy is; and which axis that is."""


def factors(problem: GemmProblem, config: Config | None) -> tuple[Factor, Factor]:
    """A and B as a kernel reads them, see `readable`. One of two f32 factors may have another axis than K contiguous:
    the kernel takes it from registers, as its A. B is that where the transpose of the result is computed. ``config``:
    as the caller wants it, None where any is right."""
    a, b = readable(problem.a, k_axis=1), readable(problem.b, k_axis=0)
    turns = fits_tma(problem.out) and repeats(problem)

    def suits(swap: bool) -> bool:
        return config is None or config.swap_ab == swap and not _problems(config, problem, "k", "mn")

    if problem.a.dtype != nv.f32:
        return a, b
    found = [
        (matrix.shape[-1] * matrix.shape[-2], which)
        for which, matrix, copied in ((0, problem.a, a[0]), (1, problem.b.transposed, b[0]))
        if not copied.fits_tma(1) and matrix.fits_tma(0) and (which == 0 or turns) and suits(which == 1)
    ]
    if not found:
        return a, b
    return ((problem.a.transposed, 0), b) if max(found)[1] == 0 else (a, (problem.b, 1))


def readable(matrix: Matrix, k_axis: int) -> Factor:
    """A factor with the axis last along which it is read, or along which its copy is; and which axis that is.

    That is K where wgmma takes nothing else (all but 16-bit types), else the one for which no copy is needed.
    """
    return nearest(matrix, [k_axis, 1 - k_axis] if matrix.dtype.bits == 16 else [k_axis])


def nearest(matrix: Matrix, axes: Sequence[int]) -> Factor:
    """The matrix with that one of the axes last along which it is read best; and which one that is."""
    return nearer(matrix, [axis for axis in axes if matrix.fits_tma(axis)] or axes)


def nearer(matrix: Matrix, axes: Sequence[int]) -> Factor:
    """The matrix with that one of the axes last along which neighbours are nearest, the first of equals; and which."""
    near = min(axes, key=lambda axis: abs(matrix.strides[axis - 2]))
    return (matrix if near == 1 else matrix.transposed), near


def repeats(problem: GemmProblem) -> bool:
    """Whether whatever the epilogue reads repeats along rows or columns, as far as a kernel is told, see `Elementwise`.
    """
    return all(0 in matrix.strides[-2:] for _, matrix in problem.others)


def direct_store(out: Matrix, chosen: bool = True) -> bool | str:
    """Whether threads store a result, and how: see `VectorEpilogue` and `EitherEpilogue`, which is for configurations
    that are ``chosen``: the caller's may leave a thread few registers."""
    stored, (m, n), pitch = fits_tma(out), out.shape[-2:], out.strides[-2]
    near = out.aligned and out.strides[-1] == 1 and len(out.shape) <= 3 and out.dtype.bits in (16, 32)
    if chosen and near and (stored or ((m - 1) * pitch + n) * out.dtype.bytes >= VECTOR):
        return EITHER
    return not stored and (VECTORS if near else True)


def check_config(config: Config, problem: GemmProblem, b_major: str = "mn", a_major: str = "k") -> None:
    """Raises ArgumentError for one that can't compute the problem. The majors: as in `Config.problems`."""
    refuse(config, f"a product of {problem.a.dtype.name}", _problems(config, problem, b_major, a_major))


def refuse(config: Config, what: str, reasons: Sequence[str]) -> None:
    """Raises ArgumentError where there are reasons against a configuration for something."""
    if reasons:
        raise ArgumentError(
            f"{config} for {what}: " + "; ".join(reasons),
            fix="give a Config without that, or leave config= out: one that fits is chosen",
        )


def _problems(config: Config, problem: GemmProblem, b_major: str, a_major: str) -> list[str]:
    sliced = replace(config, tile_k=128 // problem.a.dtype.bytes)
    return sliced.problems(problem.a.dtype, problem.out_dtype, problem.acc_dtype, b_major, a_major)
