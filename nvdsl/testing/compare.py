"""How far a kernel's result may be from the reference."""

from __future__ import annotations

import ml_dtypes
import numpy as np

from nvdsl.testing.reference import FP8, NUMPY, DTypeLike, dtype_name, rounded

# Error per k-element of an accumulator, relative to the size of the result. f32: each wgmma (8 to 32 of k)
# truncates at about 2**-23. fp8: the sum inside has 13 bits of mantissa. f16: one rounding per wgmma.
_ERROR_PER_K = {"f32": 2.0**-24, "fp8": 2.0**-18, "f16": 2.0**-15}


def tolerance(out: DTypeLike, dtype: DTypeLike, k: int, *, acc: DTypeLike = "f32") -> tuple[float, float]:
    """(relative, summation): the bounds of `assert_close` for operands of `dtype`, sums over `k` in an
    accumulator of type `acc`, and results stored as `out`.

    `relative` is two roundings to `out`; `summation` is what `k` additions may add. A result may differ
    from the exact one by ``relative`` of itself plus ``4 * summation`` of the root mean square of all
    results; the norm of all errors may be ``relative + summation`` of the norm of the result.
    """
    per_k = _ERROR_PER_K["fp8" if dtype_name(dtype) in FP8 and dtype_name(acc) == "f32" else dtype_name(acc)]
    relative = float(ml_dtypes.finfo(NUMPY[dtype_name(out)]).eps)
    return relative, (k + 256) * per_k  # 256: with few terms, single products are large beside the sum


def assert_close(
    actual: np.ndarray, expected: np.ndarray, dtype: DTypeLike, k: int, *, acc: DTypeLike = "f32", exact: bool = False
) -> None:
    """Fail unless `actual` is `expected` up to what the hardware's arithmetic may differ (`tolerance`).

    `dtype` is the operands' type, `k` the number of products in each sum. Checked are the norm of the
    error over the whole array and every element. Integer results must be equal; with ``exact`` floats must
    equal `expected` rounded to their type. NaN and infinity never pass, and neither does an empty array.
    Raises AssertionError that shows the first bad elements.
    """
    actual, expected = np.asarray(actual), np.asarray(expected)
    if actual.shape != expected.shape or actual.size == 0:
        raise AssertionError(f"shapes: actual {actual.shape}, expected {expected.shape} (and not empty)")
    integer = actual.dtype.kind in "iub"
    relative, summation = (0.0, 0.0) if exact or integer else tolerance(actual.dtype, dtype, k, acc=acc)
    got = actual.astype(np.float64)
    want = (rounded(expected, actual.dtype) if exact and not integer else expected).astype(np.float64)
    with np.errstate(invalid="ignore", over="ignore"):
        error = np.abs(got - want)
        limit = relative * np.abs(want) + 4 * summation * np.sqrt(np.mean(want**2))
        norm = float(np.linalg.norm(error) / (np.linalg.norm(want) or 1.0))
        bad = ~(np.isfinite(got) & np.isfinite(want) & (error <= limit))
    if bad.any() or not norm <= relative + summation:
        raise AssertionError(_difference(actual, want, error, limit, bad, norm, relative + summation))


def _difference(
    actual: np.ndarray,
    want: np.ndarray,
    error: np.ndarray,
    limit: np.ndarray,
    bad: np.ndarray,
    norm: float,
    norm_limit: float,
) -> str:
    lines = [
        f"{bad.sum()} of {bad.size} elements differ (max abs {error.max():.3g}); "
        f"norm of the error {norm:.3g} of the result's (limit {norm_limit:.3g})"
    ]
    places = np.argwhere(bad if bad.any() else error == error.max())
    for place in places[:5]:
        at = tuple(int(i) for i in place)
        lines.append(
            f"  {list(at)}: actual {actual[at]}, expected {want[at]:.9g} "
            f"(differs by {error[at]:.3g}, limit {limit[at]:.3g})"
        )
    if len(places) > 5:
        lines.append(f"  ... and {len(places) - 5} more, the last at {places[-1].tolist()}")
    return "\n".join(lines)
