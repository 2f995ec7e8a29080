"""Which configuration, where nobody says and nothing was tuned: a model of one line, and a list of candidates.

A kernel's time is that of its fullest SM: the rounds of tiles that it gets, each as long as K, and an epilogue for
each (cooperative) or for the last (ping-pong, whose other ones cost no time):

    time ~ rounds * tile * K / rate  +  epilogues * tile * EPILOGUE        rounds = ceil(tiles / SMs)

``rate`` says how fast a tile's shape runs once all SMs are busy. It was fitted to squares of 1024 to 16384, step 256,
of f16 on an H200; what it chooses was within 0.5 % of the best candidate there, in the geometric mean.
"""

from __future__ import annotations

import functools
from dataclasses import replace

import nvdsl as nv
from nvdsl import arch
from nvdsl.kernels.config import Config
from nvdsl.kernels.schedule import Tiles

EPILOGUE = 28.7
"""Time of an epilogue in slices of one element of K."""

CANDIDATES = (
    (1.011, Config(128, 192, schedule="pingpong", stages=5, group=12, store_buffers=1)),
    (1.010, Config(192, 128, schedule="pingpong", group=8)),
    (1.002, Config(128, 256, group=12)),
    (1.000, Config(256, 192, stages=3, group=8)),
    (0.999, Config(192, 192, stages=3, consumers=3, group=10)),
    (0.985, Config(256, 128, group=8)),
    (0.980, Config(128, 176, schedule="pingpong", group=12)),
    (0.960, Config(128, 224, group=16)),
    (0.950, Config(128, 128, schedule="pingpong", stages=6, group=16)),
    (0.950, Config(128, 160, schedule="pingpong", group=12)),
    (0.950, Config(128, 160, group=12)),
    (0.950, Config(128, 128, stages=6, group=16)),
    (0.930, Config(256, 112, group=8, store_buffers=1)),
    (0.850, Config(64, 256, consumers=1, store_buffers=4)),
    (0.821, Config(64, 128, stages=8, consumers=1)),
    (0.750, Config(128, 64, stages=8, store_buffers=1)),
)
"""(rate, configuration) for types of 16 bits."""


def seconds(m: int, n: int, k: int, config: Config, rate: float, sms: int = arch.SMS) -> float:
    """The model's time, in a unit of its own."""
    tiles = Tiles(m, n, config.tile_m, config.tile_n, config.cluster_m, config.cluster_n)
    rounds = nv.cdiv(tiles.count, sms // config.cluster)
    epilogues = rounds if config.schedule == "cooperative" else 1
    return config.tile_m * config.tile_n * (rounds * k / rate + epilogues * EPILOGUE)


@functools.cache
def choose(
    m: int, n: int, k: int, dtype: nv.DType = nv.f16, out: nv.DType = nv.f16, acc: nv.DType = nv.f32,
    *, sms: int = arch.SMS,
) -> Config:  # fmt: skip
    """The candidate of the least time for an (m, k) by (k, n) product, among those that can run these types."""
    possible = []
    for rate, config in CANDIDATES:
        fitted = fit(config, dtype)
        if not fitted.problems(dtype, out, acc):
            possible.append((seconds(m, n, k, config, rate, sms), fitted))
    return min(possible, key=lambda found: found[0])[1]


def fit(config: Config, dtype: nv.DType) -> Config:
    """The same tile with slices of 128 bytes of ``dtype``."""
    return replace(config, tile_k=128 // dtype.bytes)
