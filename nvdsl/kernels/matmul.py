"""``matmul``: the matrix product for any layout, type and size, on the road that is fastest for it.

    arguments -> Problem (shapes, strides, types: all that decides) -> Road (kernel, views) -> launch

A problem is worked out once; a call alike looks its road up and launches.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import nvdsl as nv
from nvdsl import sim
from nvdsl.errors import ArgumentError
from nvdsl.jit import at_call
from nvdsl.kernels.allocate import empty_like
from nvdsl.kernels.arguments import Argument, overlap
from nvdsl.kernels.config import Config
from nvdsl.kernels.finish import ACTIVATIONS, Finish
from nvdsl.kernels.problem import Problem
from nvdsl.kernels.roads import Road, find

_roads: dict[Any, Road] = {}


@at_call
def matmul(
    a: Any,
    b: Any,
    out: Any = None,
    *,
    c: Any = None,
    alpha: float = 1.0,
    beta: float | None = None,
    bias: Any = None,
    activation: str | Callable[[Any], Any] | None = None,
    scale_a: Any = None,
    scale_b: Any = None,
    acc_dtype: nv.DType | None = None,
    out_dtype: nv.DType | None = None,
    config: Config | None = None,
    stream: Any = None,
    target: str | None = None,
) -> Any:
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
    default where ``c`` is given. ``activation``: one of `ACTIVATIONS`, or a function of an f32 value for all elements.
    ``scale_a``, ``scale_b``: a number, or an array broadcast to (..., M, 1) and (..., 1, N): a scale for the tensor,
    for each row of ``a``, for each column of ``b``. ``config``: a kernel's; None: the best known.

    Raises ArgumentError for what doesn't fit together.
    """
    given = {"a": a, "b": b, "scale_a": scale_a, "scale_b": scale_b, "c": c, "bias": bias}
    arguments = {name: Argument.of(name, x) for name, x in given.items() if x is not None and not _is_number(x)}
    alpha = float(alpha) * (scale_a if _is_number(scale_a) else 1.0) * (scale_b if _is_number(scale_b) else 1.0)
    beta = (0.0 if c is None else 1.0) if beta is None else float(beta)
    if c is None and beta != 0.0:
        raise ArgumentError(f"beta = {beta} without c", fix="pass c=, the matrix that beta multiplies (it may be out)")
    if beta == 0.0:
        arguments.pop("c", None)  # as in BLAS, c is not read
    if out is not None:
        arguments["out"] = Argument.of("out", out)

    simulated = sim.wanted(target)
    specs = tuple((name, argument.matrix) for name, argument in arguments.items())
    key = (specs, alpha != 1.0, activation, acc_dtype, out_dtype, config, simulated)
    road = _roads.get(key)
    if road is None:
        finish = Finish(
            alpha != 1.0,
            "scale_a" in arguments,
            "scale_b" in arguments,
            "c" in arguments,
            "bias" in arguments,
            _activation(activation),
        )
        problem = Problem.of({name: argument.matrix for name, argument in arguments.items()}, acc_dtype, out_dtype)
        road = _roads[key] = find(problem, finish, config, target)

    if out is None:
        made, result = empty_like(arguments["a"].memory, road.problem.result, road.problem.out_dtype)
        arguments["out"] = Argument.of("out", made)
    else:
        result = lambda: out  # noqa: E731
        overlap(arguments["out"], arguments["a"], arguments["b"])
    road.launch({name: argument.source for name, argument in arguments.items()}, alpha, beta, stream, target)
    if out is not None:
        arguments["out"].give_back()
    return result()


def _is_number(x: Any) -> bool:
    return isinstance(x, int | float)


def _activation(activation: str | Callable[[Any], Any] | None) -> Callable[[Any], Any] | None:
    if activation is None or callable(activation):
        return activation
    if activation not in ACTIVATIONS:
        raise ArgumentError(
            f"activation={activation!r}",
            rule=f"one of {', '.join(ACTIVATIONS)}, or a function of a traced f32 value",
            fix="choose one of these",
        )
    return ACTIVATIONS[activation]
