# RUN: env CUDA_VISIBLE_DEVICES= NVDSL_TARGET=gpu not %python %s 2>&1 | FileCheck %s

"""A call that is to run on a GPU, where there is none."""

import numpy as np

import nvdsl as nv


@nv.jit
def double(x):
    @nv.kernel(grid=1, block=64)
    def kernel():
        x[nv.thread_id.x] *= 2.0

    kernel()


assert nv.no_gpu() is not None
double(np.ones(64, np.float32))

# CHECK: nvdsl.errors.DeviceError: {{.+}}
