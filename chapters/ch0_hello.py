# RUN: env NVDSL_DUMP=trace %python %s 2>&1 | FileCheck %s
# RUN: %python %s --blocks 1 --threads 2 2>&1 | FileCheck %s --check-prefix=OTHER
"""Chapter 0: hello from GPU threads.

A *host function* (``@nv.jit``) runs on the CPU. Inside it, a *kernel* (``@nv.kernel``) is a nested function that
the GPU runs: once for each thread of each block of the grid. Calling the host function for the first time
traces both into one MLIR module, compiles the kernel with MLIR, LLVM and ptxas, and launches it.

    grid  = 2 blocks          block 0            block 1
    block = 4 threads         t0 t1 t2 t3        t0 t1 t2 t3

What is new: ``@nv.jit``, ``@nv.kernel(grid, block)``, ``nv.block_id``, ``nv.thread_id``, ``print`` of traced values.

On an H200 the eight lines come out; there is nothing to time.

Try: print ``nv.block_id.x * threads + nv.thread_id.x``; make the block 2-D with ``block=(2, 2)`` and print
``nv.thread_id.y``; look at what you wrote as MLIR with ``NVDSL_DUMP=trace python chapters/ch0_hello.py``.

Next: a kernel has to work on data, so chapter 1 passes arrays.

Break it: ask for one thread more than a block can have.

    -     @nv.kernel(grid=blocks, block=threads)
    +     @nv.kernel(grid=blocks, block=1025)

    TraceError: ch0_hello.py:42: a block of 1025 x 1 x 1 = 1025 threads
      rule: a block has at most 1024 threads, 64 along z (CUDA programming guide, compute capabilities)
      fix:  use a smaller block and more blocks

The size of a block is known while the kernel is traced, so nothing is compiled.
"""

import nvdsl as nv


@nv.jit
def hello(*, blocks=2, threads=4):
    @nv.kernel(grid=blocks, block=threads)
    def kernel():
        print("Hello from block", nv.block_id.x, "thread", nv.thread_id.x)

    kernel()


# CHECK-LABEL: func.func @hello()
# CHECK:         gpu.launch blocks
# CHECK:           gpu.block_id x
# CHECK:           gpu.thread_id x
# CHECK:           gpu.printf "Hello from block
# OTHER-COUNT-2: Hello from block 0 thread
# OTHER-NOT:     Hello


def main(blocks=2, threads=4):
    print(hello.compile(blocks=blocks, threads=threads).report())
    if why := nv.no_gpu():
        print(f"{why}: in the simulator")
    hello(blocks=blocks, threads=threads)
    nv.synchronize()


if __name__ == "__main__":
    from command_line import run

    run(main)
