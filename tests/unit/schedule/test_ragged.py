"""Extents that are no multiples of the tiles: every end computes them, and touches nothing outside."""

import itertools

import numpy as np
import pytest

import nvdsl as nv
from nvdsl import schedule as sc
from nvdsl.errors import ScheduleError
from tests.exhaustive import sample
from tests.unit.schedule.products import BLOCK, WARP, product, relu

ENDS = {
    "fma": sc.fma_steps((8, 16, 8), (4, 8)),
    "fma, no shared memory": sc.fma_steps((8, 16, 8), (4, 8), without=("stage", "merge_barriers", "copies")),
    "wmma": sc.wmma_steps(BLOCK, WARP),
    "wmma, cp.async": [*sc.wmma_steps(BLOCK, WARP, without=["hide_latency"]), sc.copy_async(3)],
    "mma.sync": sc.mma_steps(BLOCK, WARP),
    "mma.sync, cp.async": sc.mma_steps(BLOCK, WARP, stages=3),
}
SIZES = [(33, 72, 40), (65, 63, 33), (1, 1, 1), (64, 68, 34), (31, 64, 96), (64, 64, 41), (7, 130, 16)]
"""Of each axis alone, and of all: rows of 16, 8, 4 and 2 bytes."""


@pytest.mark.parametrize(("name", "size"), sample(itertools.product(ENDS, SIZES), 7))
def test_any_extents(name, size):
    if name.startswith("fma"):
        size = [-(-extent // 4) for extent in size]
    assert product(ENDS[name], *size) == 0


@pytest.mark.parametrize(("name", "what"), sample(itertools.product(ENDS, (
    {"batch": 2}, {"transpose_a": True}, {"transpose_b": True, "add": True}, {"add": True, "batch": 3},
)), 4))  # fmt: skip
def test_any_extents_of_other_payloads(name, what):
    def reference(a, b, c):
        a = a.swapaxes(-1, -2) if what.get("transpose_a") else a
        b = b.swapaxes(-1, -2) if what.get("transpose_b") else b
        return a @ b + (c if what.get("add") else 0)

    size = (9, 13, 10) if name.startswith("fma") else (35, 50, 37)
    assert product(ENDS[name], *size, reference, **what) == 0


@pytest.mark.parametrize("name", ["fma", "wmma"])
@pytest.mark.parametrize(("kind", "view"), [("m", lambda e: e[:, None]), ("n", lambda e: e), ("mn", lambda e: e)])
def test_what_is_behind_the_product(name, kind, view):
    what = {"then": lambda x, e: relu(x * 2.0 + e), "operands": [kind]}
    size = (9, 13, 10) if name.startswith("fma") else (35, 50, 37)
    assert product(ENDS[name], *size, lambda a, b, e, c: np.maximum(2 * (a @ b) + view(e), 0), **what) == 0


def test_f16_sums_and_tf32():
    assert product(ENDS["wmma"], 35, 50, 37, sums=nv.f16, to="f2") == 0
    assert product(ENDS["mma.sync"], 35, 50, 37, sums=nv.f16, to="f2") == 0
    assert product(sc.wmma_steps(BLOCK, WARP, nv.f32), 35, 50, 37, of="f4", dtype=nv.f32) == 0


def test_a_payload_on_memrefs():
    types = "memref<35x33xf16>", "memref<33x50xf16>", "memref<35x50xf32>"
    text = f"""func.func @gemm(%A: {types[0]}, %B: {types[1]}, %C: {types[2]}) {{
      linalg.matmul ins(%A, %B : {types[0]}, {types[1]}) outs(%C : {types[2]})
      return }}"""
    a, b = (np.random.default_rng(0).integers(-2, 3, shape).astype(np.float16) for shape in ((35, 33), (33, 50)))
    c = np.ones((35, 50), np.float32)
    sc.compile(sc.payload(text), ENDS["wmma"])(a, b, c, target="sim")
    np.testing.assert_array_equal(c, a.astype(np.float32) @ b + 1)


def test_mask_is_a_step_that_comes_by_itself_where_it_is_needed():
    whole, ragged = (sc.compile(sc.matmul(n, 64, 64), ENDS["wmma"]) for n in (64, 65))
    assert [step.name for step in whole.steps[-2:]] == ["wmma", "finish"]
    assert [step.name for step in ragged.steps[-2:]] == ["mask", "finish"]
    by_hand = sc.compile(sc.matmul(65, 64, 64), [*ENDS["wmma"], sc.mask(), sc.finish()])
    assert by_hand.mlir == ragged.mlir
    with pytest.raises(ScheduleError, match=r"mask\(\): there is no gpu.launch"):
        sc.compile(sc.matmul(65, 64, 64), [sc.tile_blocks(*BLOCK), sc.bufferize(), sc.mask()])
