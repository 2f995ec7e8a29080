"""``nv.mlp``: the arrays of a call, as the kernel takes them."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import nvdsl as nv
from nvdsl.driver.stream import Stream
from nvdsl.errors import ArgumentError
from nvdsl.errors.records import dataclass
from nvdsl.errors.tracebacks import at_call
from nvdsl.kernels.arguments import Argument
from nvdsl.kernels.arraylike import ArrayLike
from nvdsl.kernels.blocks.contiguous import is_turned
from nvdsl.kernels.gemm import options
from nvdsl.kernels.gemm.arguments import matrix
from nvdsl.kernels.gemm.launch import sms
from nvdsl.kernels.mlp import forward
from nvdsl.kernels.mlp.config import MOST_LAYERS, WIDTHS, choose
from nvdsl.kernels.repeated import Repeated
from nvdsl.trace import decorated
from nvdsl.trace.tokens import token

A = TypeVar("A", bound=ArrayLike)
Arrays = ArrayLike | Sequence[ArrayLike]


@at_call
def mlp(
    x: A,
    weights: Arrays,
    biases: ArrayLike | Sequence[ArrayLike | None] | None = None,
    out: ArrayLike | None = None,
    *,
    activation: str | Callable[[Any], Any] | None = "relu",
    output_activation: str | Callable[[Any], Any] | None = None,
    stream: Stream | None = None,
    target: str | None = None,
) -> A:
    """Up to 32 fully connected layers of one width, in one kernel; returns ``out``.

    Each layer is ``activation(x @ weight.T + bias)``, the last one ``output_activation(x @ weight.T + bias)``, where
    None leaves the sums as they are. ``x`` is (..., width), f16 or bf16, with any number of rows, and a width of 64,
    128 or 256.

    ``weights`` are of the type of ``x``, and (out, in) as `torch.nn.Linear` has them: an array (layers, width, width),
    or a sequence with an array (width, width) for each layer. ``biases`` are f16, bf16 or f32: an array (layers,
    width), or a sequence with an array (width,) or None for each layer. Weights that are stored (in, out) are passed
    transposed, which costs nothing.

    Activations are those of `matmul`. Sums, biases and activations are computed in f32. Between layers, values are
    rounded to the type of ``x``. ``out`` has the shape and the type of ``x``, and may be ``x`` itself; None makes a new
    array. Arrays that TMA can't read or write are copied first, on the device.

    Raises ArgumentError for arrays that don't fit.
    """
    calls = _repeated(_count(weights), _count(biases))
    arrays = x, out, *_several(weights), *_several(biases)
    rest = token(activation), token(output_activation), target
    found = calls.again(arrays, rest, stream)
    if found is not None:
        return found
    decorated.no_call("mlp")
    inner, last = options.activation(activation), options.activation(output_activation, "output_activation")
    source = Argument.of("x", x)
    shape, dtype = source.spec.shape, source.spec.dtype
    if dtype not in (nv.f16, nv.bf16):
        raise ArgumentError(f"x is of {dtype.name}", rule="x and the weights are f16 or bf16", fix="convert them")
    width = shape[-1] if shape else 0
    if width not in WIDTHS:
        raise ArgumentError(
            f"x has the shape {shape}",
            rule=f"its last axis is the width of all layers, one of {', '.join(map(str, WIDTHS))}",
            fix='a layer of another size is one call: nv.matmul(x, weight.T, bias=bias, activation="relu")',
        )
    layers = _weights(weights, width, dtype)
    count = layers[0].spec.shape[0] if layers[0].spec.shape[2:] else len(layers)
    added = _biases(biases, count, width)
    into = Argument.output("out", out, source, shape, dtype)
    if into.spec.dtype != dtype:
        raise ArgumentError(f"out is of {into.spec.dtype.name}", rule=f"it has the type of x, {dtype.name}")
    into.check_apart(source, or_same=True)
    for other in (*layers, *added):
        if other is not None:
            into.check_apart(other)
    rows = math.prod(shape[:-1])
    if rows:
        major, copied = _major(layers)
        (given, turned_x), (written, turned_out) = _as_rows(source, rows), _as_rows(into, rows)
        constants = {
            "config": choose(width, count, rows, sms(target)), "blocks": sms(target), "major": major,
            "weights": len(layers), "activation": inner, "output_activation": last, "copied": copied,
            "turned_x": turned_x, "turned_out": turned_out,
        }  # fmt: skip
        passed: list[_Given | None] = [given, written, *(_weight(one, major) for one in layers)]
        passed += [one if one is None else _Given(one) for one in added]
        apart = [(into, one, one is source) for one in (source, *layers, *added) if one is not None]
        calls.run(forward.mlp, passed, constants, arrays, rest, stream, target, apart)
    return into.result()


@dataclass(frozen=True)
class _Given:
    """An argument, and the shape and the strides with which the kernel sees it."""

    argument: Argument
    shape: tuple[int, ...] | None = None
    strides: tuple[int, ...] | None = None

    def view(self) -> Any:
        return self.argument.view(self.shape, self.strides)


@functools.cache
def _repeated(weights: int | None, biases: int | None) -> Repeated:
    """The repeated calls with so many arrays of either: 0 says one array of all layers, None says none."""
    names = ["x", "out"]
    for name, count in (("weights", weights), ("biases", biases)):
        names += [name] if count == 0 else [f"{name}[{i}]" for i in range(count or 0)]
    return Repeated(" ".join(names), "out")


def _count(arrays: Any) -> int | None:
    return None if arrays is None else len(arrays) if isinstance(arrays, list | tuple) else 0


def _several(arrays: Any) -> list[Any]:
    return [] if arrays is None else list(arrays) if isinstance(arrays, list | tuple) else [arrays]


def _weights(weights: Any, width: int, dtype: nv.DType) -> list[Argument]:
    """One array of all layers, or one for each."""
    stacked = not isinstance(weights, list | tuple)
    given = [Argument.of("weights", weights)] if stacked else [
        Argument.of(f"weights[{i}]", one) for i, one in enumerate(weights)
    ]  # fmt: skip
    for one in given:
        fits = one.spec.shape[stacked:] == (width, width) and len(one.spec.shape) == 2 + stacked
        if not fits or one.spec.dtype != dtype:
            shaped = "" if stacked else "weights=[layer.weight for layer in layers]"
            raise ArgumentError(
                f"{one.name} has the shape {one.spec.shape} and the type {one.spec.dtype.name}",
                rule=f"weights are {dtype.name}, as x is: ({'layers, ' * stacked}{width}, {width}), rows are outputs",
                fix=f"convert it to {dtype.name}" if fits else shaped,
            )
    count = given[0].spec.shape[0] if stacked else len(given)
    if not 1 <= count <= MOST_LAYERS:
        raise ArgumentError(
            f"{count} layers", rule=f"1 to {MOST_LAYERS} layers in one kernel", fix="call it for some after others"
        )
    return given


def _biases(biases: Any, layers: int, width: int) -> list[Argument | None]:
    """None at all, one array of all layers, or one, or None, for each."""
    if biases is None:
        return []
    stacked = not isinstance(biases, list | tuple)
    given: list[Argument | None] = [Argument.of("biases", biases)] if stacked else [
        None if one is None else Argument.of(f"biases[{i}]", one) for i, one in enumerate(biases)
    ]  # fmt: skip
    wanted = (layers, width) if stacked else (width,)
    for one in given:
        if one is not None and (one.spec.shape != wanted or one.spec.dtype not in (nv.f16, nv.bf16, nv.f32)):
            raise ArgumentError(
                f"{one.name} has the shape {one.spec.shape} and the type {one.spec.dtype.name}",
                rule=f"biases are f16, bf16 or f32, of shape {wanted} here",
            )
    if not stacked and len(given) != layers:
        raise ArgumentError(
            f"{len(given)} biases for {layers} layers", rule="one for each layer", fix="None stands for no bias"
        )
    return given


def _major(layers: Sequence[Argument]) -> tuple[str, bool]:
    """Which axis of the weights is contiguous, in wgmma's words, and whether they are copied: TMA can't read them."""
    matrices = [matrix(one) for one in layers]
    for axis, major in ((1, "k"), (0, "mn")):
        if all(one.fits_tma(axis) for one in matrices):
            return major, False
    return "k", True


def _weight(one: Argument, major: str) -> _Given:
    seen = matrix(one) if major == "k" else matrix(one).transposed
    return _Given(one, seen.shape, seen.strides)


def _as_rows(one: Argument, rows: int) -> tuple[_Given, bool | None]:
    """An array as (rows, width). And, where a copy is made as TMA can't read or write it, whether neighbours along its
    columns are nearer."""
    *leading, width = one.spec.shape
    *steps, across = one.spec.strides
    axes = [(n, step) for n, step in zip(leading, steps, strict=True) if n > 1]
    if any(step != n * inner for (_, step), (n, inner) in zip(axes, axes[1:], strict=False)):
        raise ArgumentError(
            f"{one.name} has the shape {one.spec.shape} and the strides {one.spec.strides}",
            rule="rows lie at even distances",
            fix=f"pass a contiguous copy of {one.name}",
        )
    strides = axes[-1][1] if axes else width * across, across
    seen = matrix(one)
    seen = type(seen)(seen.dtype, (rows, width), strides, seen.aligned)
    return _Given(one, seen.shape, seen.strides), None if seen.fits_tma(1) else is_turned(seen.shape, seen.strides)
