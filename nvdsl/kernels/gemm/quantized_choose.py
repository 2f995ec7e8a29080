"""Which kernel computes a product with quantized weights, and how: by the rows of x and the size of the weight."""

from __future__ import annotations

import itertools
import reprlib
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import nvdsl as nv
from nvdsl.errors import ArgumentError
from nvdsl.hopper import arch
from nvdsl.kernels.blocks.dequantize import BITS
from nvdsl.kernels.gemm.launch import resident_clusters
from nvdsl.kernels.gemm.quantized import HIGH, QuantizedConfig
from nvdsl.kernels.gemm.quantized_few import BAND, FewRowsConfig
from nvdsl.kernels.gemm.quantized_operands import COLUMNS, SLICE, SPLITS
from nvdsl.kernels.gemm.quantized_weight import QuantizedWeight

Chosen = QuantizedConfig | FewRowsConfig

FEW = 16
"""Rows up to which mma.sync takes no longer than the weights do, whatever their number."""
BEGIN, EXCHANGE = 8, 2
"""Slices in the time of which a block begins, and of which each block of a cluster brings its sums."""
TILES = (24, 32, 40, 48, 56, 64, 80, 96, 112, 128)
"""Rows of x that wgmma multiplies at a time. Each is compiled on its own."""
SLOWER = 1.35
"""How much longer mma.sync takes for 32 rows of many columns than wgmma does, on an H200."""
UNAHEAD = 1.5
"""How much longer teams take that have no slot for the slice after the one that they multiply."""
WIDEST, CROWDED = 112, 512
"""Columns of a warp of few rows, at most; and sums of a warp up to which 16 of them have registers enough."""
MOST_STAGES = 8
"""Slots of the ring."""


def choose(rows: int, weight: QuantizedWeight, scale_bytes: int, sms: int = arch.SMS) -> Chosen:
    """The configuration that reads the fewest bytes of slices one after the other, over all SMs."""
    K, N = weight.shape
    slices = nv.cdiv(K, SLICE)

    def cost(config: Chosen) -> tuple[float, ...]:
        clusters = nv.cdiv(N, config.cols) * nv.cdiv(rows, config.rows)
        at_once = resident_clusters(config.split, sms) * _blocks_per_sm(config)
        each = nv.cdiv(slices, config.split) + BEGIN + EXCHANGE * config.split * (config.split > 1)
        factor = 1.0
        if isinstance(config, FewRowsConfig):
            factor = (SLOWER if config.rows > FEW else 1.0) * (1 if config.stages > config.teams else UNAHEAD)
        of_slice = config.cols * SLICE * BITS[weight.kind] // 8 + config.rows * SLICE  # x comes from L2: half its bytes
        return factor * nv.cdiv(clusters, at_once) * each * of_slice, config.split, -config.cols, -config.threads

    made: list[Chosen] = [*few(rows)] if rows <= FEW else [*few(rows), *many(rows, weight)]
    found = [_with_stages(x, weight, scale_bytes) for x in made if x.split <= slices]
    return min((x for x in found if not problems(x, weight, scale_bytes)), key=cost)


def few(rows: int) -> Iterator[FewRowsConfig]:
    """Configurations of few rows: a team is 1, 2, 4 or 8 warps, alike on all schedulers, and eight warps or more are
    there, where there are registers for them."""
    if rows <= 2 * FEW:
        tile = next(tile for tile in (8, 16, 32) if rows <= tile)
        for cols in range(BAND, COLUMNS + 1, BAND):
            most = 32 if tile == 32 or tile == 16 and cols == COLUMNS else WIDEST
            part = next((cols // n for n in (1, 2, 4, 8) if cols % (n * BAND) == 0 and cols // n <= most), 0)
            if part:
                warps = 16 if tile * part <= CROWDED else 8
                teams = min(max(warps * part // cols, 1), 8)
                for split, some in itertools.product(SPLITS, {teams, max(teams // 2, 1)}):
                    yield FewRowsConfig(tile, cols, some, some, split, part=part)


def many(rows: int, weight: QuantizedWeight) -> Iterator[QuantizedConfig]:
    """Configurations of more rows than that."""
    whole = weight.group >= SLICE  # scales of several groups take registers
    tiles = [tile for tile in TILES if whole or tile <= HIGH]
    each = nv.cdiv(rows, nv.cdiv(rows, tiles[-1]))
    tile = next(tile for tile in tiles if each <= tile)
    shapes = [(128, 1), (64, 2), (64, 1)]
    if tile <= HIGH // 2 or tile <= HIGH and weight.kind == "u4" and whole:
        shapes += [(128, 2), (256, 1)]
    for (cols, teams), split in itertools.product(shapes, SPLITS):
        yield QuantizedConfig(tile, cols, teams, 2, split)


def _with_stages(config: Chosen, weight: QuantizedWeight, scale_bytes: int) -> Chosen:
    """With as many slots as there is shared memory for."""
    memory, blocks = arch.MAX_SMEM_PER_BLOCK, _blocks_per_sm(config)
    if blocks > 1:
        memory = arch.SMEM_PER_SM // blocks - arch.RESERVED_SMEM_PER_BLOCK
    numbers = range(config.teams, max(2 * config.teams, MOST_STAGES) + 1, config.teams)
    fits = [n for n in numbers if _smem(replace(config, stages=n), weight, scale_bytes) <= memory]
    return replace(config, stages=max(fits, default=config.teams))


def _blocks_per_sm(config: Chosen) -> int:
    return config.blocks_per_sm if isinstance(config, FewRowsConfig) else 1


def _smem(config: Chosen, weight: QuantizedWeight, scale_bytes: int) -> int:
    return config.smem_bytes(BITS[weight.kind], weight.group, scale_bytes, weight.zeros is not None)


def problems(config: Chosen, weight: QuantizedWeight, scale_bytes: int) -> list[str]:
    """Why a configuration can't run; empty where it can."""
    found = config.problems()
    used = _smem(config, weight, scale_bytes)
    if used > arch.MAX_SMEM_PER_BLOCK:
        found.append(f"{used:,} bytes of shared memory of {arch.MAX_SMEM_PER_BLOCK:,}")
    return found


def given(config: Any) -> QuantizedConfig | FewRowsConfig | None:
    """Raises ArgumentError for what is no configuration."""
    if config is None or isinstance(config, QuantizedConfig | FewRowsConfig):
        return config
    raise ArgumentError(
        f"config={reprlib.repr(config)}", rule="it is a QuantizedConfig or a FewRowsConfig", fix="leave it out"
    )


def check(config: QuantizedConfig | FewRowsConfig, weight: QuantizedWeight, scale_bytes: int) -> None:
    """Raise ArgumentError for a configuration that cannot run."""
    reasons = problems(config, weight, scale_bytes)
    if reasons:
        raise ArgumentError(f"{config}: " + "; ".join(reasons), fix="leave it out: the best known one is taken")
