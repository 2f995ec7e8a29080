"""``matmul``: the matrix product for any layout, type and size, by the kernel that is fastest for it.

    signature -> launch                                                                         a call like one before
    arguments -> GemmProblem (shapes, strides, types: all that decides) -> BoundKernel (kernel, views) -> launch
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeVar

import nvdsl as nv
from nvdsl import sim
from nvdsl.call.launches import Launches
from nvdsl.driver.array_spec import ArraySpec
from nvdsl.driver.stream import Stream
from nvdsl.driver.view import View
from nvdsl.errors import ArgumentError, NvdslError
from nvdsl.errors.tracebacks import at_call, for_user
from nvdsl.kernels.arraylike import ArrayLike
from nvdsl.kernels.blocks.linear_combination import GATES, LinearCombination
from nvdsl.kernels.gemm import options as given
from nvdsl.kernels.gemm.arguments import matrix, operand
from nvdsl.kernels.gemm.bound_call import BoundCall
from nvdsl.kernels.gemm.bound_kernel import BoundKernel
from nvdsl.kernels.gemm.config import Config
from nvdsl.kernels.gemm.dispatch import find, find_block_scaled
from nvdsl.kernels.gemm.problem import GemmProblem, is_block_scaled
from nvdsl.kernels.options import dtype
from nvdsl.trace import decorated
from nvdsl.trace.tokens import Same, token

A = TypeVar("A", bound=ArrayLike)

_launches = Launches()
_bound: dict[Any, BoundKernel] = {}  # what was decided
_MOST = 4096  # decisions, before that starts again: shapes may vary without end

_ARRAYS = ("a", "b", "out", "c", "bias", "scale_a", "scale_b")
_POSITIONS = {name: i for i, name in enumerate(_ARRAYS)} | {"alpha": -2, "beta": -1}
"""Of a repeated call's values. Behind ``out`` there are others only where one of them is given, and numbers only where
they are not the defaults."""


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
    stream: Stream | None = None,
    target: str | None = None,
) -> A:
    """``activation(alpha * (scale_a * a) @ (scale_b * b) + beta * c + bias)``; returns ``out``.

    ``a`` is (..., M, K) and ``b`` (..., K, N). Leading axes broadcast as NumPy's matmul does, and a vector (K,) is
    taken as a row or a column. Both are NumPy, torch, CuPy or JAX arrays of one type: f16, bf16, f32 (multiplied as
    tf32, with 10 bits of mantissa), e4m3, e5m2 (these two also mixed), i8, or f64 (without tensor cores). Strides may
    be any. Operands that TMA and wgmma can read are used as they lie (K or the other axis contiguous, further strides
    multiples of 16 bytes; 8-bit types with K contiguous, and one of two f32 ones). Others are copied first.

    ``out`` is (..., M, N) with any strides. None makes a new array of ``out_dtype``, by default the type of ``a`` for
    f16, bf16, f32 and f64, bf16 for 8-bit floats, and i32 for i8. ``acc_dtype`` is the type of the sums: f32 by
    default, i32 for i8, or f16 for f16 and 8-bit floats, which takes half of the registers and is less accurate.

    ``c`` and ``bias`` are of any float type and broadcast to ``out``'s shape; ``c`` may be ``out`` itself. ``beta``
    is 1 by default where ``c`` is given. ``activation`` is one of
    `nvdsl.kernels.blocks.linear_combination.ACTIVATIONS`, or a function of an f32 value for all elements. The
    epilogue is computed in f32, and in f64 where ``a`` is f64. It rounds i32 sums beyond 2^24.

    With "swiglu", "geglu", "geglu_tanh" or "reglu", ``b`` is two matrices side by side, (K, 2 N), and the result, (...,
    M, N), is ``activation(first) * second``. ``bias`` has 2 N elements then, and there is no ``c`` and no other scale.

    ``scale_a`` and ``scale_b`` are numbers, or arrays that broadcast to (..., M, 1) and (..., 1, N): a scale for the
    whole tensor, for each row of ``a``, for each column of ``b``. For 8-bit floats they may also be scales of blocks
    of 128 along K: f32 arrays of (M, ceil(K / 128)) and (ceil(K / 128), ceil(N / 128)). These take one product
    without batches, with f32 sums.

    ``acc_dtype`` and ``out_dtype`` are an `nvdsl.DType`, or what NumPy takes for one. ``config`` chooses a kernel;
    None takes the best one known. Raises ArgumentError for arguments that don't fit together.
    """
    try:
        alone = c is bias is scale_a is scale_b is None
        arrays = (a, b, out) if alone else (a, b, out, c, bias, given.array(scale_a), given.array(scale_b))
        if alone and beta is None and alpha.__class__ is float and -given.MOST <= alpha <= given.MOST:
            factor, added = alpha, 0.0
        else:
            factor, added = given.numbers(a, alpha, beta, c, scale_a, scale_b)
        numbers = () if factor == 1.0 and added == 0.0 else (factor, added)
        chosen = None
        if not (activation is acc_dtype is out_dtype is config is None):
            chosen = token(activation), acc_dtype, out_dtype, token(config)
        rest = numbers and (factor != 1.0, added != 0.0), chosen, target
        made = _launches.launch(arrays, rest, stream, numbers)
        if made is not None:
            return made if out is None else out  # type: ignore[return-value]
        decorated.no_call("matmul")
        operands = a, b, out, c, alpha, beta, bias, activation, scale_a, scale_b
        result, launch = ProductCall(*operands, acc_dtype, out_dtype, config, target).run(stream)
        if launch is not None:
            _launches.keep(arrays, rest, launch)
        return result
    except NvdslError as error:
        raise for_user(error) from error.__cause__


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
    call = ProductCall(a, b, out, **options)
    found = call.tune(budget=budget, force=force, progress=progress)
    asked = [f"{name} {argument.spec}" for name, argument in call.arguments.items()]
    asked += [f"{n}={x!r}" for n, x in options.items() if x is not None and n not in ("c", *call.arguments)]
    return replace(found, problem=", ".join(asked))


setattr(matmul, "tune", tune)  # noqa: B010  (a function has no such attribute, says mypy)


class ProductCall(BoundCall):
    """One call of `matmul`: its arguments as arrays and numbers, and the kernel that computes it."""

    positions = _POSITIONS

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
        **more: Any,
    ) -> None:
        """``more``: further arrays of products that are like `matmul`."""
        self.out, self.target = out, target
        self.alpha, self.beta = given.numbers(a, alpha, beta, c, scale_a, scale_b)
        acc_dtype, out_dtype = dtype("acc_dtype", acc_dtype), dtype("out_dtype", out_dtype)
        activation, config = given.activation(activation, gates=GATES), given.config(config)
        if c is None and self.beta != 0.0:
            raise ArgumentError(f"beta = {beta} without c", fix="pass c=, the matrix that beta multiplies (out, say)")
        scales = {"scale_a": given.array(scale_a), "scale_b": given.array(scale_b)}
        arrays = {"a": a, "b": b, **more, **scales, "c": c, "bias": bias, "out": out}
        if self.beta == 0.0:
            del arrays["c"]  # as in BLAS, c is not read
        optional = [name for name, x in arrays.items() if x is None and name not in ("a", "b", *more)]
        self.arguments = {name: operand(name, x) for name, x in arrays.items() if name not in optional}
        key = (
            tuple([(name, x.spec, x.aligned) for name, x in self.arguments.items()]),
            # A kernel is bound to this very function, which may be in another state than one that looks alike.
            (self.alpha != 1.0, Same(activation), token(activation), acc_dtype, out_dtype, token(config)),
            sim.wanted(target),
        )
        bound = _bound.get(key)
        if bound is None:
            if len(_bound) >= _MOST:
                _bound.clear()
            bound = _bound[key] = self.find(activation, acc_dtype, out_dtype, config)
        self.bound = bound

    def find(self, activation: Any, acc_dtype: Any, out_dtype: Any, config: Config | None) -> BoundKernel:
        parts = {name: name in self.arguments for name in ("scale_a", "scale_b", "c", "bias")}
        finish = LinearCombination(self.alpha != 1.0, **parts, activation=activation)
        matrices = {name: matrix(argument) for name, argument in self.arguments.items()}
        if isinstance(activation, str):
            from nvdsl.kernels.gemm import gated  # with kernels that few calls take

            return gated.find(matrices, activation, finish.alpha, acc_dtype, out_dtype, config, self.target)
        if is_block_scaled(matrices):
            scales = matrices.pop("scale_a"), matrices.pop("scale_b")
            finish = replace(finish, scale_a=False, scale_b=False)
            problem = GemmProblem.of(matrices, acc_dtype, out_dtype)
            return find_block_scaled(problem, finish, *scales, config, self.target)
        return find(GemmProblem.of(matrices, acc_dtype, out_dtype), finish, config, self.target)

    def tune(self, **how: Any) -> nv.Tuning:
        """Tune the (first) launch."""
        bound = self.bound
        if self.out is None:
            raise ArgumentError("out=None", rule="what is timed is written somewhere", fix="pass an array as out")
        if not isinstance(bound.function, nv.Autotuned):
            raise ArgumentError(
                "a call with nothing to tune",
                rule="tuning chooses between the configurations of a kernel, of which this product's has one",
                fix="call nv.matmul(...) as it is",
            )
        with bound.packed(self.sources) as sources:
            described = bound.described(sources, self.alpha, self.beta)
            arguments = [View(spec, x) if isinstance(spec, ArraySpec) else x for spec, x in described]
            return bound.function.tune(*arguments, **bound.options, **how)
