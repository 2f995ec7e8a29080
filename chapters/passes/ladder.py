# RUN: %python %s 2>&1 | FileCheck %s
# RUN: %if all %{ %python %s --M 32 --N 128 --K 96 --tile 32x64x32 --warp 16x64 | FileCheck %s --check-prefix=OTHER %}
"""Passes 1: from linalg to tensor cores, one step after the other.

Nothing here says what a thread does. ``sc.matmul`` says what is computed, in linalg; a schedule is a list of steps that
make a kernel of it. The steps are those of Katel, Khandelwal and Bondhugula ("MLIR-based code generation for GPU tensor
cores", 2022), and so is the order of the rows, in which each has one idea more than the one before.

**0 blocks and threads.** ``tile_blocks`` gives each block a tile of C and walks over K in steps. ``tile_threads`` gives
each thread its part of the tile: scalar multiplications and additions, operands from global memory.

**1 shared memory.** ``stage`` copies the block's tiles of A and B into shared memory before they are used, between
barriers. ``copies`` divides the copying among all threads.

**2 WMMA.** ``tile_warps`` gives each warp a tile, ``tile_fragments`` makes loops over pieces of 16 x 16 x 16,
``vectorize`` makes vectors of them, and ``wmma`` matrices of a warp: the tensor cores multiply.

**3 permuted and unrolled.** With k as the outermost of the three loops (``permute``), one piece of A or B meets all of
its partners. ``unroll`` makes straight-line code of the loops, in which a piece is loaded once.

**4 sums in registers.** ``hoist_sums``: the loop over K carries C, which rows 0 to 3 load and store in each turn.

**5 padding.** ``pad``: rows of 64 halves are as long as all banks, and tensor cores read many rows at once. With 8
elements more, rows begin in different banks.

**6 wide copies.** ``copies(8)``: a thread moves 16 bytes in one instruction.

**7 latency hiding.** ``hide_latency``: a turn loads the tiles of the next turn into registers before it multiplies, and
stores them into shared memory behind the products. One copy is peeled off at the start, one product at the end.

What a step changes:

    nvdsl show chapters/passes/ladder.py steps --after hoist_sums --side-by-side

Try: --tile 128x128x64 --warp 64x32, the paper's sizes, with --M 128 --N 128 --K 128; ``sums=nv.f16`` in `sc.matmul`;
another order in `permute`. ``benchmarks/bench_schedule.py`` times the rows.

Next: a step of your own, in ``chapters/passes/own_step.py``.

Break it: hoist the sums out of loops that are still there.

    -     "7 latency hiding": (),
    +     "7 latency hiding": ("unroll",),

    ScheduleError: ladder.py:72: step hoist_sums(): loops over tiles of a tensor core
      rule: each sum is a value of its own
      fix:  unroll('fragments') before

A step says what it needs from those before it.
"""

import numpy as np

import nvdsl as nv
from nvdsl import schedule as sc

WITHOUT = {
    "2 WMMA": ("permute", "unroll", "hoist_sums", "pad", "wide", "hide_latency"),
    "3 permuted and unrolled": ("hoist_sums", "pad", "wide", "hide_latency"),
    "4 sums in registers": ("pad", "wide", "hide_latency"),
    "5 padding": ("wide", "hide_latency"),
    "6 wide copies": ("hide_latency",),
    "7 latency hiding": (),
}


def rows(tile, warp, threads=(16, 16)):
    """Name and schedule of each row."""
    yield "0 blocks and threads", sc.fma_steps(tile, threads, without=["stage", "merge_barriers", "copies"])
    yield "1 shared memory", sc.fma_steps(tile, threads)
    for name, without in WITHOUT.items():
        yield name, sc.wmma_steps(tile, warp, without=without)


# CHECK: 0 blocks and threads      {{.*}} 256 threads
# CHECK: 7 latency hiding {{.*}} 128 threads
# CHECK: PASS
# OTHER: 7 latency hiding
# OTHER: PASS


def main(M=64, N=64, K=96, tile=(64, 64, 32), warp=(32, 32)):
    a, b = (np.random.default_rng(M).integers(-2, 3, shape).astype(np.float16) for shape in ((M, K), (K, N)))
    expected = a.astype(np.float32) @ b.astype(np.float32)
    if why := nv.no_gpu():
        print(f"{why}: in the simulator")
    ladder = [(name, sc.compile(sc.matmul(M, N, K), steps)) for name, steps in rows(tile, warp)]
    compiled = [gemm.compile(a, b, expected) for _, gemm in ladder]
    for (name, gemm), made in zip(ladder, compiled, strict=True):
        c = np.full((M, N), np.nan, np.float32)
        gemm(a, b, c)
        np.testing.assert_array_equal(c, expected)
        (kernel,) = made.kernels.values()
        print(f"{name:24} {len(gemm.steps) - 1:2} steps, {kernel.resources.registers:3} registers, "
              f"{kernel.smem_bytes:6,} bytes of shared memory, {kernel.max_threads} threads")  # fmt: skip
    print("PASS")


if __name__ == "__main__":
    import sys
    from pathlib import Path

    sys.path.append(str(Path(__file__).resolve().parents[1]))
    from command_line import run

    run(main)
