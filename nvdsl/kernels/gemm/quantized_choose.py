"""Which kernel computes a product with quantized weights, and how: by the rows of x and the size of the weight."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import nvdsl as nv
from nvdsl.errors import ArgumentError
from nvdsl.hopper import arch
from nvdsl.kernels.blocks.dequantize import BITS
from nvdsl.kernels.gemm.launch import resident_clusters
from nvdsl.kernels.gemm.quantized import QuantizedConfig
from nvdsl.kernels.gemm.quantized_few import FewRowsConfig
from nvdsl.kernels.gemm.quantized_operands import SLICE
from nvdsl.kernels.gemm.quantized_weight import QuantizedWeight

Chosen = QuantizedConfig | FewRowsConfig

FEW = 32
"""Rows up to which mma.sync takes no longer than the weights do."""
BEGIN, EXCHANGE = 4, 2
"""Slices in the time of which a block begins, and of which a cluster adds up."""
MOST_STAGES = 8
"""Slots of the ring."""


def choose(rows: int, weight: QuantizedWeight, scale_bytes: int, sms: int = arch.SMS) -> Chosen:
    """The configuration that reads the weights in the fewest rounds of slices, over all SMs."""
    K, N = weight.shape
    slices = nv.cdiv(K, SLICE)

    def cost(config: Chosen) -> tuple[float, int]:
        clusters = nv.cdiv(N, config.cols) * nv.cdiv(rows, config.rows)
        at_once = config.blocks_per_sm * resident_clusters(config.split, sms)
        each = nv.cdiv(slices, config.split) + BEGIN + EXCHANGE * (config.split > 1)
        return nv.cdiv(clusters, at_once) * each * config.cols * config.blocks_per_sm, config.split

    made = few(rows) if rows <= FEW else many(rows, weight.group)
    found = [_with_stages(x, weight, scale_bytes) for x in made if x.split <= slices]
    return min(found, key=cost)


def few(rows: int) -> Iterator[FewRowsConfig]:
    """Configurations of few rows."""
    tile = next(tile for tile in (8, 16, 32) if rows <= tile)
    for columns, teams, together in ((64, 4, 2), (64, 8, 1), (128, 2, 2), (128, 4, 1), (256, 2, 1)):
        for split in (1, 2, 4, 8):
            shared = max(teams // 2, 1) if tile > 16 else teams  # of 32 columns a warp
            yield FewRowsConfig(tile, columns, shared, shared, split, together)


def many(rows: int, group: int) -> Iterator[QuantizedConfig]:
    """Configurations of more rows than that."""
    tile = 64 if rows <= 64 or group <= 32 else 128
    for warpgroups in (2, 4) if tile == 64 else (2,):
        for split in (1, 2, 4, 8):
            yield QuantizedConfig(tile, warpgroups, 2, split)


def _with_stages(config: Chosen, weight: QuantizedWeight, scale_bytes: int) -> Chosen:
    """With as many slots as there is shared memory for."""
    memory = arch.MAX_SMEM_PER_BLOCK
    if config.blocks_per_sm > 1:
        memory = arch.SMEM_PER_SM // config.blocks_per_sm - arch.RESERVED_SMEM_PER_BLOCK
    step = config.teams if isinstance(config, FewRowsConfig) else 1
    numbers = range(step, max(2 * step, MOST_STAGES) + 1, step)
    fits = [n for n in numbers if _smem(replace(config, stages=n), weight, scale_bytes) <= memory]
    return replace(config, stages=max(fits, default=step))


def _smem(config: Chosen, weight: QuantizedWeight, scale_bytes: int) -> int:
    return config.smem_bytes(BITS[weight.kind], weight.group, scale_bytes, weight.zeros is not None)


def check(config: Any, weight: QuantizedWeight, scale_bytes: int) -> None:
    """Raise ArgumentError for a configuration that cannot run."""
    if not isinstance(config, QuantizedConfig | FewRowsConfig):
        raise ArgumentError(
            f"config={config!r}", rule="it is a QuantizedConfig or a FewRowsConfig", fix="leave it out"
        )
    reasons = config.problems()
    used = _smem(config, weight, scale_bytes)
    if used > arch.MAX_SMEM_PER_BLOCK:
        reasons.append(f"{used:,} bytes of shared memory of {arch.MAX_SMEM_PER_BLOCK:,}")
    if reasons:
        raise ArgumentError(f"{config}: " + "; ".join(reasons), fix="leave it out: the best known one is taken")
