"""The chapters, compiled without a GPU: strict (ptxas advises against nothing), and within the hardware's limits."""

import importlib
import importlib.util
from pathlib import Path
from typing import Any

import pytest

import nvdsl as nv
from nvdsl.ir.walk import find
from tests.exhaustive import exhaustive, sample
from tests.unit.kernels import array

SQUARE = (8192, 8192)


def gemm(m, n, k):
    return array(nv.f16, m, k), array(nv.f16, k, n), array(nv.f32, m, n)


def gemm16(m, n, k):
    return array(nv.f16, m, k), array(nv.f16, k, n), array(nv.f16, m, n)


def saxpy(*shape):
    return array(nv.f32, *shape), array(nv.f32, *shape), 2.0


def rows(*shape):
    return array(nv.f32, *shape), array(nv.f32, *shape)


def counted(n):
    return array(nv.u8, n), array(nv.i32, 256)


def layer(m, n, k):
    a, b, residual = array(nv.f16, m, k), array(nv.f16, k, n), array(nv.f16, m, n)
    return a, b, array(nv.f32, m), array(nv.f32, n), residual, array(nv.f16, m, n)


def chained(m, n, d):
    return array(nv.f16, m, d), array(nv.f16, n, d), array(nv.f16, n, d), array(nv.f16, m, d)


def normalized(m, n):
    return array(nv.f32, m, n), array(nv.f32, 1, n), array(nv.f32, 1, n), array(nv.f32, m, n)
def layers(m, width, count):
    x = array(nv.f16, m, width)
    return x, array(nv.f16, count, width, width), array(nv.f32, count, width), x


def recurrent(steps, m, n):
    return array(nv.f16, steps, 4, m, n), array(nv.f16, 4, n, n), array(nv.f16, steps + 1, m, n)


def across(rows, cols):
    return array(nv.f32, rows, cols), array(nv.f32, cols, rows)


