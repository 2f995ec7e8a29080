"""Which configuration, where nobody says and nothing was tuned: two models of a few lines, and a list of candidates.

A kernel's time is that of its fullest SM: the rounds of tiles that it gets. Where the tensor cores are the limit, a
round is as long as K, with an epilogue for each (cooperative) or for the last (ping-pong, whose other ones cost none):

    multiplying ~ rounds * tile * K / rate  +  epilogues * tile * EPILOGUE       rounds = ceil(tiles / SMs)

``rate`` says how fast a tile's shape runs once all SMs are busy. Where the result has few rows or columns, the limit is
how fast each SM gets its part of the large operand, a slice of K (128 bytes) at a time:

    reading ~ rounds * slices * slice  +  rounds * tile * DRAIN  [+ exchange]
    slice = the longest of   tile / (32 * RATE),   its bytes / L2,   LATENCY / stages

No kernel is faster than memory. The numbers were fitted to times on an H200, of f16: squares of 1024 to 16384, step
256, where what is chosen is within 0.7 % of the best of nine (geometric mean); and 1 to 256 rows times weights of 4096
to 14336, within 0.6 % of the best of 14.
"""

from __future__ import annotations

import functools
from dataclasses import replace
from typing import Any

import nvdsl as nv
from nvdsl.hopper import arch
from nvdsl.hopper.occupancy import occupancy
from nvdsl.kernels.blocks.tile_scheduler import TileScheduler
from nvdsl.kernels.gemm.config import SPARE_REGISTERS, Config
from nvdsl.kernels.gemm.launch import resident_clusters
from nvdsl.kernels.gemm.streamk_scheduler import StreamKScheduler

EPILOGUE = 28.7
"""Time of an epilogue in slices of one element of K, for results of 16 bits."""
MEMORY = 0.8
"""Time of a byte of A, B or the result, in products of two elements (4.6 TB/s against 2048 products a clock and SM)."""

PRODUCTS = 2048
"""Of two 16-bit elements, in a clock of an SM."""
HANDOVER = 17.0
"""Slices in whose time sums are handed over."""
OFF_GRID, ON_GRID = 29.0, 100.0
"""Bytes of an operand that an SM gets from L2 in a clock, where rows don't start on the grid of 128 bytes, and where
they do. Off the grid a box's row lies in two lines, and L2 becomes the limit: then clusters pay, whose blocks load one
of the operands together. (5000 x 5000: 1.3 times as fast; on the grid they were never faster.)"""

FEW = 256
"""Rows or columns up to which reading is the limit. The numbers below are in clocks of an SM."""
L2 = 69.0
"""Bytes that an SM gets from L2 in a clock."""
LATENCY = 1750.0
"""From asking for a slice to having it, while all SMs ask."""
DRAIN = 0.88
"""From the last slice to the stored result, for an element of a tile with 16 bits."""
EXCHANGE, EXCHANGED = 1340.0, 0.4
"""An exchange of sums between blocks, and what an element of a tile adds to it."""
START = 9000.0
"""Before the first slice."""
BYTES, DIRTY = 2900.0, 54e6
"""Bytes of memory in a clock, and how many L2 writes back meanwhile: all that it holds."""
RATE = 0.9
"""Of small tiles."""
CROWDED = 60
"""Registers of a consumer's thread beside the sums that the largest epilogues need (`LinearCombination.is_crowded`)."""

ONE: dict[str, Any] = {"store_buffers": 1}
SPLIT: dict[str, Any] = {"schedule": "splitk", "split": 2, "store_buffers": 1}

