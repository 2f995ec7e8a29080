"""The kernels as ptxas sees them: no spill, no stack, no serialized wgmma; and the pieces below them."""

import pytest

import nvdsl as nv
from nvdsl.kernels.gemm import cooperative, pingpong, splitk, streamk
from nvdsl.kernels.gemm.config import Config
from nvdsl.kernels.gemm.launch import resident_blocks, resident_clusters
from nvdsl.kernels.gemm.tiles import legal
from tests.exhaustive import sample
from tests.unit.traced import evaluate

MATMUL = {
    "cooperative": cooperative,
    "pingpong": pingpong,
    "streamk": streamk,
    "splitk": splitk,
}
CONFIGS = [*legal(nv.f16, nv.f16, nv.f32)] + [
    Config(cluster_m=2, group=4),
    Config(128, 192, schedule="pingpong", cluster_n=2),
    Config(128, 128, schedule="streamk", stages=6),
    Config(128, 192, schedule="streamk", stages=5, store_buffers=1),
    Config(192, 128, schedule="streamk", stages=5, store_buffers=1),
]


@pytest.mark.parametrize(
    ("config", "n"),
    sample([(c, 256 if i % 2 and c.schedule != "streamk" else 4096) for i, c in enumerate(CONFIGS)], 6),
    ids=lambda x: f"{x.schedule}-{x.tile_m}x{x.tile_n}-{x.cluster}" if isinstance(x, Config) else str(x),
)
def test_no_candidate_spills_or_is_serialized(config, n):
    square = nv.ShapeDtype((n, n), nv.f16)
    strict = nv.jit(MATMUL[config.schedule].matmul.__wrapped__, strict=True)
    blocks = {} if config.schedule == "splitk" else {"blocks": 132}
    compiled = strict.compile(square, square, square, config=config, **blocks)
    (kernel,) = compiled.kernels.values()
    used = kernel.resources
    assert (used.stack, used.spill_stores, used.spill_loads, used.static_smem) == (0, 0, 0, 0)
    wide = config.stores_wide(nv.f16, nv.f16)  # its pieces take what is left beside the ring
    assert kernel.smem_bytes == config.smem_bytes(nv.f16) or config.tile_n % 64 or wide


def test_a_cluster_tells_all_blocks_without_a_memory_barrier():
    square = nv.ShapeDtype((512, 512), nv.f16)
    ptx = cooperative.matmul.compile(square, square, square, config=Config(cluster_m=2), blocks=4).ptx
    assert "mbarrier.arrive.relaxed.cluster.shared::cluster" in ptx
    assert "mbarrier.arrive.release.cluster" not in ptx


def test_flags_are_released_and_acquired():
    square = nv.ShapeDtype((384, 384), nv.f16)
    config = Config(128, 128, schedule="streamk")
    ptx = streamk.matmul.compile(square, square, square, config=config, blocks=4, least=1).ptx
    assert "ld.acquire.gpu" in ptx and "st.release.gpu" in ptx


@pytest.mark.parametrize("stages", [1, 3, 4])
@pytest.mark.parametrize("count", [0, 1, 5, 8, 12])
def test_advance_is_next_so_many_times(stages, count):
    def build():
        far = state = nv.PipelineState(stages, stages - 1, 1)
        for _ in range(count):
            state = state.next()
        far = far.advance(count)
        return [state.stage, state.phase, far.stage, far.phase]

    stage, phase, *far = (int(x) for x in evaluate(build))
    assert far == [stage, phase]


def test_a_grid_is_no_larger_than_the_gpu():
    assert resident_blocks(Config(), 132) == 132
    assert resident_blocks(Config(cluster_m=4), 132) == 120
    assert [resident_clusters(size, 132) for size in (1, 2, 4, 8)] == [132, 66, 30, 15]