# (chapter, host function, arguments, bytes of tiles, mbarriers, threads, most registers a thread)
CASES = {
    "ch1": ("ch1_saxpy", "saxpy", saxpy(1000), 0, 0, 256, 32),
    "ch1 of 8192": ("ch1_saxpy", "saxpy", saxpy(8192), 0, 0, 256, 32),
    "ch2": ("ch2_tma_saxpy", "saxpy", saxpy(64, 256), 2 * 16 * 64 * 4, 1, 64, 64),
    "ch2 of 8192": ("ch2_tma_saxpy", "saxpy", saxpy(*SQUARE), 2 * 16 * 64 * 4, 1, 64, 64),
    "ch3": ("ch3_wgmma_tile", "gemm_tile", gemm(128, 128, 64), 2 * 128 * 64 * 2, 1, 128, 255),
    "ch4": ("ch4_multistage_gemm", "gemm", gemm(512, 256, 1024), 3 * 32768, 3, 128, 255),
    "ch4 of 8192": ("ch4_multistage_gemm", "gemm", gemm(8192, 8192, 8192), 3 * 32768, 3, 128, 255),
    "ch5": ("ch5_warp_specialized_gemm", "gemm", gemm(512, 512, 1024), 4 * 49152, 8, 384, 168),
    "ch5 of 8192": ("ch5_warp_specialized_gemm", "gemm", gemm(8192, 8192, 8192), 4 * 49152, 8, 384, 168),
    "ch6": ("ch6_tma_store_gemm", "gemm", gemm16(512, 512, 1024), 4 * 49152 + 4 * 8192, 8, 384, 168),
    "ch6 of 8192": ("ch6_tma_store_gemm", "gemm", gemm16(8192, 8192, 8192), 4 * 49152 + 4 * 8192, 8, 384, 168),
    "ch7": ("ch7_persistent_gemm", "gemm", gemm16(1152, 512, 1024), 4 * 49152 + 4 * 8192, 8, 384, 168),
    "ch7 of 8192": ("ch7_persistent_gemm", "gemm", gemm16(8192, 8192, 8192), 4 * 49152 + 4 * 8192, 8, 384, 168),
    "ch8": ("ch8_cluster_gemm", "gemm", gemm16(1280, 512, 1024), 4 * 49152 + 4 * 8192, 8, 384, 168),
    "ch8 of 8192": ("ch8_cluster_gemm", "gemm", gemm16(8192, 8192, 8192), 4 * 49152 + 4 * 8192, 8, 384, 168),
    "ch9": ("ch9_pingpong_gemm", "gemm", gemm16(2176, 448, 1024), 4 * 40960 + 4 * 8192, 8, 384, 168),
    "ch11": ("ch11_row_softmax", "softmax", rows(100, 1000), 0, 0, 256, 64),
    "ch11 of 8192": ("ch11_row_softmax", "softmax", rows(*SQUARE), 0, 0, 256, 64),
    "ch13": ("ch13_histogram", "histogram", counted(10000), 1024, 0, 256, 32),
    "ch13 of 2**30": ("ch13_histogram", "histogram", counted(1 << 30), 1024, 0, 256, 32),
    "ch12": ("ch12_transpose", "transpose", across(1000, 500), 8192, 0, 256, 64),
    "ch12 of 8192": ("ch12_transpose", "transpose", across(*SQUARE), 8192, 0, 256, 64),
    "ch14": ("ch14_fused_epilogue", "layer", layer(512, 384, 256), 3 * 32768 + 32768, 3, 128, 255),
    "ch14 of 8192": ("ch14_fused_epilogue", "layer", layer(8192, 8192, 8192), 3 * 32768 + 32768, 3, 128, 255),
    "ch16": ("ch16_online_softmax", "attention", chained(256, 256, 64), 8192 + 4 * 8192, 3, 128, 168),
    "ch16 of 8192": ("ch16_online_softmax", "attention", chained(8192, 8192, 128), 16384 + 4 * 16384, 3, 128, 255),
    "ch17": ("ch17_layer_norm", "layer_norm", normalized(64, 256), 0, 0, 128, 128),
    "ch19": ("ch19_recurrent", "lstm", recurrent(4, 64, 256), 32768 + 32768, 2, 128, 128),
    "ch15": ("ch15_dynamic_shapes", "gemm", gemm16(200, 136, 200), 4 * 32768, 3, 128, 255),
    "ch15 of 8192": ("ch15_dynamic_shapes", "gemm", gemm16(8192, 8192, 8192), 4 * 32768, 3, 128, 255),
    "ch18": ("ch18_mlp", "mlp", layers(200, 128, 4), 16384 + 2 * 32768, 3, 128, 168),
    "ch18 of 65536": ("ch18_mlp", "mlp", layers(65536, 128, 20), 16384 + 2 * 32768, 3, 128, 168),
    "simt of 4096": ("simt.ladder", "ahead", (array(nv.f32, 4096, 4096),) * 3, 3 * (18432 + 16384), 0, 256, 168),
    "ch9 of 8192": ("ch9_pingpong_gemm", "gemm", gemm16(8192, 8192, 8192), 4 * 40960 + 4 * 8192, 8, 384, 168),
}


def strict(chapter: str, function: str) -> Any:
    """The chapter's host function, with every advisory of ptxas an error."""
    module = importlib.import_module(f"chapters.{chapter}")
    return nv.jit(getattr(module, function).__wrapped__, strict=True)


@pytest.mark.parametrize(
    "case", [pytest.param(case, id=name, marks=exhaustive if " of " in name else ()) for name, case in CASES.items()]
)
def test_a_chapter_compiles_as_it_is_meant(case):
    chapter, function, arguments, tiles, barriers, threads, registers = case
    (kernel,) = strict(chapter, function).compile(*arguments).kernels.values()
    assert (kernel.user_smem_bytes, kernel.smem_bytes) == (tiles, tiles + 8 * barriers)
    assert kernel.max_threads == threads
    used = kernel.resources
    assert (used.stack, used.spill_stores, used.spill_loads, used.static_smem) == (0, 0, 0, 0)
    assert used.registers <= registers
    assert used.registers * threads <= 65_536


def test_hello_prints():
    from chapters.ch0_hello import hello

    (kernel,) = hello.compile().kernels.values()
    assert "vprintf" in kernel.ptx
    assert kernel.smem_bytes == 0


