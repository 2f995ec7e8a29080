"""What a traced kernel asks of an SM."""

import pytest

import nvdsl as nv
from nvdsl.tune import model
from tests.unit.kernels import array, trace


def test_grid_block_and_shared_memory():
    def body(x):
        tile = nv.smem((64, 64), nv.f16)
        x[nv.thread_id.x] = nv.f32(tile[0, 0])

    (found,) = model.footprints(trace(body, array(nv.f32, 512), grid=(12, 11), block=256))
    assert (found.blocks, found.threads, found.smem_bytes) == (132, 256, 8192)
    assert found.problem() is None
    assert found.resident() == 8  # by threads
    assert found.fill(132) == 1.0
    assert found.fill(131) == pytest.approx(132 / 262)


def test_accumulators_that_a_loop_carries_are_counted():
    def gemm(rows, n):
        def body(x):
            a = nv.smem((rows, 64), nv.f16, swizzle=128)
            b = nv.smem((64, n), nv.f16, swizzle=128)
            acc = nv.accumulator(rows, n, nv.f32)
            for _ in nv.range(4):
                acc += a @ b
            nv.wgmma_wait(0)
            acc.store(x, (0, 0))

        return model.footprints(trace(body, array(nv.f32, 256, 256), block=128))[0]

    small, large = gemm(64, 128), gemm(128, 256)
    assert 64 <= small.carried < 72 and small.problem() is None
    assert large.carried >= 256
    assert large.problem() == f"must spill: a loop carries {large.carried} registers a thread, which has 255"


@pytest.mark.parametrize(("ty", "words"), [
    ("f32", 1), ("f16", 1), ("i64", 2), ("index", 1), ("vector<4xf16>", 2), ("vector<2x4xf32>", 8), ("bf16", 1),
    ("!llvm.struct<(f32, f32, f32)>", 3), ("!llvm.struct<(i32, i32)>", 2), ("i1", 1),
])  # fmt: skip
def test_registers_of_a_type(ty, words):
    assert model._words(ty) == words


def test_the_launch_that_fills_best_counts():
    one, two = model.Footprint(1, 32, 0, 0, 255), model.Footprint(132, 32, 0, 0, 255)
    assert model.fill([one, two], 132) == 1.0
    assert model.fill([one], 132) == pytest.approx(1 / 132)
    assert model.fill([model.Footprint(None, 32, 0, 0, 255)], 132) == 1.0
