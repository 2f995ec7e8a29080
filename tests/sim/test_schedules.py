"""Schedules from linalg: each row of the ladders and each end is right under all schedules of the simulator, and
whatever orders its threads is missed where it is taken out."""

import itertools

import numpy as np
import pytest

import nvdsl as nv
from chapters.passes import ladder
from chapters.simt import ladder as simt
from nvdsl import schedule as sc
from nvdsl import sim, thin
from nvdsl.errors import SimError, VerifyError
from tests.exhaustive import exhaustive, sample
from tests.sim.simulate import SCHEDULES
from tests.unit.schedule.products import numbers

TILE, WARP, HOPPER = (32, 32, 32), (16, 32), (64, 64, 64)


def ring(*tiles):
    """A ring of two slots and one warpgroup; ``tiles``: persistent blocks, which have two tiles here."""
    return [sc.tile_blocks(*HOPPER), sc.bufferize(), sc.stage(), *[sc.persistent(one) for one in tiles], sc.wgmma(2, 1)]


ENDS = {
    **{f"passes {name}": (steps, (32, 32, 96), nv.f16) for name, steps in ladder.rows(TILE, WARP, (8, 8))},
    **{f"simt {name}": (steps, (32, 32, 48), nv.f32) for name, _, _, steps in simt.rows((32, 32, 16), (8, 4), 3)},
    "wmma, cp.async": (sc.wmma_steps(TILE, WARP, stages=3, without=["prefetch"]), (32, 32, 128), nv.f16),
    "wmma, cp.async, prefetch": (sc.wmma_steps(TILE, WARP, stages=3), (32, 32, 128), nv.f16),
    "wmma at edges": (sc.wmma_steps(TILE, WARP), (33, 31, 65), nv.f16),
    "mma.sync": (sc.mma_steps(TILE, WARP), (32, 32, 96), nv.f16),
    "mma.sync, cp.async": (sc.mma_steps(TILE, WARP, stages=3, without=["prefetch"]), (32, 32, 128), nv.f16),
    "mma.sync, cp.async, prefetch": (sc.mma_steps(TILE, WARP, stages=3), (32, 32, 128), nv.f16),
    "mma.sync at edges, bf16": (sc.mma_steps(TILE, WARP, nv.bf16, stages=3), (33, 31, 97), nv.bf16),
    "simt at edges": (sc.simt_steps((32, 32, 16), (8, 16), (8, 4)), (33, 31, 35), nv.f32),
    "wgmma": (ring(), (64, 64, 256), nv.f16),
    "wgmma, persistent": (ring(1), (64, 128, 192), nv.f16),
    "wgmma, copied by threads": (ring(1), (64, 127, 192), nv.f16),
}
ORDERING = (
    "gpu.barrier", "nvvm.bar.warp.sync", "nvgpu.device_async_wait", "nvgpu.mbarrier.arrive", "nvgpu.mbarrier.try_wait",
    "nvvm.fence.proxy", "nvvm.wgmma.fence", "nvvm.wgmma.wait",
)  # fmt: skip


def made(end):
    steps, (m, n, k), dtype = ENDS[end]
    return sc.compile(sc.matmul(m, n, k, dtype), steps)


def difference(end, call):
    _, (m, n, k), dtype = ENDS[end]
    a, b = (numbers(shape, dtype.numpy, seed) for seed, shape in enumerate(((m, k), (k, n))))
    c = np.full((m, n), np.nan, np.float32)
    call(a, b, c, target="sim")
    return np.abs(c - np.float32(a) @ np.float32(b)).max()


@pytest.mark.parametrize(
    ("end", "options", "level"),
    sample(itertools.product(ENDS, SCHEDULES, ("traced", "nvvm")), 4),
    ids=lambda x: f"{x.delivery} {x.order} {x.seed}" if isinstance(x, sim.Options) else x,
)
def test_every_end_under_all_schedules(end, options, level, monkeypatch):
    for name in ("order", "delivery", "seed"):
        monkeypatch.setenv(f"NVDSL_SIM_{name.upper()}", str(getattr(options, name)))
    monkeypatch.setenv("NVDSL_SIM_LEVEL", level)
    assert difference(end, made(end)) == 0


USUAL = (
    "passes 7 latency hiding", "simt 6 double buffering", "mma.sync, cp.async, prefetch", "wgmma", "wgmma, persistent",
)  # fmt: skip


@pytest.mark.parametrize("end", [one if one in USUAL else pytest.param(one, marks=exhaustive) for one in ENDS])
def test_what_is_missing_anywhere_is_reported(end):
    lines = made(end).mlir.splitlines()
    places = [place for place, line in enumerate(lines) if any(one in line for one in ORDERING)]
    if places and "nvvm.bar.warp.sync" in lines[places[-1]]:
        places.pop()  # it orders a store before the next that uses the warp's part of shared memory: there is none
    assert places or end in ("passes 0 blocks and threads", "simt 0 naive", "simt 1 blocks")
    for place in places:
        text = "\n".join(line for number, line in enumerate(lines) if number != place)
        with pytest.raises((SimError, VerifyError)):
            difference(end, thin.load(text)["matmul"])
