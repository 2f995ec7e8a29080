"""Tiles by a search over a space: candidates run on the simulator, whose processor time stands for the GPU's."""

import functools

import numpy as np
import pytest

import nvdsl as nv
from nvdsl import schedule as sc
from nvdsl.errors import TuneError
from nvdsl.tune.bench import ProcessBench
from tests.exhaustive import exhaustive
from tests.unit.schedule.products import numbers

HERE = {
    "make_bench": functools.partial(ProcessBench, factory="tests.unit.tune.benches:SimBench"),
    "compiler": "tests.unit.tune.benches:SimCompiler",
}


@exhaustive
def test_the_fastest_of_a_space_is_chosen_and_works():
    space = nv.Space(block=[(32, 32, 32), (32, 48, 32)], warp=[(32, 32), (48, 32)])
    gemm = sc.tune(sc.matmul(40, 64, 64), sc.wmma_steps, space, **HERE)
    assert gemm.tuning.config["block"] == (32, 32, 32) and gemm.tuning.count()["pruned"] == 3
    assert "step tile_warps(48, 32)" in str(gemm.tuning)
    a, b, c = numbers((40, 64), "f2", 0), numbers((64, 64), "f2", 1), np.zeros((40, 64), np.float32)
    gemm(a, b, c, target="sim")
    np.testing.assert_array_equal(c, np.float32(a) @ np.float32(b))


def test_a_space_in_which_nothing_fits():
    with pytest.raises(TuneError, match="no configuration is left"):
        sc.tune(sc.matmul(32, 32, 32), sc.wmma_steps, nv.Space(warp=[(24, 24)]), **HERE)


@pytest.mark.skipif(nv.no_gpu() is None, reason="there is a GPU")
def test_without_a_gpu():
    with pytest.raises(TuneError, match="tuning matmul: .*libcuda|tuning matmul: .*GPU"):
        sc.tune(sc.matmul(32, 32, 32), sc.wmma_steps, nv.Space(warp=[(32, 32)]))
