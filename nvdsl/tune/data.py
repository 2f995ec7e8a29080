"""The data that candidates are checked and timed on: seeded, random, the same in every process.

Zeros, or ones, would make a GPU faster than it is: fewer bits change, less power is drawn. Random normal values do not.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from nvdsl.driver.array_spec import ArraySpec

PERIOD = 4_194_301
"""Elements after which large arrays repeat: a prime, so that no row, column or tile is like another."""


def elements(spec: ArraySpec) -> int:
    """Elements from an array's first to its last in memory."""
    if 0 in spec.shape:
        return 0
    return 1 + sum((n - 1) * s for n, s in zip(spec.shape, spec.strides, strict=True))


def pattern(spec: ArraySpec, seed: int) -> np.ndarray:
    """What fills an array's memory, again and again: floats standard normal, integers of [-2, 2] ([0, 2] unsigned)."""
    from nvdsl.testing.reference import random

    count = max(1, min(elements(spec), PERIOD))
    if spec.dtype.kind == "bool":
        return np.random.default_rng(seed).integers(0, 1, count, endpoint=True).astype(np.bool_)
    return random((count,), spec.dtype, seed, integers=spec.dtype.kind != "float")


def view(flat: np.ndarray, spec: ArraySpec) -> np.ndarray:
    """The array of shape and strides of ``spec`` in its memory, ``flat``."""
    strides = [s * flat.itemsize for s in spec.strides]
    return np.lib.stride_tricks.as_strided(flat, spec.shape, strides)


def host_arrays(specs: Mapping[str, ArraySpec], given: Mapping[str, np.ndarray], seed: int) -> dict[str, np.ndarray]:
    """All arrays in host memory, as the device gets them: for the user's reference."""
    made = {}
    for number, (name, spec) in enumerate(specs.items()):
        flat = given[name] if name in given else np.resize(pattern(spec, seed + number), max(1, elements(spec)))
        made[name] = view(flat, spec)
    return made


def flatten(name: str, array: Any, spec: ArraySpec) -> np.ndarray:
    """The memory of an array that the user gave for an argument: its elements laid out as ``spec`` says.

    Raises ValueError for another shape or dtype."""
    array = np.asarray(array)
    if array.shape != spec.shape or array.dtype != spec.dtype.numpy:
        raise ValueError(f"{name} is {array.dtype} of shape {array.shape}, not {spec}")
    flat = np.zeros(max(1, elements(spec)), array.dtype)
    view(flat, spec)[...] = array
    return flat


def difference(got: np.ndarray, want: np.ndarray, tolerance: float | None) -> str | None:
    """How two results differ, or None where they agree.

    Integers must be equal. Floats may differ by ``tolerance`` of their size and of the root mean square of all; by
    default 4 roundings of their type, but at least 1e-3: sums in another order differ so far. NaN is like NaN.
    """
    if got.tobytes() == want.tobytes():
        return None
    if want.dtype.kind in "iub":
        wrong = got != want
        return f"{np.count_nonzero(wrong)} of {wrong.size} elements differ"
    import ml_dtypes

    bound = max(1e-3, 4 * float(ml_dtypes.finfo(want.dtype).eps)) if tolerance is None else tolerance
    worst, bad = 0.0, 0
    scale = _root_mean_square(want)
    for part in range(0, want.size, 1 << 24):  # float32 copies of all at once would be large
        wide: Any = np.float64 if want.itemsize == 8 else np.float32
        a, b = (x[part : part + (1 << 24)].astype(wide) for x in (got, want))
        with np.errstate(invalid="ignore", over="ignore"):
            error: Any = np.abs(np.subtract(a, b))
            near = np.isfinite(b) & (error <= bound * (np.abs(b) + scale))
            wrong = ~(near | (a == b) | (np.isnan(a) & np.isnan(b)))
        if wrong.any():
            bad += int(np.count_nonzero(wrong))
            worst = max(worst, float(np.nanmax(np.where(wrong, np.nan_to_num(error, nan=np.inf), 0))))
    return f"{bad} of {want.size} elements differ, by up to {worst:.3g}" if bad else None


def _root_mean_square(x: np.ndarray) -> float:
    total, count = 0.0, 0
    for part in range(0, x.size, 1 << 24):
        values = x[part : part + (1 << 24)].astype(np.float64)
        finite = values[np.isfinite(values)]
        total, count = total + float(np.dot(finite, finite)), count + finite.size
    return math.sqrt(total / count) if count else 0.0
