"""What epilogues of whole tiles give, by NumPy: gated products, Philox's masks."""

from __future__ import annotations

import math

import numpy as np

_erf = np.vectorize(math.erf, otypes=[float])
GATES = {
    "swiglu": lambda x: x / (1 + np.exp(-x)),
    "geglu": lambda x: 0.5 * x * (1 + _erf(x / 2**0.5)),
    "geglu_tanh": lambda x: 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))),
    "reglu": lambda x: np.maximum(x, 0),
}


def gated_of(a, b, gate, bias=0.0):
    sums = a.astype(np.float64) @ b.astype(np.float64) + bias
    n = sums.shape[-1] // 2
    return GATES[gate](sums[..., :n]) * sums[..., n:]


def philox_of(counter, key):
    """Four u32 of a counter of four and a key of two: Philox4x32-10."""
    a, b, c, d = (np.asarray(x, np.uint64) for x in counter)
    low, high, mask = *key, np.uint64(0xFFFFFFFF)
    for _ in range(10):
        first, second = a * np.uint64(0xD2511F53), c * np.uint64(0xCD9E8D57)
        a, b, c, d = (
            second >> np.uint64(32) ^ b ^ np.uint64(low), second & mask,
            first >> np.uint64(32) ^ d ^ np.uint64(high), first & mask,
        )  # fmt: skip
        low, high = (low + 0x9E3779B9) & 0xFFFFFFFF, (high + 0xBB67AE85) & 0xFFFFFFFF
    return [a, b, c, d]


def kept_of(seed, m, n, p, batch=0):
    """Dropout's mask of a result of m x n."""
    row, col = np.indices((m, n))
    key = seed & 0xFFFFFFFF, seed >> 32 & 0xFFFFFFFF
    words = philox_of((col // 2, row // 16 * 8 + row % 8, np.full_like(row, batch), np.zeros_like(row)), key)
    return np.choose(row // 8 % 2 * 2 + col % 2, words) >= round(p * 2**32)
