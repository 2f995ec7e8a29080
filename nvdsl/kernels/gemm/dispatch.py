"""Dispatch: which kernel computes a product, and how it sees the arrays. Worked out once for all calls alike.

    tensor cores    f16, bf16, f32 (as tf32), 8-bit types; operands that TMA or wgmma can't read are copied first
    simple          f64, and small products that would need a copy
    empty sums      K is 0
"""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

import nvdsl as nv
from nvdsl.call.specialize import Call, Constant, describe_argument
from nvdsl.driver.array_spec import ArraySpec, Described, Memory, spec_of
from nvdsl.driver.arrays import NUMPY
from nvdsl.driver.executable import Executable
from nvdsl.driver.stream import Stream
from nvdsl.errors import ArgumentError
from nvdsl.kernels.blocks.elementwise import Elementwise
from nvdsl.kernels.blocks.linear_combination import LinearCombination
from nvdsl.kernels.gemm import blockscaled, simple
from nvdsl.kernels.gemm.config import Config
from nvdsl.kernels.gemm.launch import sms
from nvdsl.kernels.gemm.problem import GemmProblem, Matrix, check_block_scaled, offsets
from nvdsl.kernels.gemm.tuned import tuned_matmul

SIMPLE_PRODUCTS = 1 << 21
"""Multiplications up to which a product that would need a copy is computed without tensor cores: the simple kernel then
takes a few microseconds, no more than the copy and its memory would."""


Sources = Mapping[str, np.ndarray | Memory]
"""Where the arrays of a call lie, by name: device memory, or C-contiguous host arrays."""


@dataclass(frozen=True)
class ArgumentView:
    """How a kernel sees one array: its shape and strides, and where each launch's part of it starts (in elements)."""

    spec: ArraySpec
    starts: tuple[int, ...]

    @staticmethod
    def of(matrix: Matrix, starts: Sequence[int]) -> ArgumentView:
        return ArgumentView(spec_of(matrix.shape, matrix.dtype, matrix.strides), tuple(starts))

    def offset(self, launch: int) -> int:
        """Bytes from the array's element [0, ..., 0] to the first one of launch number ``launch``."""
        return self.starts[launch] * self.spec.dtype.bytes

    def described(self, source: np.ndarray | Memory, launch: int) -> Described:
        """The argument of launch number ``launch``. ``source``: device memory, or a C-contiguous host array."""
        start, spec = self.starts[launch], self.spec
        if isinstance(source, tuple):
            address, place, owner = source
            return spec, (address + self.offset(launch), place, owner)
        strides = tuple(step * source.itemsize for step in spec.strides)
        memory = source.reshape(-1).view(np.uint8)  # NumPy's as_strided knows no 8-bit floats
        view = np.ndarray(spec.shape, source.dtype, memory, start * source.itemsize, strides)
        return NUMPY.describe(view)


@dataclass(frozen=True)
class BoundKernel:
    """A kernel's host function with its constants, and a slot for each array it takes, by name and in its order."""

    problem: GemmProblem
    finish: LinearCombination
    function: Any
    options: dict[str, Any]
    slots: tuple[tuple[str, ArgumentView], ...]
    launches: int

    @functools.cached_property
    def order(self) -> list[str]:
        """The names of the kernel's arguments: the slots', "alpha" and "beta"."""
        order = []
        for name, _ in self.slots:
            order += ["beta", name] if name == "c" else [name]
            if name == "out" and self.finish.alpha:
                order.append("alpha")
        return order

    def described(self, sources: Sources, alpha: float, beta: float, launch: int = 0) -> list[tuple[Any, Any]]:
        """The arguments of launch number ``launch``: what each is specialized on, and its value."""
        number = np.float64 if self.problem.a.dtype == nv.f64 else float
        given: dict[str, Any] = {"alpha": describe_argument(number(alpha)), "beta": describe_argument(number(beta))}
        given |= {name: slot.described(sources[name], launch) for name, slot in self.slots}
        return [given[name] for name in self.order]

    def run(
        self, sources: Sources, alpha: float, beta: float, stream: Stream | None, target: str | None
    ) -> tuple[Call, Executable | None] | None:
        """Compute. ``sources``: name -> device memory, or a C-contiguous host array.

        Returns the first launch's call, and what ran on the GPU; None where nothing is launched.
        """
        call = executable = None
        for i in range(self.launches):
            described = self.described(sources, alpha, beta, i)
            call = call or self.function.call([*described, *self._constants], tuple(self.options))
            executable = self.function.run(call, [value for _, value in described], stream, target)
        return call and (call, executable)

    @functools.cached_property
    def _constants(self) -> list[tuple[Constant, None]]:
        return [(Constant(x), None) for x in self.options.values()]

    def offsets(self) -> list[list[int]]:
        """For each launch the bytes by which the kernel's arguments lie behind the arrays' starts."""
        slots = dict(self.slots)
        return [[slots[x].offset(i) if x in slots else 0 for x in self.order] for i in range(self.launches)]


