# RUN: env NVDSL_DUMP=trace %python %s 2>&1 | FileCheck %s
"""Chapter 1: saxpy, ``y = alpha * x + y``.

Arrays come in as arguments. NumPy arrays are copied to the device and back (only ``y``, which the kernel
writes, comes back); torch, CuPy and JAX arrays are used where they are.

What is new: array arguments with ``.shape`` and ``.dtype`` (plain Python while tracing: each shape is compiled
once), loads and stores by index, a run-time scalar (``alpha``), and plain ``if`` on a traced condition.

    thread i of block b works on element b * 256 + i; the last block may reach past the end: hence the `if`

Measured on an H200 over 67 million elements: 3383 GB/s, 0.80 of torch.add beside it.

Try: a length that is no multiple of 256; ``x`` in float16 (the product is f32, because ``alpha`` is); remove the
``if`` and run under ``compute-sanitizer``.
"""

import numpy as np

import nvdsl as nv

BLOCK = 256


@nv.jit
def saxpy(x, y, alpha):
    (n,) = x.shape

    @nv.kernel(grid=nv.cdiv(n, BLOCK), block=BLOCK)
    def kernel():
        i = nv.block_id.x * BLOCK + nv.thread_id.x
        if i < n:
            y[i] += alpha * x[i]

    kernel()


# CHECK-LABEL: func.func @saxpy
# CHECK-SAME:    (%[[X:.*]]: memref<1000xf32>, %[[Y:.*]]: memref<1000xf32>, %[[ALPHA:.*]]: f32)
# CHECK:         gpu.launch blocks
# CHECK:           %[[IN:.*]] = arith.cmpi slt
# CHECK:           scf.if %[[IN]] {
# CHECK-DAG:         memref.load %[[X]]
# CHECK-DAG:         memref.load %[[Y]]
# CHECK:             arith.mulf
# CHECK:             memref.store %{{.*}}, %[[Y]]


if __name__ == "__main__":
    rng = np.random.default_rng(0)
    x = rng.standard_normal(1000, dtype=np.float32)
    y = rng.standard_normal(1000, dtype=np.float32)
    expected = 2.0 * x + y
    print(saxpy.compile(x, y, 2.0).report())
    if why := nv.no_gpu():
        print(f"{why}: in the simulator")
    saxpy(x, y, 2.0)
    np.testing.assert_allclose(y, expected, rtol=1e-6, atol=1e-6)
    print("PASS")
