"""The arguments of ``matmul`` that are no arrays: numbers, types, the activation, the configuration."""

from __future__ import annotations

import math
import reprlib
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from nvdsl.errors import ArgumentError
from nvdsl.kernels.blocks.linear_combination import ACTIVATIONS
from nvdsl.kernels.gemm.config import Config
from nvdsl.kernels.options import real, takes

MOST = float(np.finfo(np.float32).max)
"""Of what kernels compute with, but for f64's."""
_NUMBERS = (int, float, np.number)
_FACTORS = "pass a float; factors for rows and columns are scale_a, (M, 1), and scale_b, (N,)"


def array(scale: Any) -> Any:
    """A scale that is an array; None where it is a number, or there is none."""
    return None if isinstance(scale, _NUMBERS) else scale


def numbers(a: Any, alpha: Any, beta: Any, c: Any, scale_a: Any, scale_b: Any) -> tuple[float, float]:
    """alpha with the scales that are numbers, and beta with its default.

    Raises ArgumentError for what is no number, and for finite numbers beyond f32 where ``a`` isn't of f64.
    """
    factor = alpha if alpha.__class__ is float else real("alpha", alpha, _FACTORS)
    if not (scale_a is scale_b is None):
        for name, scale in (("scale_a", scale_a), ("scale_b", scale_b)):
            if isinstance(scale, _NUMBERS):
                factor *= real(name, scale, _FACTORS)
    if beta is None:
        added = 0.0 if c is None else 1.0
    else:
        added = beta if beta.__class__ is float else real("beta", beta, _FACTORS)
    if not -MOST <= factor <= MOST or not -MOST <= added <= MOST:
        _check_range(a, factor, added)
    return factor, added


def _check_range(a: Any, factor: float, added: float) -> None:
    if str(getattr(a, "dtype", "")).endswith("float64"):
        return
    for name, x in (("alpha (times the scales that are numbers)", factor), ("beta", added)):
        if math.isfinite(x) and abs(x) > MOST:
            raise ArgumentError(f"{name} = {x}", rule=f"it is an f32: {MOST} at most", fix="scale the operands before")


def config(x: Any) -> Config | None:
    """Raises ArgumentError for what is none."""
    if x is None:
        return None
    if isinstance(x, Config):
        x.check_counts()
        return x
    raise ArgumentError(
        f"config={reprlib.repr(x)}",
        rule="a configuration is a nvdsl.kernels.Config",
        fix="config=Config(128, 256), say; or leave it out: the best known one is taken",
    )


def activation(x: Any, name: str = "activation", gates: Iterable[str] = ()) -> Callable[[Any], Any] | str | None:
    """The function; the name of one of ``gates``. Raises ArgumentError for what is none, or can't be told from others.
    ``name``: of the argument."""
    if isinstance(x, str) and x in ACTIVATIONS:
        return ACTIVATIONS[x]
    if x is None or isinstance(x, str) and x in gates:
        return x
    if callable(x) and _is_hashable(x):
        takes(name, x, ["x"])
        return x
    raise ArgumentError(
        f"{name}={reprlib.repr(x)}",
        rule=f"one of {', '.join([*ACTIVATIONS, *gates])}, or a function of a traced f32 value, hashable",
        fix="choose one of these",
    )


def _is_hashable(x: Any) -> bool:
    try:
        hash(x)
    except TypeError:
        return False
    return True
