"""Small products whose sums are exact in every type, and a configuration of each schedule."""

from __future__ import annotations

import numpy as np

from nvdsl.kernels import Config

SMALL = Config(64, 64, stages=2, consumers=1)
CONFIGS = [
    SMALL,
    Config(64, 64, stages=3, schedule="pingpong"),
    Config(64, 64, stages=3, schedule="streamk"),
    Config(64, 64, stages=2, schedule="splitk", split=2, consumers=1, store_buffers=1),
]


def made(*shape, dtype=np.float16, seed=0):
    return np.random.default_rng([seed, *shape]).integers(-3, 4, shape).astype(dtype)


def product(a, b):
    return np.matmul(a.astype(np.float32), b.astype(np.float32))
