"""``matmul``: the matrix product for any layout, type and size, on the road that is fastest for it.

    arguments -> GemmProblem (shapes, strides, types: all that decides) -> BoundKernel (kernel, views) -> launch

A problem is worked out once; a call alike looks its road up and launches, or where a glance tells that it is alike
(`nvdsl.kernels.gemm.ready`), launches at once.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeVar

import nvdsl as nv
from nvdsl import sim
from nvdsl.call import collect
from nvdsl.call.jit import at_call
from nvdsl.call.signature import glance, keep, learn
from nvdsl.errors import ArgumentError
from nvdsl.kernels.allocate import empty_like
from nvdsl.kernels.arraylike import ArrayLike
from nvdsl.kernels.blocks.linear_combination import LinearCombination
from nvdsl.kernels.gemm import options as given
from nvdsl.kernels.gemm.arguments import Argument, overlap
from nvdsl.kernels.gemm.config import Config
from nvdsl.kernels.gemm.dispatch import BoundKernel, find, find_block_scaled
from nvdsl.kernels.gemm.problem import TMA_ALIGNMENT, GemmProblem, is_block_scaled
from nvdsl.kernels.gemm.ready import Ready, ready
from nvdsl.kernels.gemm.tuned import product
from nvdsl.trace.tokens import token

A = TypeVar("A", bound=ArrayLike)

_roads: dict[Any, BoundKernel] = {}
_ready: dict[Any, Ready] = {}  # by what a glance says
product.when_tuned.append(_ready.clear)


@at_call
def matmul(
    a: A,
    b: ArrayLike,
    out: ArrayLike | None = None,
    *,
    c: ArrayLike | None = None,
    alpha: float = 1.0,
    beta: float | None = None,
    bias: ArrayLike | None = None,
    activation: str | Callable[[Any], Any] | None = None,
    scale_a: float | ArrayLike | None = None,
    scale_b: float | ArrayLike | None = None,
    acc_dtype: Any = None,
    out_dtype: Any = None,
    config: Config | None = None,
    stream: Any = None,
    target: str | None = None,
) -> A:
    """``activation(alpha * (scale_a * a) @ (scale_b * b) + beta * c + bias)``; returns ``out``.

    ``a``: (..., M, K), ``b``: (..., K, N), leading axes broadcast as NumPy's matmul does; a vector (K,) is taken as a
    row or a column. NumPy, torch, CuPy or JAX arrays, of one type: f16, bf16, f32 (multiplied as tf32: 10 bits of
    mantissa), e4m3, e5m2 (these two also mixed), i8, and f64 (without tensor cores). Any strides: operands that TMA
    and wgmma can read are used as they lie (K or the other axis contiguous, further strides multiples of 16 bytes; f32
    and 8-bit types with K contiguous), others are first copied on the device.

    ``out``: (..., M, N), any strides; None: a new array of ``out_dtype`` (default: f16, bf16, f32 and f64 as ``a``,
    bf16 for 8-bit floats, i32 for i8). ``acc_dtype``: sums; f32 by default, f16 for f16 and 8-bit floats at twice the
    rate of registers and less accuracy, i32 for i8.
    ``c``, ``bias``: of any float type, broadcast to ``out``'s shape; ``c`` may be ``out`` itself. ``beta``: 1 by
    default where ``c`` is given. ``activation``: one of
    `nvdsl.kernels.blocks.linear_combination.ACTIVATIONS`, or a function of an f32 value for all
    elements. The epilogue is computed in f32, of f64 in f64: i32 sums beyond 2^24 are rounded by it.
    ``scale_a``, ``scale_b``: a number, or an array broadcast to (..., M, 1) and (..., 1, N): a scale for the tensor,
    for each row of ``a``, for each column of ``b``. Of 8-bit floats also for blocks of 128 along K: f32 arrays of
    (M, ceil(K / 128)) and (ceil(K / 128), ceil(N / 128)), for one product without batches, with f32 sums and no more
    epilogue. ``acc_dtype``, ``out_dtype``: an `nvdsl.DType`, or what NumPy takes for one.
    ``config``: a kernel's; None: the best known.

    Raises ArgumentError for what doesn't fit together.
    """
    key, alone = None, c is bias is scale_a is scale_b is None
    seen = glance((a, b, out) if alone else (a, b, out, c, bias, given.array(scale_a), given.array(scale_b)))
    if seen is not None and not collect.active():
        what, addresses = seen
        factor, added = given.numbers(alpha, beta, c, scale_a, scale_b)
        aligned = tuple([address % TMA_ALIGNMENT for address in addresses])
        try:
            chosen = activation and token(activation), acc_dtype, out_dtype, config and token(config), target
            key = what, aligned, factor != 1.0, added != 0.0, chosen
            known = _ready.get(key)
        except TypeError:  # something can't be hashed: the long way says what
            known = None
        if known is not None and known.holds() and not known.overlaps(addresses):
            return known(out, addresses, factor, added, stream)
    operands = a, b, out, c, alpha, beta, bias, activation, scale_a, scale_b
    call = _Call(*operands, acc_dtype, out_dtype, config, target)
    result = call.run(stream)
    learn(call.arrays)
    if key is not None:
        keep(_ready, key, call.ready())
    return result


@at_call
def tune(
    a: ArrayLike,
    b: ArrayLike,
    out: ArrayLike,
    *,
    budget: float = 60.0,
    force: bool = False,
    progress: Any = None,
    **options: Any,
) -> nv.Tuning:
    """Search for the fastest configuration of ``matmul(a, b, out, **options)``, and keep it (docs/tuning.md).

    The arrays' contents are left alone. ``budget``: seconds, about. ``force``: search although the answer is known.
    Returns an `nvdsl.Tuning`. Raises ArgumentError for a product for which there is nothing to choose.
    """
    call = _Call(a, b, out, **options)
    road, arguments, constants = call.tuned()
    found = road.function.tune(*arguments, **constants, budget=budget, force=force, progress=progress)
    asked = [f"{name} {argument.spec}" for name, argument in call.arguments.items()]
    asked += [f"{n}={x!r}" for n, x in options.items() if x is not None and n not in ("c", *call.arguments)]
    return replace(found, problem=", ".join(asked))


setattr(matmul, "tune", tune)  # noqa: B010  (a function has no such attribute, says mypy)


class _Call:
    """One call: its arguments as arrays and numbers, and its road."""

    def __init__(
        self,
        a: Any,
        b: Any,
        out: Any,
        c: Any = None,
        alpha: float = 1.0,
        beta: float | None = None,
        bias: Any = None,
        activation: Any = None,
        scale_a: Any = None,
        scale_b: Any = None,
        acc_dtype: nv.DType | None = None,
        out_dtype: nv.DType | None = None,
        config: Config | None = None,
        target: str | None = None,
    ) -> None:
        self.out, self.target = out, target
        self.alpha, self.beta = given.numbers(alpha, beta, c, scale_a, scale_b)
        acc_dtype, out_dtype = given.dtype("acc_dtype", acc_dtype), given.dtype("out_dtype", out_dtype)
        activation, config = given.activation(activation), given.config(config)
        if c is None and self.beta != 0.0:
            raise ArgumentError(f"beta = {beta} without c", fix="pass c=, the matrix that beta multiplies (out, say)")
        scales = {"scale_a": given.array(scale_a), "scale_b": given.array(scale_b)}
        arrays = {"a": a, "b": b, **scales, "c": c, "bias": bias, "out": out}
        if self.beta == 0.0:
            del arrays["c"]  # as in BLAS, c is not read
        optional = [name for name, x in arrays.items() if x is None and name not in ("a", "b")]
        self.arguments = {name: Argument.of(name, x) for name, x in arrays.items() if name not in optional}
        key = (
            tuple([(name, x.spec, x.aligned) for name, x in self.arguments.items()]),
            (self.alpha != 1.0, token(activation), acc_dtype, out_dtype, token(config), sim.wanted(target)),
        )
        road = _roads.get(key)
        if road is None:
            road = _roads[key] = self._find(activation, acc_dtype, out_dtype, config)
        self.road = road

    def _find(self, activation: Any, acc_dtype: Any, out_dtype: Any, config: Config | None) -> BoundKernel:
        parts = {name: name in self.arguments for name in ("scale_a", "scale_b", "c", "bias")}
        finish = LinearCombination(self.alpha != 1.0, **parts, activation=activation)
        matrices = {name: argument.matrix for name, argument in self.arguments.items()}
        if is_block_scaled(matrices):
            if finish != LinearCombination(scale_a=True, scale_b=True):
                raise ArgumentError("alpha, c, bias or activation beside block scales", fix="apply them afterwards")
            scales = matrices.pop("scale_a"), matrices.pop("scale_b")
            return find_block_scaled(GemmProblem.of(matrices, acc_dtype, out_dtype), *scales, config, self.target)
        return find(GemmProblem.of(matrices, acc_dtype, out_dtype), finish, config, self.target)

    def run(self, stream: Any) -> Any:
        """Compute; returns the result."""
        arguments, problem = self.arguments, self.road.problem
        if self.out is None:
            made, result = empty_like(arguments["a"].memory, problem.result, problem.out_dtype)
            arguments["out"] = Argument.of("out", made)
        else:
            overlap(arguments)
        sources = {name: argument.source for name, argument in arguments.items()}
        self.road.launch(sources, self.alpha, self.beta, stream, self.target)
        if self.out is None:
            return result()
        arguments["out"].give_back()
        return self.out

    @property
    def arrays(self) -> list[Any]:
        return [argument.memory[2] for argument in self.arguments.values()]

    def ready(self) -> Ready | None:
        """For calls like this one, after it ran."""
        return ready(self.road, self.arguments, self.alpha, self.beta, self.target, makes=self.out is None)

    def tuned(self) -> tuple[BoundKernel, list[Any], dict[str, Any]]:
        """The road, and the arguments and constants of its (first) launch."""
        road = self.road
        if self.out is None:
            raise ArgumentError("out=None", rule="what is timed is written somewhere", fix="pass an array as out")
        if not isinstance(road.function, nv.Autotuned):
            raise ArgumentError("this product is computed without tensor cores: there is nothing to tune")
        sources = {name: argument.source for name, argument in self.arguments.items()}
        return road, road.arguments(sources, self.alpha, self.beta), road.options