def find(problem: GemmProblem, finish: LinearCombination, config: Config | None, target: str | None) -> BoundKernel:
    """The kernel of a problem. Raises ArgumentError where ``config`` can't compute it."""
    epilogue_op = None if finish.does_nothing else Elementwise(finish, aligned=_aligned(problem))
    options: dict[str, Any] = {"acc_dtype": problem.acc_dtype, "epilogue_op": epilogue_op}
    if 0 in problem.result:
        return BoundKernel(problem, finish, None, {}, (), 0)
    if problem.sizes[2] == 0:
        return _bind(problem, finish, simple.empty_sums, options, {"out": problem.out}, unit=True)
    if problem.a.dtype == nv.f64:
        return _simple(problem, finish, options)
    rows, cols = problem.out.strides[-2:]
    turned = rows == 1 != cols
    given, problem = problem, problem.transposed if turned else problem
    a, a_axis = _seen(problem.a, k_axis=1)
    b, b_axis = _seen(problem.b, k_axis=0)
    packed = [not matrix.fits_tma(1) for matrix in (a, b)]
    small = problem.batches * math.prod(problem.sizes) <= SIMPLE_PRODUCTS
    if config is None and any(packed) and small:
        return _simple(given, finish, options)
    options |= {
        "a_major": "k" if a_axis == 1 else "mn",
        "b_major": "k" if b_axis == 0 else "mn",
        "copy_a": packed[0],
        "copy_b": packed[1],
        "direct_store": not problem.out.fits_tma(1),
        "sms": sms(target),
    }
    if config is not None:
        sliced = replace(config, tile_k=128 // a.dtype.bytes)
        if reasons := sliced.problems(a.dtype, problem.out_dtype, problem.acc_dtype):
            raise ArgumentError(
                f"{config} for a product of {a.dtype.name}: " + "; ".join(reasons), fix="choose another configuration"
            )
        options["config"] = config
    factors = {"b": a, "a": b} if turned else {"a": a, "b": b}
    return _bind(problem, finish, tuned_matmul, options, {**factors, "out": problem.out})


def find_block_scaled(
    problem: GemmProblem, scale_a: Matrix, scale_b: Matrix, config: Config | None, target: Any
) -> BoundKernel:
    """The kernel of one product of 8-bit floats with a scale for each 128 elements along K. Raises ArgumentError."""
    check_block_scaled(problem, scale_a, scale_b)
    if 0 in problem.sizes:
        return find(problem, LinearCombination(), None, target)
    a, b = problem.a, problem.b.transposed
    options: dict[str, Any] = {
        "sms": sms(target),
        "copy_a": not a.fits_tma(1),
        "copy_b": not b.fits_tma(1),
        "direct_store": not problem.out.fits_tma(1),
    }
    if config is not None:
        options["config"] = replace(config, tile_k=128)
    arrays = {"a": a, "b": b, "out": problem.out, "scale_a": scale_a, "scale_b": scale_b}
    slots = tuple((name, ArgumentView.of(matrix, [0])) for name, matrix in arrays.items())
    return BoundKernel(problem, LinearCombination(), blockscaled.gemm, options, slots, 1)


def _aligned(problem: GemmProblem) -> bool:
    """Whether two neighbours of C can be read together, see `Elementwise`. No other array is read so."""
    return all(matrix.fits_tma(1) for name, matrix in problem.others if name == "c")


def _simple(problem: GemmProblem, finish: LinearCombination, options: dict[str, Any]) -> BoundKernel:
    arrays = {"a": problem.a, "b": problem.b, "out": problem.out}
    return _bind(problem, finish, simple.matmul, options, arrays, unit=True)


def _seen(matrix: Matrix, k_axis: int) -> tuple[Matrix, int]:
    """A factor with the axis last along which it is read, or along which its copy is; and which axis that is.

    That is K where wgmma takes nothing else (all but 16-bit types), else the one for which no copy is needed.
    """
    axes = [k_axis, 1 - k_axis] if matrix.dtype.bits == 16 else [k_axis]
    near = min(axes, key=lambda axis: (not matrix.fits_tma(axis), abs(matrix.strides[axis - 2])))
    return (matrix if near == 1 else matrix.transposed), near


def _bind(
    problem: GemmProblem,
    finish: LinearCombination,
    function: Any,
    options: dict[str, Any],
    arrays: dict[str, Matrix],
    unit: bool = False,
) -> BoundKernel:
    """A kernel that sees the innermost batch axis, rows, columns: the others are launches.

    Where there is no batch, ``unit`` keeps an axis of one; what the epilogue reads has one always. A factor that serves
    all batches has none, or one of one.
    """
    others = dict(problem.others)
    read = {name: others[name] for name in ("scale_a", "scale_b", "c", "bias") if name in others}
    named = [*arrays.items(), *read.items()]
    starts = list(offsets([matrix for _, matrix in named]))
    slots = []
    for i, (name, matrix) in enumerate(named):
        shape, strides = (1, *matrix.shape)[-3:], (0, *matrix.strides)[-3:]
        if name in "ab" and strides[0] == 0:
            shape = (1, *shape[1:])
        if not unit and name in arrays and shape[0] == 1:
            shape, strides = shape[1:], strides[1:]
        seen = replace(matrix, shape=shape, strides=strides)
        slots.append((name, ArgumentView.of(seen, [start[i] for start in starts])))
    return BoundKernel(problem, finish, function, options, tuple(slots), len(starts))