CANDIDATES = (
    (1.011, Config(128, 192, schedule="pingpong", stages=5, group=12, store_buffers=1)),
    (1.010, Config(192, 128, schedule="pingpong", group=8)),
    (1.002, Config(128, 256, group=12)),
    (1.000, Config(256, 192, stages=3, group=8)),
    (0.999, Config(192, 192, stages=3, consumers=3, group=10)),
    (0.990, Config(256, 176, stages=3, group=9)),
    (0.985, Config(256, 128, group=8)),
    (0.980, Config(128, 176, schedule="pingpong", group=12)),
    (0.980, Config(128, 240, group=11)),
    (0.960, Config(128, 224, group=16)),
    (0.950, Config(128, 128, schedule="pingpong", stages=6, group=16)),
    (0.950, Config(128, 160, schedule="pingpong", group=12)),
    (0.950, Config(128, 160, group=12)),
    (0.950, Config(128, 128, stages=6, group=16)),
    (0.925, Config(128, 208, group=12)),
    (0.930, Config(256, 112, group=8, store_buffers=1)),
    (0.950, Config(192, 112, stages=5, consumers=3, group=8, store_buffers=1)),
    (0.920, Config(192, 96, stages=5, consumers=3, group=8, store_buffers=1)),
    (0.850, Config(64, 256, consumers=1, store_buffers=4)),
    (0.821, Config(64, 128, stages=8, consumers=1)),
    (0.750, Config(128, 64, stages=8, store_buffers=1)),
    (0.550, Config(64, 64, stages=12, consumers=1)),
    (1.016, Config(128, 192, schedule="streamk", stages=5, group=12, store_buffers=1)),
    (0.990, Config(192, 128, schedule="streamk", stages=5, group=8, store_buffers=1)),
    (0.940, Config(128, 128, schedule="streamk", stages=6, group=16)),
    # for few rows
    (0.880, Config(128, 112, stages=6, **ONE)),
    (0.800, Config(64, 192, stages=6, consumers=1, store_buffers=3)),
    (0.800, Config(128, 96, stages=6, group=12)),
    (0.700, Config(64, 96, stages=8, consumers=1)),
    (0.450, Config(64, 48, stages=13, consumers=1, **ONE)),
    (0.300, Config(64, 32, stages=13, consumers=1, **ONE)),
    (0.400, Config(64, 64, stages=11, consumers=1, **SPLIT)),
    (0.600, Config(128, 64, stages=7, consumers=1, **SPLIT)),
    (0.600, Config(64, 112, stages=8, consumers=1, **ONE)),
    (0.600, Config(128, 64, stages=6, **SPLIT)),
    (0.400, Config(64, 128, stages=7, consumers=1, **SPLIT)),
    (0.300, Config(64, 32, stages=7, consumers=1, **SPLIT)),
    # for rows off the grid of 128 bytes
    (0.990, Config(128, 192, schedule="pingpong", cluster_m=2, group=6)),
    (0.985, Config(128, 256, cluster_m=2, group=6)),
    (0.980, Config(256, 192, stages=3, cluster_m=2, group=4)),
    (0.970, Config(256, 176, stages=3, cluster_m=2, group=4)),
    (0.970, Config(256, 128, cluster_n=2)),
    (0.970, Config(256, 128, cluster_m=2, group=4)),
    (0.940, Config(256, 160, stages=3, cluster_m=2, group=4)),
    (0.930, Config(128, 128, stages=6, cluster_m=2, group=8)),
)
"""(rate, configuration) for types of 16 bits."""


def time(
    config: Config, rate: float, m: int, n: int, k: int, dtype: nv.DType, out: nv.DType, batches: int, sms: int,
    b_major: str = "mn", a_major: str = "k",
) -> float:  # fmt: skip
    """The model's time. Times of one problem can be compared, no others."""
    tiles = TileScheduler(m, n, config.tile_m, config.tile_n, config.cluster_m, config.cluster_n, batches=batches).count
    together = blocks_of_an_sm(config, dtype, out, b_major)
    at_once = together * resident_clusters(config.cluster * config.split, sms)
    rounds = nv.cdiv(tiles, at_once)
    moved = batches * ((m + n) * k * dtype.bytes + m * n * out.bytes)
    sharing = min(together, nv.cdiv(min(tiles, at_once) * config.split, sms))  # blocks of the fullest SM
    if min(m, n) > FEW:
        lengths = k if a_major == "k" else m, k if b_major == "k" else n
        loading = off_grid(config, [length * dtype.bytes % 128 != 0 for length in lengths])
        steps = nv.cdiv(k * dtype.bytes, 128 * config.split)
        slices = spread(tiles, steps, sms) if config.schedule == "streamk" else rounds * steps
        return multiplying(config, rate / sharing, loading, slices, out, rounds, moved)
    return reading(config, (m, k), dtype, out, rounds, sharing, moved, b_major)


