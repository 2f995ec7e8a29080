"""The kernels that leave one thing out: what they compute, in the simulator, and that they still do all the rest."""

import numpy as np
import pytest

import nvdsl as nv
from benchmarks import bound_kernels
from nvdsl.kernels.gemm.config import Config

N, K, BLOCKS = 256, 512, 2
CONFIGS = {
    "cooperative": Config(128, 64, stages=2),
    "pingpong": Config(64, 64, stages=2, schedule="pingpong", store_buffers=1),
    "over the edge": Config(64, 96, stages=2, schedule="pingpong", store_buffers=1),
}


def run(config, without):
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal(shape).astype(np.float16) for shape in ((N, K), (K, N)))
    out, log = np.full((N, N), np.nan, np.float16), np.zeros((2 * BLOCKS, 2), np.int64)
    bound_kernels.matmul(a, b, out, log, config=config, blocks=BLOCKS, without=without, target="sim")
    assert (log > 0).all(), "each consumer of each block says how long it took"
    return a.astype(np.float32), b.astype(np.float32), out


every_config = pytest.mark.parametrize("config", CONFIGS.values(), ids=CONFIGS)


@every_config
def test_all_is_the_product(config):
    a, b, out = run(config, "")
    np.testing.assert_allclose(out, a @ b, rtol=2e-3, atol=0.05)


@every_config
def test_without_memory_the_first_slices_are_multiplied_again_and_again(config):
    a, b, out = run(config, "memory")
    few = bound_kernels.SLICES * 64
    np.testing.assert_allclose(out, K / few * (a[:, :few] @ b[:few]), rtol=2e-3, atol=0.05)


@every_config
def test_without_loads_a_blocks_tiles_are_all_made_of_its_first_slots(config):
    _, _, out = run(config, "loads")
    tiles = out[: N // config.tile_m * config.tile_m, : N // config.tile_n * config.tile_n]
    tiles = tiles.reshape(-1, config.tile_m, N // config.tile_n, config.tile_n).swapaxes(1, 2)
    different = {tile.tobytes() for tile in tiles.reshape(-1, config.tile_m, config.tile_n)}
    assert np.isfinite(out).all()
    assert len(different) == BLOCKS


@every_config
def test_without_stores_nothing_is_written(config):
    assert np.isnan(run(config, "stores")[2]).all()


@pytest.mark.parametrize("without", bound_kernels.KINDS)
def test_all_issue_the_same_products(without):
    h = nv.ShapeDtype((4096, 4096), nv.f16)
    log = nv.ShapeDtype((264, 2), nv.i64)
    config = Config(128, 256, group=12)
    compiled = bound_kernels.matmul.compile(h, h, h, log, config=config, blocks=132, without=without)
    (kernel,) = compiled.kernels.values()
    assert kernel.resources.spill_stores == 0
    assert kernel.ptx.count("wgmma.mma_async") == 4, "of four k16 steps, all slices in one loop"
    assert "cp.async.bulk.tensor.2d.global.shared" in kernel.ptx, "stores are left out, not optimized away"
