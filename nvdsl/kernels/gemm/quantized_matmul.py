"""``quantized_matmul``: a few rows of f16 or bf16, times weights of 4 or 8 bits."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, TypeVar

import nvdsl as nv
from nvdsl import sim
from nvdsl.call.launches import Launches
from nvdsl.driver.array_spec import packed_strides
from nvdsl.driver.stream import Stream
from nvdsl.errors import ArgumentError, NvdslError
from nvdsl.errors.tracebacks import for_user
from nvdsl.kernels.arguments import Argument
from nvdsl.kernels.arraylike import ArrayLike
from nvdsl.kernels.blocks.linear_combination import LinearCombination
from nvdsl.kernels.gemm import options as given
from nvdsl.kernels.gemm import quantized, quantized_few
from nvdsl.kernels.gemm.binding import bind
from nvdsl.kernels.gemm.bound_call import BoundCall
from nvdsl.kernels.gemm.bound_kernel import BoundKernel
from nvdsl.kernels.gemm.launch import sms
from nvdsl.kernels.gemm.problem import GemmProblem, Matrix, fits_tma
from nvdsl.kernels.gemm.quantized import QuantizedConfig
from nvdsl.kernels.gemm.quantized_choose import check, choose
from nvdsl.kernels.gemm.quantized_choose import given as given_config
from nvdsl.kernels.gemm.quantized_few import FewRowsConfig
from nvdsl.kernels.gemm.quantized_weight import QuantizedWeight
from nvdsl.kernels.options import dtype
from nvdsl.trace import decorated
from nvdsl.trace.tokens import Same, token

A = TypeVar("A", bound=ArrayLike)

_launches = Launches()
_bound: dict[Any, BoundKernel] = {}
_MOST = 4096

_ARRAYS = ("a", "out", "data", "scales", "zeros", "bias")
_AXES = {"a": "mk", "data": "tw", "scales": "gc", "zeros": "gc", "out": "mn", "bias": "n"}


def quantized_matmul(
    x: A,
    weight: QuantizedWeight,
    out: ArrayLike | None = None,
    *,
    bias: ArrayLike | None = None,
    activation: str | Callable[[Any], Any] | None = None,
    out_dtype: Any = None,
    config: QuantizedConfig | FewRowsConfig | None = None,
    stream: Stream | None = None,
    target: str | None = None,
) -> A:
    """``activation(x @ weight + bias)``, with weights of 4 or 8 bits; returns ``out``.

    ``x`` is (..., K), f16 or bf16; ``weight`` a `QuantizedWeight` of (K, N), whose arrays lie where ``x`` does. Weights
    become floats in registers: what is read of them are their 4 or 8 bits. That pays for few rows, where reading them
    is all the time.

    Integers less their zero points, and e4m3, are exact in the type of ``x``. Products are summed in f32, and the sums
    of each group scaled in f32. ``out`` is (..., N), of f16, bf16 or f32, by default of the type of ``x``. ``bias`` is
    (N,), ``activation`` as in `nvdsl.matmul`. ``config`` None takes what a model says is best.

    Raises ArgumentError for arguments that don't fit.
    """
    try:
        if not isinstance(weight, QuantizedWeight):
            raise ArgumentError(
                f"weight is a {type(weight).__qualname__}",
                rule="quantized_matmul takes an nv.QuantizedWeight",
                fix="nv.QuantizedWeight.quantize(w), or .pack(values, scales); nv.matmul takes arrays",
            )
        arrays = x, out, weight.data, weight.scales, weight.zeros, bias
        rest = weight.kind, weight.shape, weight.group, token(activation), out_dtype, token(config), target
        made = _launches.launch(arrays, rest, stream)
        if made is not None:
            return made if out is None else out  # type: ignore[return-value]
        decorated.no_call("quantized_matmul")
        result, launch = _QuantizedCall(x, weight, out, bias, activation, out_dtype, config, target).run(stream)
        if launch is not None:
            _launches.keep(arrays, rest, launch)
        return result
    except NvdslError as error:
        raise for_user(error) from error.__cause__


class _QuantizedCall(BoundCall):
    """One call: its arguments as arrays, and the kernel that computes it."""

    positions = {name: i for i, name in enumerate(_ARRAYS)}

    def __init__(
        self, x: Any, weight: QuantizedWeight, out: Any, bias: Any, activation: Any, out_dtype: Any, config: Any,
        target: str | None,
    ) -> None:  # fmt: skip
        self.out, self.target = out, target
        arrays = {"a": x, "out": out, "data": weight.data, "scales": weight.scales, "zeros": weight.zeros, "bias": bias}
        self.arguments = {
            name: Argument.of("x" if name == "a" else name, array, written=name == "out")
            for name, array in arrays.items()
            if array is not None or name == "a"
        }
        activation, config = given.activation(activation), given_config(config)
        out_dtype = dtype("out_dtype", out_dtype)
        specs = tuple([(name, argument.spec, argument.aligned) for name, argument in self.arguments.items()])
        about = weight.kind, weight.shape, weight.group, Same(activation), token(activation), out_dtype, token(config)
        key = specs, about, sim.wanted(target)
        if key not in _bound:
            if len(_bound) >= _MOST:
                _bound.clear()
            _bound[key] = self._find(weight, activation, out_dtype, config)
        self.bound = _bound[key]

    def _find(self, weight: QuantizedWeight, activation: Any, out_dtype: Any, config: Any) -> BoundKernel:
        K, N = weight.shape
        x = self.arguments["a"].spec
        if x.dtype not in (nv.f16, nv.bf16) or not x.shape or x.shape[-1] != K:
            raise ArgumentError(
                f"x of shape {x.shape}, {x.dtype.name}, for a weight of {weight.shape}",
                rule=f"x is f16 or bf16, and its last axis K, {K}",
                fix="convert x" if x.shape and x.shape[-1] == K else "transpose or reshape it",
            )
        result = (*x.shape[:-1], N)
        if "out" in self.arguments:
            out = self.arguments["out"].spec
            if out.shape != result or out_dtype not in (None, out.dtype):
                raise ArgumentError(
                    f"out of shape {out.shape}, {out.dtype.name}, for a result of {result}",
                    fix="pass one of that shape, and out_dtype or out",
                )
            out_dtype, seen = out.dtype, _rows("out", self.arguments["out"])
        else:
            out_dtype = out_dtype or x.dtype
            rows = math.prod(result[:-1])
            seen = Matrix(out_dtype, (rows, N), packed_strides((rows, N)))
        if out_dtype not in (nv.f16, nv.bf16, nv.f32):
            raise ArgumentError(f"a result of {out_dtype.name}", rule="results are f16, bf16 or f32")
        arrays = {"a": _rows("x", self.arguments["a"])}
        for name in ("data", "scales", "zeros", "bias"):
            if name in self.arguments:
                spec = self.arguments[name].spec
                arrays[name] = Matrix(spec.dtype, spec.shape, spec.strides, self.arguments[name].aligned)
        _check(weight, arrays, N)
        # A kernel's arguments, in its order.
        arrays = {name: arrays.get(name, seen) for name in ("a", "data", "scales", "out", "zeros", "bias")
                  if name in arrays or name == "out"}  # fmt: skip
        problem = GemmProblem(arrays["a"], arrays["data"], seen, (), nv.f32, result)
        if 0 in result:
            return BoundKernel(problem, LinearCombination(), None, {}, (), 0, {}, {})
        zeros, table = "zeros" in arrays, arrays["scales"].dtype
        if config is None:
            config = choose(math.prod(result[:-1]), weight, table.bytes, sms(self.target))
        check(config, weight, table.bytes)
        options = {
            "kind": weight.kind, "group": weight.group, "config": config, "zeros": zeros, "bias": "bias" in arrays,
            "activation": activation, "vectors": fits_tma(seen),
        }  # fmt: skip
        packed = [] if arrays["a"].fits_tma(1) else ["a"]
        function = quantized_few.matmul if isinstance(config, FewRowsConfig) else quantized.matmul
        return bind(problem, LinearCombination(), function, options, arrays, _AXES, packed=packed)


def _check(weight: QuantizedWeight, arrays: dict[str, Matrix], n: int) -> None:
    data, table = weight.packed_shapes
    types = [("data", (nv.i32,)), ("scales", (nv.f16, nv.bf16, nv.f32)), ("zeros", (nv.f16, nv.bf16, nv.f32))]
    for name, allowed in types:
        if name in arrays and arrays[name].dtype not in allowed:
            raise ArgumentError(
                f"{name} of {arrays[name].dtype.name} for {weight}",
                rule=f"it is of {' or '.join(dtype.name for dtype in allowed)}",
                fix="make weights by QuantizedWeight.pack or .quantize",
            )
    want = {"data": data, "scales": table, "zeros": table, "bias": (n,)}
    for name, shape in want.items():
        if name in arrays and (arrays[name].shape != shape or name != "bias" and not arrays[name].fits_tma(1)):
            raise ArgumentError(
                f"{name} of shape {arrays[name].shape} and strides {arrays[name].strides} for {weight}",
                rule=f"it is of shape {shape}"
                + ("" if name == "bias" else ", as the weight was packed: contiguous, from a multiple of 16 bytes on"),
            )


def _rows(name: str, x: Argument) -> Matrix:
    """An array with all axes but the last made one. Raises ArgumentError where they are not at even distances."""
    *leading, cols = x.spec.shape
    *steps, last = x.spec.strides
    axes = [(n, step) for n, step in zip(leading, steps, strict=True) if n > 1]
    if any(step != n * inner for (_, step), (n, inner) in zip(axes, axes[1:], strict=False)):
        raise ArgumentError(
            f"{name} of shape {x.spec.shape} and strides {x.spec.strides}",
            rule="rows lie at even distances",
            fix=f"pass a contiguous copy of {name}",
        )
    return Matrix(x.spec.dtype, (math.prod(leading), cols), (axes[-1][1] if axes else cols, last), x.aligned)
