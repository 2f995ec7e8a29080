"""The chapters and the programs in LLVM's style, as a user runs them."""

import pytest

from nvdsl.testing import run_in_child

CHAPTERS = {
    "ch0_hello": "Hello from block 1 thread 3",
    "ch1_saxpy": "PASS",
    "ch2_tma_saxpy": "PASS",
    "ch3_wgmma_tile": "PASS",
    "ch4_multistage_gemm": "PASS",
    "ch5_warp_specialized_gemm": "PASS",
    "ch6_tma_store_gemm": "PASS",
    "ch7_persistent_gemm": "PASS",
    "ch8_cluster_gemm": "PASS",
    "ch9_pingpong_gemm": "PASS",
    "ch10_autotuned_gemm": "PASS",
    "ch11_row_softmax": "PASS",
    "ch12_transpose": "PASS",
    "ch13_histogram": "PASS",
    "ch14_fused_epilogue": "PASS",
    "ch15_dynamic_shapes": "PASS",
    "ch16_online_softmax": "PASS",
    "ch17_layer_norm": "PASS",
    "ch18_mlp": "PASS",
    "ch19_recurrent": "PASS",
    "passes/ladder": "PASS",
    "passes/own_step": "PASS",
    "passes/three_ends": "PASS",
    "simt/blocks": "PASS",
    "simt/registers": "PASS",
    "simt/ladder": "PASS",
    "attention/one_tile": "PASS",
    "attention/ladder": "rung 4, queue: PASS",
    "attention/backward": "PASS",
}
COMPAT = {
    "ch0_hello": "GPU thread 3 has 103",
    "ch1_saxpy": "PASS",
    "ch2_tma_saxpy": "PASS",
    "ch3_wgmma_tile": "PASS",
    "ch4_multistage_gemm": "PASS",
    "ch5_warp_specialized_gemm": "PASS",
}


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.alone if name.startswith("ch10") else ()) for name in CHAPTERS]
)
def test_chapter(name):
    seconds = 150 if name.startswith("ch10") else 90  # it tunes for 45
    assert CHAPTERS[name] in run_in_child(f"chapters/{name}.py", timeout=seconds).stdout


@pytest.mark.parametrize("name", COMPAT)
def test_llvm_style(name):
    assert COMPAT[name] in run_in_child(f"tests/compat/{name}.py", timeout=90).stdout
