"""Which configuration: a short list, and a model of the time that each takes. Measured answers win over it.

The model counts clocks of one SM. A slice of K has 128 bytes whatever the type, and its product takes
``tile_m * tile_n / 32`` clocks at the tensor cores' peak (4096 f16 operations a clock; half as many tf32, twice as
many of 8 bits).
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import nvdsl as nv
from nvdsl import Space
from nvdsl.kernels import tensor
from nvdsl.kernels.config import Config
from nvdsl.kernels.gemm import resident_clusters

EFFICIENCY: dict[Config, float] = {
    Config(128, 256, group=16): 1.0,
    Config(128, 256, group=12): 1.0,
    Config(256, 128, group=8): 0.985,
    Config(128, 192, stages=5, schedule="pingpong", group=12, store_buffers=1): 1.02,
    Config(192, 128, schedule="pingpong", group=8): 1.01,
    Config(128, 128, stages=6, schedule="pingpong", group=16): 0.97,
    Config(128, 160, schedule="pingpong", group=12): 0.96,
    Config(128, 176, schedule="pingpong", group=12): 0.97,
    Config(256, 192, stages=3, group=8): 1.0,
    Config(128, 192, group=12): 0.99,
    Config(128, 224, group=16): 0.96,
    Config(256, 112, group=8, store_buffers=1): 0.93,
    Config(128, 160, group=12): 0.95,
    Config(128, 128, stages=6, group=16): 0.95,
    Config(128, 64, stages=8, store_buffers=1): 0.75,
    Config(64, 256, consumers=1, store_buffers=4): 0.85,
    Config(64, 128, stages=8, consumers=1): 0.8,
    Config(64, 64, stages=12, consumers=1): 0.6,
    Config(64, 32, stages=16, consumers=1): 0.35,
    Config(128, 32, stages=10): 0.45,
    Config(128, 16, stages=10): 0.25,
    Config(128, 128, stages=6, schedule="streamk", group=16): 0.93,
    Config(64, 128, stages=8, schedule="streamk"): 0.7,
    Config(64, 64, stages=12, schedule="streamk"): 0.5,
}
"""The configurations, and the share of the peak that their main loops reach when they are alone."""


def fitting(dtype: nv.DType, out_dtype: nv.DType, acc_dtype: nv.DType) -> list[Config]:
    """The configurations that these types can run."""
    return [c for c in EFFICIENCY if not replace(c, tile_k=128 // dtype.bytes).problems(dtype, out_dtype, acc_dtype)]


LATENCY = 1500.0
"""Clocks from a block's start to its first product, and from its last one to its end."""
STORE = 1 / 24
"""Clocks that a byte of the result takes on its way out."""
BANDWIDTH = 2600.0
"""Bytes a clock of all SMs from memory (4.6 TB/s at 1.75 GHz)."""
SM_BANDWIDTH = 52.0
"""Bytes a clock that one SM loads at most."""
HANDOVER = 3000.0
"""Clocks that a stream-K block waits for others' sums."""


def clocks(config: Config, batches: int, m: int, n: int, k: int, dtype: nv.DType, out: nv.DType, sms: int) -> float:
    """What the model says."""
    tiles = batches * nv.cdiv(m, config.tile_m * config.cluster_m) * nv.cdiv(n, config.tile_n * config.cluster_n)
    steps = nv.cdiv(k, 128 // dtype.bytes)
    blocks = config.cluster * min(tiles, resident_clusters(config.cluster, sms))
    if config.schedule == "streamk":
        blocks = min(sms, tiles * steps)
    multiply = config.tile_m * config.tile_n / 32 / EFFICIENCY[config]
    load = (config.tile_m + config.tile_n) * 128 / min(SM_BANDWIDTH, 4 * BANDWIDTH / blocks)
    step = max(multiply, load)
    store = config.tile_m * config.tile_n * out.bytes * STORE
    rounds = nv.cdiv(tiles * config.cluster, blocks)
    if config.schedule == "streamk":
        each = nv.cdiv(tiles * steps, blocks)
        time = each * step + store + (HANDOVER if tiles % blocks else 0.0)
    elif config.schedule == "pingpong":
        time = rounds * steps * step + store
    else:
        time = rounds * (steps * step + store)
    memory = batches * ((m + n) * k * dtype.bytes + m * n * out.bytes) / BANDWIDTH
    return LATENCY + max(time, memory) + min(time, memory) / 10  # they overlap, not quite


def heuristic(a: Any, out: Any, a_major: str, acc_dtype: nv.DType, sms: int) -> dict[str, Any]:
    """The configuration that the model finds fastest."""
    *batches, m, n = out.shape
    k = a.shape[-1 if a_major == "k" else -2]
    problem = math.prod(batches), m, n, k, a.dtype, out.dtype, sms
    return {"config": min(fitting(a.dtype, out.dtype, acc_dtype), key=lambda config: clocks(config, *problem))}


def shape_class(a: Any, out: Any, a_major: str) -> list[int]:
    """Batches, M, N, K, rounded so that all of a class have as many tiles: M and N to whole tiles of 128 where there is
    more than one, powers of two below; K to the nearest power of two."""
    *batches, m, n = out.shape
    k = a.shape[-1 if a_major == "k" else -2]
    tiles = lambda x: 128 * nv.cdiv(x, 128) if x > 64 else 1 << (x - 1).bit_length()  # noqa: E731
    return [math.prod(batches), tiles(m), tiles(n), 1 << round(math.log2(k))]


SPACE = Space(config=list(EFFICIENCY)).where(
    lambda config, a, out, acc_dtype: config in fitting(a.dtype, out.dtype, acc_dtype), "the types fit into the SM"
)

product = nv.autotune(SPACE, heuristic=heuristic, shape_class=shape_class, table="matmul")(nv.jit(tensor.product))
"""`nvdsl.kernels.tensor.product` with the best known configuration."""
