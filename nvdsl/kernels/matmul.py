"""``matmul``: the matrix product for any layout, type and size, on the road that is fastest for it.

    arguments -> Problem (shapes, strides, types: all that decides) -> Road (kernel, views) -> launch

A problem is worked out once; a call alike looks its road up and launches, or where a glance tells that it is alike
(`nvdsl.kernels.ready`), launches at once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import nvdsl as nv
from nvdsl import collect, sim
from nvdsl.errors import ArgumentError
from nvdsl.glance import glance, keep, learn
from nvdsl.jit import at_call
from nvdsl.kernels.allocate import empty_like
from nvdsl.kernels.arguments import Argument, overlap
from nvdsl.kernels.config import Config
from nvdsl.kernels.finish import ACTIVATIONS, Finish
from nvdsl.kernels.problem import TMA_ALIGNMENT, Problem, is_block_scaled
from nvdsl.kernels.ready import Ready, ready
from nvdsl.kernels.roads import Road, find, find_block_scaled
from nvdsl.kernels.tuned import product

_roads: dict[Any, Road] = {}
_ready: dict[Any, Ready] = {}  # by what a glance says
product.when_tuned.append(_ready.clear)


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
    for each row of ``a``, for each column of ``b``. Of 8-bit floats also for blocks of 128 along K: f32 arrays of
    (M, ceil(K / 128)) and (ceil(K / 128), ceil(N / 128)), for one product without batches and with no more epilogue.
    ``config``: a kernel's; None: the best known.

    Raises ArgumentError for what doesn't fit together.
    """
    key, alone = None, c is bias is scale_a is scale_b is None
    seen = glance((a, b, out) if alone else (a, b, out, c, bias, _array(scale_a), _array(scale_b)))
    if seen is not None and not collect.active():
        what, addresses = seen
        factor, added = _numbers(alpha, beta, c, scale_a, scale_b)
        aligned = tuple([address % TMA_ALIGNMENT for address in addresses])
        key = what, aligned, factor != 1.0, added != 0.0, activation, acc_dtype, out_dtype, config, target
        known = _ready.get(key)
        if known is not None and not known.overlaps(addresses):
            return known(out, addresses, factor, added, stream)
    given = a, b, out, c, alpha, beta, bias, activation, scale_a, scale_b
    call = _Call(*given, acc_dtype, out_dtype, config, target)
    result = call.run(stream)
    learn(call.arrays)
    if key is not None:
        keep(_ready, key, call.ready())
    return result


@at_call
def tune(
    a: Any, b: Any, out: Any, *, budget: float = 60.0, force: bool = False, progress: Any = None, **options: Any
) -> Any:
    """Search for the fastest configuration of ``matmul(a, b, out, **options)``, and keep it (docs/tuning.md).

    The arrays' contents are left alone. ``budget``: seconds, about. ``force``: search although the answer is known.
    Returns an `nvdsl.Tuning`. Raises ArgumentError for a product for which there is nothing to choose.
    """
    road, arguments, constants = _Call(a, b, out, **options).tuned()
    return road.function.tune(*arguments, **constants, budget=budget, force=force, progress=progress)


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
        self.alpha, self.beta = _numbers(alpha, beta, c, scale_a, scale_b)
        if c is None and self.beta != 0.0:
            raise ArgumentError(f"beta = {beta} without c", fix="pass c=, the matrix that beta multiplies (out, say)")
        scales = {"scale_a": _array(scale_a), "scale_b": _array(scale_b)}
        given = {"a": a, "b": b, **scales, "c": c, "bias": bias, "out": out}
        if self.beta == 0.0:
            del given["c"]  # as in BLAS, c is not read
        optional = [name for name, x in given.items() if x is None and name not in ("a", "b")]
        self.arguments = {name: Argument.of(name, x) for name, x in given.items() if name not in optional}
        key = (
            tuple([(name, x.spec, x.aligned) for name, x in self.arguments.items()]),
            (self.alpha != 1.0, activation, acc_dtype, out_dtype, config, sim.wanted(target)),
        )
        road = _roads.get(key)
        if road is None:
            road = _roads[key] = self._find(activation, acc_dtype, out_dtype, config)
        self.road = road

    def _find(self, activation: Any, acc_dtype: Any, out_dtype: Any, config: Config | None) -> Road:
        parts = {name: name in self.arguments for name in ("scale_a", "scale_b", "c", "bias")}
        finish = Finish(self.alpha != 1.0, **parts, activation=_activation(activation))
        matrices = {name: argument.matrix for name, argument in self.arguments.items()}
        if is_block_scaled(matrices):
            if finish != Finish(scale_a=True, scale_b=True):
                raise ArgumentError("alpha, c, bias or activation beside block scales", fix="apply them afterwards")
            scales = matrices.pop("scale_a"), matrices.pop("scale_b")
            return find_block_scaled(Problem.of(matrices, acc_dtype, out_dtype), *scales, config, self.target)
        return find(Problem.of(matrices, acc_dtype, out_dtype), finish, config, self.target)

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

    def tuned(self) -> tuple[Road, list[Any], dict[str, Any]]:
        """The road, and the arguments and constants of its (first) launch."""
        road = self.road
        if not isinstance(road.function, nv.Autotuned):
            raise ArgumentError("this product is computed without tensor cores: there is nothing to tune")
        sources = {name: argument.source for name, argument in self.arguments.items()}
        return road, road.arguments(sources, self.alpha, self.beta), road.options


def _numbers(alpha: float, beta: float | None, c: Any, scale_a: Any, scale_b: Any) -> tuple[float, float]:
    """alpha with the scales that are numbers, and beta with its default."""
    factor = float(alpha) if scale_a is scale_b is None else float(alpha) * _number(scale_a) * _number(scale_b)
    return factor, ((0.0 if c is None else 1.0) if beta is None else float(beta))


def _array(scale: Any) -> Any:
    """A scale that is an array; None where it is a number, or there is none."""
    return None if isinstance(scale, int | float) else scale


def _number(x: Any) -> float:
    """A scale that is a number; 1 where it is an array, or there is none."""
    return float(x) if isinstance(x, int | float) else 1.0


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
