"""Collecting what a program compiles, instead of running it."""

import numpy as np

import nvdsl as nv
from nvdsl.call import collect
from nvdsl.thin import NVDSL


@nv.jit
def fill(x, *, value=1.0):
    @nv.kernel(grid=1, block=32)
    def kernel():
        x[nv.thread_id.x] = value

    kernel()


@NVDSL.mlir_func
def thin(x):
    @NVDSL.mlir_gpu_launch(grid=(1, 1, 1), block=(1, 1, 1))
    def kernel():
        pass

    kernel()


def test_calls_compile_and_run_nothing(compiled):
    x = np.zeros(32, np.float32)
    with collect.compiled() as found:
        fill(x)
        fill(x)
        fill(x, value=2.0)
        thin(x)
    assert [one.name for one in found] == ["fill", "fill", "thin"]
    assert len(compiled) == 3
    assert not x.any()


def test_afterwards_they_run_again():
    x = np.zeros(32, np.float32)
    with collect.compiled():
        pass
    assert not collect.active()
    fill(x, target="sim")
    assert x.all()
