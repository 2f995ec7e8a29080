"""``grouped_matmul``: products of groups of rows, each with a matrix of its own, whose sizes only the device knows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np

from nvdsl.call.launches import Launches
from nvdsl.driver.stream import Stream
from nvdsl.errors import ArgumentError, NvdslError
from nvdsl.errors.tracebacks import for_user
from nvdsl.kernels.arraylike import ArrayLike
from nvdsl.kernels.blocks.linear_combination import LinearCombination
from nvdsl.kernels.gemm import grouped_gated
from nvdsl.kernels.gemm import options as given
from nvdsl.kernels.gemm.arguments import matrix
from nvdsl.kernels.gemm.bound_kernel import BoundKernel
from nvdsl.kernels.gemm.config import Config
from nvdsl.kernels.gemm.grouped_dispatch import find_grouped
from nvdsl.kernels.gemm.matmul import ProductCall
from nvdsl.trace import decorated
from nvdsl.trace.tokens import token

A = TypeVar("A", bound=ArrayLike)

_launches = Launches()


def grouped_matmul(
    a: A,
    b: ArrayLike,
    out: ArrayLike | None = None,
    *,
    offsets: ArrayLike,
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
    """Products of groups, as the layers of a mixture of experts have them; returns ``out``.

    Groups of rows: ``a`` is (M, K), ``b`` (groups, K, N), ``out`` (M, N). Group ``g`` has the rows from
    ``offsets[g - 1]`` (0 for the first group) to ``offsets[g] - 1``, which are multiplied by ``b[g]``. Rows of ``out``
    behind the last group become zero.

    Groups along K: ``a`` is (M, K), ``b`` (K, N), ``out`` (groups, M, N). ``out[g]`` is the product of that part of K
    that the group has: the gradient of its weights is ``grouped_matmul(x.T, dy, offsets=offsets)``. What lies behind
    the last group is not read into any result. An empty group gives zeros.

    ``offsets``: (groups,), i32 or i64, what each group ends with: the cumulative sum of the groups' sizes, as
    `torch._grouped_mm` has it. The kernel reads them on the device. They don't decrease and are at most M (or K); those
    of a host array are checked, others are clamped to it.

    8-bit floats in groups of rows may have scales of blocks of 128 along K, as in `nvdsl.matmul`: ``scale_a`` of
    (M, ceil(K / 128)) and ``scale_b`` of (groups, ceil(K / 128), ceil(N / 128)).

    Gated products (``activation="swiglu"`` and the others of `nvdsl.matmul`) are for groups of rows: ``b`` is
    (groups, K, 2 N) then, the gate's columns and as many others, ``out`` (M, N), ``bias`` (2 N,) or (groups, 2 N).

    Types, strides, ``alpha``, ``c``, ``beta``, ``activation``, ``acc_dtype``, ``out_dtype`` and ``config`` are as in
    `nvdsl.matmul`; but there is no f64, and groups along K take f16 and bf16 only. ``c`` and ``scale_a`` broadcast to
    (M, N) and (M, 1), ``bias`` and ``scale_b`` are (N,), or (groups, N) for a row of each group; ``c`` is not ``out``
    then. Along K all of them broadcast as in a batch, and ``c`` may be ``out``. Configurations are cooperative or
    ping-pong ones.

    Raises ArgumentError for arguments that don't fit together.
    """
    try:
        scales = given.array(scale_a), given.array(scale_b)
        arrays = (a, b, out, offsets, c, bias, *scales)
        factor, added = given.numbers(a, alpha, beta, c, scale_a, scale_b)
        numbers = () if factor == 1.0 and added == 0.0 else (factor, added)
        rest = numbers and (factor != 1.0, added != 0.0), token(activation), acc_dtype, out_dtype, token(config), target
        made = _launches.launch(arrays, rest, stream, numbers)
        if made is not None:
            return made if out is None else out  # type: ignore[return-value]
        decorated.no_call("grouped_matmul")
        operands = a, b, out, c, alpha, beta, bias, activation, scale_a, scale_b
        call = _GroupedCall(*operands, acc_dtype, out_dtype, config, target, offsets=offsets)
        call.check_offsets()
        result, launch = call.run(stream)
        if launch is not None:
            _launches.keep(arrays, rest, launch)
        return result
    except NvdslError as error:
        raise for_user(error) from error.__cause__


class _GroupedCall(ProductCall):
    """One call: its arguments as arrays and numbers, and the kernel that computes it."""

    positions = {
        name: i for i, name in enumerate(("a", "b", "out", "offsets", "c", "bias", "scale_a", "scale_b"))
    } | {"alpha": -2, "beta": -1}

    def find(self, activation: Any, acc_dtype: Any, out_dtype: Any, config: Config | None) -> BoundKernel:
        parts = {name: name in self.arguments for name in ("scale_a", "scale_b", "c", "bias")}
        finish = LinearCombination(self.alpha != 1.0, **parts, activation=activation)
        matrices = {name: matrix(argument) for name, argument in self.arguments.items()}
        if isinstance(activation, str):
            return grouped_gated.find(matrices, activation, finish.alpha, acc_dtype, out_dtype, config, self.target)
        return find_grouped(matrices, finish, acc_dtype, out_dtype, config, self.target)

    @property
    def in_place(self) -> Sequence[str]:
        """A tile at the end of a group reads the next group's rows of c, which another block may be writing."""
        return ("c",) if len(self.arguments["b"].spec.shape) == 2 else ()

    def check_offsets(self) -> None:
        """Raises ArgumentError where offsets of the host are none."""
        ends, a = self.arguments["offsets"].host, self.arguments["a"].spec
        if ends is None or not ends.size:
            return
        most = a.shape[1 if len(self.arguments["b"].spec.shape) == 2 else 0]
        steps = np.diff(ends, prepend=0)
        if steps.min() < 0 or ends[-1] > most:
            at = int(np.argmax(steps < 0)) if steps.min() < 0 else len(ends) - 1
            raise ArgumentError(
                f"offsets[{at}] = {ends[at]}" + (f" after {ends[at - 1]}" if at and steps.min() < 0 else ""),
                rule=f"offsets don't decrease, and are 0 to {most}, the extent that the groups share",
                fix="offsets = counts.cumsum(0)",
            )