def off_grid(config: Config, off: list[bool]) -> float:
    """Clocks of loading a slice, where the rows of A or of B are off the grid."""
    if not any(off):
        return 0.0
    sides = zip((config.tile_m, config.tile_n), config.sharers, off, strict=True)
    return sum(128 * rows / sharers / (OFF_GRID if bad else ON_GRID) for rows, sharers, bad in sides)


def spread(tiles: int, steps: int, sms: int) -> float:
    """Slices of a block's work where tiles are cut along K (`nvdsl.kernels.gemm.streamk_scheduler`),
    hand-over included."""
    split = StreamKScheduler(tiles, steps, sms).fitted()
    return tiles // split.blocks * steps + split.longest + HANDOVER


def multiplying(
    config: Config, rate: float, loading: float, slices: float, out: nv.DType, rounds: int, moved: int
) -> float:
    """In products of two 16-bit elements. ``slices``: of the fullest SM's work."""
    epilogues = 1 if config.schedule in ("pingpong", "streamk") else rounds
    area = config.tile_m * config.tile_n
    slice = max(64 * area / rate, PRODUCTS * loading)  # wgmma takes as long for 128 bytes of any type
    work = slices * slice + epilogues * area * EPILOGUE * out.bytes / 2
    if config.split > 1:
        work += rounds * PRODUCTS * (EXCHANGE + EXCHANGED * area)
    memory = MEMORY * moved
    return max(work, memory) + min(work, memory) / 10  # at the same time, but not quite


def reading(
    config: Config, a: tuple[int, int], dtype: nv.DType, out: nv.DType, rounds: int, sharing: int, moved: int,
    b_major: str,
) -> float:  # fmt: skip
    """In clocks. ``a``: M and K; ``sharing``: blocks of an SM, which has to feed all of them."""
    (m, k), area, panel = a, config.tile_m * config.tile_n, 128 // dtype.bytes
    cols = config.tile_n if b_major == "k" else nv.cdiv(config.tile_n, panel) * panel
    loaded = 128 * (min(config.tile_m, m) + cols)
    slice = max(sharing * area / (32 * RATE), sharing * loaded / L2, LATENCY / config.stages)
    slices = nv.cdiv(nv.cdiv(k * dtype.bytes, 128), config.split)
    work = rounds * (slices * slice + area * DRAIN * out.bytes / 2)
    if config.split > 1:
        work += rounds * (EXCHANGE + EXCHANGED * area)
    memory = (moved + DIRTY) / BYTES
    return START + (work**2 + memory**2) ** 0.5


def blocks_of_an_sm(config: Config, dtype: nv.DType, out: nv.DType, b_major: str) -> int:
    """Blocks that an SM holds at the same time. One takes all registers, but for split-K."""
    if config.schedule != "splitk":
        return 1
    registers = config.accumulator_registers(nv.f32) + SPARE_REGISTERS + 2
    return occupancy(config.threads, registers, fit(config, dtype).smem_bytes(dtype, out, b_major)).blocks


def fit(config: Config, dtype: nv.DType) -> Config:
    """The same tile with slices of 128 bytes of ``dtype``."""
    return replace(config, tile_k=128 // dtype.bytes)


def possible(dtype: nv.DType, out: nv.DType, acc: nv.DType, crowded: bool = False) -> list[tuple[float, Config]]:
    """The candidates that can run these types. ``crowded``: beside an epilogue with many registers."""
    found = []
    for rate, config in CANDIDATES:
        spare = config.registers[1] - config.accumulator_registers(acc)
        if not fit(config, dtype).problems(dtype, out, acc) and not (crowded and spare < CROWDED):
            found.append((rate, config))
    return found


@functools.cache
def choose(
    m: int, n: int, k: int, dtype: nv.DType = nv.f16, out: nv.DType = nv.f16, acc: nv.DType = nv.f32,
    *, batches: int = 1, crowded: bool = False, sms: int = arch.SMS, b_major: str = "mn", a_major: str = "k",
) -> Config:  # fmt: skip
    """The candidate of the least time for ``batches`` (m, k) by (k, n) products, among those that can run them.

    ``b_major``: "k" where B is stored (n, k); ``a_major``: "mn" where A is stored (k, m).
    """
    found = possible(dtype, out, acc, crowded)
    return min(found, key=lambda one: time(one[1], one[0], m, n, k, dtype, out, batches, sms, b_major, a_major))[1]
