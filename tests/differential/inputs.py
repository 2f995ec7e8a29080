"""Numbers to compute with: the corners of each type, and random ones, as a function of a seed."""

from __future__ import annotations

import ml_dtypes
import numpy as np

from tests.differential.case import dtype

STYLES = ("integers", "normal", "bits", "corners")
"""Of `matrix`: small whole numbers; standard normal; every exponent, subnormals too (no infinity, no NaN); standard
normal with a few corners of the type among them."""

_FLOATS = [
    0.0, -0.0, 1.0, -1.0, 0.5, 1.5, -1.5, 2.5, -2.5, 3.5, 1 / 3, -0.1, np.inf, -np.inf, np.nan, 1e-45, -3e-42, 1e-38,
    6e-8, -5.9e-5, 6.1e-5, 127.5, -128.5, 255.5, 256.0, 448.0, 464.0, 480.0, 57344.0, 61440.0, 65504.0, 65519.0,
    65520.0, -65536.0, 2049.0, 2**31 - 128.0, 2.0**31, -(2.0**31), 2.0**32, 2.0**63, -(2.0**63), 2.0**64, 3.4e38,
    -3.4e38, 1e300, 16777217.0, 1.0009765625, 1.00048828125, 1.001953125, 0.99951171875, 1.0078125, 1.00390625,
    1e-320,
]  # fmt: skip
_INTS = [0, 1, -1, 2, 3, 5, -7, 31, 63, 64, 127, 128, -128, -129, 255, 256, 2049, 32767, -32768, 65535, 65536,
         2**24 + 1, 2**31 - 1, -(2**31), 2**31, 2**32 - 1, 2**53 + 1, 2**63 - 1, -(2**63), 2**64 - 1]  # fmt: skip


def corners(name: str) -> np.ndarray:
    """The numbers at which an operation on this type may go wrong."""
    t = dtype(name)
    if name == "bool_":
        return np.array([False, True])
    if t.is_float:
        with np.errstate(over="ignore"):
            wide = np.array(_FLOATS)
            return (wide if name == "f64" else wide.astype(np.float32)).astype(t.numpy)
    info = np.iinfo(t.numpy)
    return np.array([x for x in _INTS if info.min <= x <= info.max] + [info.min, info.min + 1, info.max], t.numpy)


def mixed(name: str, count: int, seed: int) -> np.ndarray:
    """``count`` elements: corners, random bits, and numbers of moderate size, shuffled."""
    generator, t = np.random.default_rng(seed), dtype(name)
    if name == "bool_":
        return generator.integers(0, 2, count).astype(np.bool_)
    bits = generator.integers(0, 256, (count, t.bytes), np.uint8).view(t.numpy).reshape(-1)
    small = (generator.standard_normal(count) * 8).astype(np.float32)
    small = np.abs(small) if t.is_unsigned else small
    pool = np.concatenate([generator.permutation(corners(name)), bits, small.astype(t.numpy)])
    picked = generator.integers(0, len(pool), count)
    fixed = min(count, len(corners(name)))
    picked[:fixed] = np.arange(fixed)
    return generator.permutation(pool[picked])


def finite(x: np.ndarray) -> np.ndarray:
    return np.where(np.isfinite(x), x, np.array(1, x.dtype))


def matrix(name: str, shape: tuple[int, ...], seed: int, style: str) -> np.ndarray:
    """An operand of a matrix product; see `STYLES`."""
    generator, t = np.random.default_rng(seed), dtype(name)
    if not t.is_float:
        info = np.iinfo(t.numpy)
        return generator.integers(info.min, info.max, shape, t.numpy, endpoint=True)
    if style == "integers":
        return generator.integers(-4, 5, shape).astype(np.float32).astype(t.numpy)
    if style == "normal":
        return generator.standard_normal(shape).astype(np.float32).astype(t.numpy)
    if style == "corners":
        rare = generator.random(shape) < 1 / 64
        return np.where(rare, generator.choice(corners(name), shape), matrix(name, shape, seed, "normal"))
    raw = generator.integers(0, 256, (*shape, t.bytes), np.uint8).view(t.numpy).reshape(shape)
    if t.bytes == 4:  # of an f32's exponents only the middle: their products would all overflow
        raw = (raw.view(np.uint32) & np.uint32(0x87FFFFFF) | np.uint32(0x38000000)).view(np.float32)
    if name == "bf16":
        raw = (raw.view(np.uint16) & np.uint16(0x87FF) | np.uint16(0x3800)).view(ml_dtypes.bfloat16)
    return finite(raw)