GEMMS = ["ch4_multistage_gemm", "ch5_warp_specialized_gemm"]


@pytest.mark.parametrize(
    ("chapter", "options", "tiles"),
    sample([
        ("ch4_multistage_gemm", {"stages": 2}, 2 * 32768),
        ("ch4_multistage_gemm", {"tile": (64, 64, 64)}, 3 * 16384),
        ("ch5_warp_specialized_gemm", {"tile": (128, 128, 64), "stages": 5}, 5 * 32768),
        ("ch5_warp_specialized_gemm", {"tile": (64, 256, 64), "consumers": 1}, 4 * 40960),
        ("ch7_persistent_gemm", {"group": 1, "blocks": 131}, 4 * 49152 + 4 * 8192),
        ("ch8_cluster_gemm", {"cluster": 4, "blocks": 120}, 4 * 49152 + 4 * 8192),
        ("ch9_pingpong_gemm", {"tile": (128, 128, 64), "stages": 6}, 6 * 32768 + 4 * 8192),
    ], 3),
    ids=lambda x: str(x) if isinstance(x, dict) else None,
)  # fmt: skip
def test_gemms_in_other_tiles(chapter, options, tiles):
    """What the chapters say to try."""
    arguments = gemm(512, 512, 512) if chapter in GEMMS else gemm16(512, 512, 512)
    (kernel,) = strict(chapter, "gemm").compile(*arguments, **options).kernels.values()
    assert kernel.user_smem_bytes == tiles
    assert kernel.resources.spill_stores == kernel.resources.stack == 0


@pytest.mark.parametrize(
    ("chapter", "dtype"), sample([(c, t) for t in (nv.bf16, nv.f16) for c in GEMMS], 2), ids=str
)
def test_gemms_of_other_types(chapter, dtype):
    a, b = array(dtype, 256, 320), array(dtype, 320, 256)
    (kernel,) = strict(chapter, "gemm").compile(a, b, array(dtype, 256, 256)).kernels.values()
    assert f".f32.{dtype.name}.{dtype.name}" in kernel.ptx


@pytest.mark.parametrize("chapter", GEMMS)
@pytest.mark.parametrize(
    ("shape", "options", "says"),
    [
        ((100, 256, 64), {}, "M = 100"),
        ((128, 256, 64), {"stages": 1}, "stages = 1"),
        ((128, 256, 60), {}, "120 bytes"),
        ((256, 256, 64), {"stages": 9}, "bytes of shared memory"),
    ],
)
def test_what_a_gemm_cannot_do_is_an_error_of_the_call(chapter, shape, options, says):
    with pytest.raises(nv.NvdslError) as caught:
        strict(chapter, "gemm").trace(*gemm(*shape), **options)
    assert says in caught.value.message
    assert chapter in caught.value.where.file
    assert caught.value.rule and caught.value.fix or says == "stages = 1"


def test_the_steps_cover_k():
    """K of one step, of fewer steps than stages, of no whole number of steps."""
    for k in (8, 64, 128, 200):
        module = strict("ch4_multistage_gemm", "gemm").trace(*gemm(128, 128, k))
        steps = -(-k // 64)
        loads = find(module, "nvgpu.mbarrier.arrive.expect_tx")
        assert len(loads) == min(2, steps) + 1, "the prologue's, and the loop's"


def test_the_register_split_that_chapter_5_names_is_refused(tmp_path):
    """240 for each consumer, which the hardware would hang on: at the line of the larger one."""
    from chapters import ch5_warp_specialized_gemm as ch5

    source = Path(ch5.__file__).read_text()
    changed = tmp_path / "changed.py"
    changed.write_text(source.replace("nv.setmaxnreg_inc(232)", "nv.setmaxnreg_inc(240)"))
    spec = importlib.util.spec_from_file_location("changed", changed)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    with pytest.raises(nv.VerifyError, match="66,560") as caught:
        module.gemm.compile(*gemm(512, 512, 1024))
    lines = changed.read_text().splitlines()
    assert caught.value.where.file == str(changed)
    assert "setmaxnreg_inc(240)" in lines[caught.value.where.line - 1]
