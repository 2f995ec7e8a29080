"""What the model of `choose` prefers, and what it takes for granted of the kernels."""

import pytest

import nvdsl as nv
from nvdsl.hopper.occupancy import occupancy
from nvdsl.kernels.gemm import splitk
from nvdsl.kernels.gemm.choose import CANDIDATES, blocks_of_an_sm, choose, fit
from nvdsl.kernels.gemm.config import Config
from nvdsl.kernels.gemm.tuned import shape_class

SPLIT = [config for _, config in CANDIDATES if config.schedule == "splitk"]


@pytest.mark.parametrize("dtype", [nv.f16, nv.bf16, nv.e4m3, nv.i8, nv.f32])
def test_something_is_chosen_for_every_type(dtype):
    out, acc = (nv.i32, nv.i32) if dtype is nv.i8 else (nv.f32, nv.f32)
    for shape in ((1, 8, 8), (16, 4096, 4096), (1000, 200, 64), (4096, 200, 64), (4096, 4096, 4096)):
        assert not fit(choose(*shape, dtype, out, acc), dtype).problems(dtype, out, acc)


@pytest.mark.parametrize(
    ("shape", "tile"),
    [
        ((1536, 1536, 1536), (192, 96)),  # 128 tiles for 132 SMs, where 128 x 160 makes 120
        ((2304, 2304, 2304), (192, 112)),
        ((2816, 2816, 2816), (128, 240)),
        ((16384, 16384, 16384), (128, 192)),
        ((2560, 2560, 2560), (128, 208)),
        ((128, 4096, 4096), (64, 64)),
        ((128, 14336, 4096), (128, 112)),
    ],
)
def test_tiles_fill_the_gpu(shape, tile):
    config = choose(*shape, b_major="k")
    assert (config.tile_m, config.tile_n) == tile


@pytest.mark.parametrize("shape", [(5000, 5000, 5000), (3001, 6008, 1000)])
def test_clusters_load_together_where_rows_are_off_the_grid(shape):
    assert choose(*shape).cluster == 2


@pytest.mark.parametrize("n", range(1024, 16384 + 1, 256))
def test_nothing_is_loaded_together_where_rows_are_on_the_grid(n):
    assert choose(n, n, n).cluster == 1


@pytest.mark.parametrize("m", [1, 8, 16, 32, 64, 96, 128])
def test_few_rows_are_read_by_all_sms(m):
    """Of 4096 columns there are 32 tiles of 128: narrower ones, or parts of K, keep the others from reading nothing."""
    config = choose(m, 4096, 4096, b_major="k")
    assert nv.cdiv(m, config.tile_m) * nv.cdiv(4096, config.tile_n) * config.split >= 110


@pytest.mark.parametrize("config", SPLIT, ids=lambda c: f"{c.tile_m}x{c.tile_n}-{c.split}")
@pytest.mark.parametrize("b_major", ["k", "mn"])
def test_blocks_of_an_sm_are_those_of_the_compiled_kernel(config, b_major):
    square = nv.ShapeDtype((512, 512), nv.f16)
    (kernel,) = splitk.matmul.compile(square, square, square, config=config, b_major=b_major).kernels.values()
    found = occupancy(config.threads, kernel.resources.registers, kernel.smem_bytes)
    assert blocks_of_an_sm(config, nv.f16, nv.f16, b_major) == found.blocks


def test_other_schedules_have_an_sm_for_themselves():
    assert blocks_of_an_sm(Config(64, 64, consumers=1, stages=2), nv.f16, nv.f16, "k") == 1


@pytest.mark.parametrize(
    ("shape", "expected"),
    [
        ((4096, 4096, 4096), [1, 4096, 4096, 4096, 1]),
        ((4000, 4097, 5000), [1, 4096, 4224, 4096, 0]),  # 4097 columns of f16 are off the grid
        ((1, 4096, 14336), [1, 1, 4096, 16384, 1]),
        ((33, 4096, 4096), [1, 64, 4096, 4096, 1]),
        ((129, 4096, 4096), [1, 192, 4096, 4096, 1]),
        ((257, 4096, 4096), [1, 384, 4096, 4096, 1]),
    ],
)
def test_shapes_of_a_class_have_as_many_tiles(shape, expected):
    m, n, k = shape
    assert shape_class(nv.ShapeDtype((m, k), nv.f16), nv.ShapeDtype((m, n), nv.f16), "k") == expected
