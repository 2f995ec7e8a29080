# RUN: %python %s 2>&1 | FileCheck %s
# RUN: %if all %{ %python %s --M 256 --N 256 --K 128 --budget 10 2>&1 | FileCheck %s %}
"""Chapter 10: autotuning. The fastest schedule, tile, ring and order of tiles for a shape, found by trying them.

No configuration is the fastest for all shapes: large tiles read less, and leave SMs idle where there are few; ping-pong
hides the epilogue, and has smaller tiles; how many rows of tiles make a group is a matter of what L2 holds.

    space        24 of chapter 7's kernels and 24 of chapter 9's, as data
    pruned       what does not fit into shared memory, or does not divide M and N: no compiler sees it
    compiled     the rest, in processes; what spills is out
    compared     each result with the others': a wrong one is out, however fast
    raced        in turn on one GPU, L2 flushed before each; after each heat the slower half goes
    kept         in the user's cache, for this GPU, dtype, layout and class of shapes: a call looks it up

Measured on an H200 at M = N = K = 8192: 777 TFLOPS, 1.02 of cuBLAS beside it, with what 20 seconds of tuning found
(ping-pong, 128 x 192 x 64, 4 stages, groups of 16); at 2048 and 4096 it found chapter 7's 128 x 256.

What is new: `nv.autotune`, `nv.Space`, ``space + space``, ``tune``. docs/tuning.md says what each step does.

Try: NVDSL_TUNE=always, and no ``tune`` in `main`; --M 256 --N 4096; a condition that keeps only stages=4.

Next: `nv.matmul` is made of the same pieces, takes arrays of any shape and layout, and comes with a table.

Break it: give an axis of the space one value instead of a list.

    - RINGS = {"stages": [3, 4, 5, 6], "group": [4, 8, 16]}
    + RINGS = {"stages": 4, "group": [4, 8, 16]}

    ArgumentError: ch10_autotuned_gemm.py:49: the axis stages of a Space is 4
      rule: an axis is a list of the values to try, or a function that returns one
      fix:  Space(stages=[4])

An axis is a list, also of one value. The same holds for strings: nobody takes them apart letter by letter.
"""

import sys
from pathlib import Path

import numpy as np

import nvdsl as nv

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # also when it is run as a program
from chapters import ch7_persistent_gemm as ch7
from chapters import ch9_pingpong_gemm as ch9

SCHEDULES = {"cooperative": ch7.gemm, "pingpong": ch9.gemm}
RINGS = {"stages": [3, 4, 5, 6], "group": [4, 8, 16]}
COOPERATIVE = nv.Space(schedule=["cooperative"], tile=[(128, 128, 64), (128, 256, 64)], **RINGS)
PINGPONG = nv.Space(schedule=["pingpong"], tile=[(128, 128, 64), (128, 192, 64)], **RINGS)
SPACE = (COOPERATIVE + PINGPONG).where(
    lambda tile, d: d.shape[0] * d.shape[1] >= tile[0] * tile[1], "the result is no smaller than a tile"
)


@nv.autotune(SPACE)
@nv.jit
def gemm(a, b, d, *, schedule="cooperative", tile=(128, 256, 64), stages=4, group=8, blocks=132):
    """d[M, N] = a[M, K] @ b[K, N]; f16 in, f32 sums, f16 out. ``blocks`` is not tuned: as many as there are SMs."""
    host = SCHEDULES[schedule].__wrapped__  # the function under nv.jit
    host(a, b, d, tile=tile, stages=stages, group=group, blocks=blocks)


# The shapes of `main` on a machine without a GPU: the defaults.
# CHECK: gemm(a {{.*}}schedule={{.*}}tile=
# CHECK: PASS


def main(M=512, N=768, K=256, budget=45.0):
    rng = np.random.default_rng(0)
    a = rng.standard_normal((M, K)).astype(np.float16)
    b = rng.standard_normal((K, N)).astype(np.float16)
    d = np.full((M, N), np.nan, np.float16)
    blocks = 3 if nv.no_gpu() else 132  # in the simulator few blocks are quicker than many
    print(gemm.tune(a, b, d, blocks=blocks, budget=budget))
    if why := nv.no_gpu():
        print(f"{why}: in the simulator")
    gemm(a, b, d, blocks=blocks)
    expected = a.astype(np.float32) @ b.astype(np.float32)
    error = np.linalg.norm(d - expected) / np.linalg.norm(expected)
    print(f"relative error against NumPy in float32: {error:.1e}")
    assert error < 1e-3  # d is rounded to f16
    print("PASS")


if __name__ == "__main__":
    from command_line import run

    run(main)
