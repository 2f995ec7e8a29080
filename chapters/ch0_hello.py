# RUN: env NVDSL_DUMP=trace %python %s 2>&1 | FileCheck %s
"""Chapter 0: hello from GPU threads.

A *host function* (``@nv.jit``) runs on the CPU. Inside it, a *kernel* (``@nv.kernel``) is a nested function that
the GPU runs: once for each thread of each block of the grid. Calling the host function for the first time
traces both into one MLIR module, compiles the kernel with MLIR, LLVM and ptxas, and launches it.

    grid  = 2 blocks          block 0            block 1
    block = 4 threads         t0 t1 t2 t3        t0 t1 t2 t3

What is new: ``@nv.jit``, ``@nv.kernel(grid, block)``, ``nv.block_id``, ``nv.thread_id``, ``print`` of traced values.

On an H200 the eight lines come out; there is nothing to time.

Try: print ``nv.block_id.x * 4 + nv.thread_id.x``; make the block 2-D with ``block=(2, 2)`` and print
``nv.thread_id.y``; look at what you wrote as MLIR with ``NVDSL_DUMP=trace python chapters/ch0_hello.py``.
"""

import nvdsl as nv


@nv.jit
def hello():
    @nv.kernel(grid=2, block=4)
    def kernel():
        print("Hello from block", nv.block_id.x, "thread", nv.thread_id.x)

    kernel()


# CHECK-LABEL: func.func @hello()
# CHECK:         gpu.launch blocks
# CHECK:           gpu.block_id x
# CHECK:           gpu.thread_id x
# CHECK:           gpu.printf "Hello from block

if __name__ == "__main__":
    print(hello.compile().report())
    if why := nv.no_gpu():
        print(f"{why}: in the simulator")
    hello()
    nv.synchronize()
