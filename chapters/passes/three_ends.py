# RUN: %python %s 2>&1 | FileCheck %s
# RUN: %if all %{ %python %s --M 256 --N 128 --K 256 --tile 128x128x64 --stages 3 | FileCheck %s --check-prefix=OTHER %}
"""Passes 3: three ends from one front.

The front is the same for all tensor cores: tiles for blocks, buffers, tiles in shared memory. What follows is a choice.

**WMMA** (``sc.wmma_steps``): matrices of a warp, whose layout in registers nobody tells. Operands are loaded from
padded rows.

**mma.sync** (``sc.mma_steps``): ``mma_sync`` gives each lane its registers. ``ldmatrix`` loads them, and ``swizzle``
permutes each row's parts of 16 bytes, so that eight rows of a matrix lie in different banks.

**mma.sync with cp.async** (``stages=3``): ``copy_async`` in the place of ``hide_latency``. Copies go from global to
shared memory without registers, two turns ahead, into three buffers. A turn waits for its own group of copies. One
barrier then says both: the tiles are there for all, and the buffer of the turn before is free. ``prefetch`` moves both
before the last products of a turn, which then hide the first ``ldmatrix`` of the next.

**wgmma** (``sc.wgmma_steps``): Hopper's own. One thread loads by TMA into a ring with mbarriers, and warpgroups
multiply straight from shared memory, as chapter 5 does by hand. An element of C is finished in its register, by any
function. ``persistent`` makes a loop over tiles of the blocks first, as chapter 7 does: the ring goes on from one tile
to the next, so that loads run while C is stored.

    wmma       load_matrix, mma       pad(8)      hide_latency()    add, multiply, divide, minimum, maximum behind it
    mma_sync   ldmatrix, mma.sync     swizzle()   copy_async(3)     anything behind it
    wgmma      TMA, wgmma             swizzled by TMA, a ring of 4  anything behind it

Each is refused by its step where it does not fit: ``wmma`` for bf16, ``wgmma`` for f32 whose K is not along the rows,
and so on (docs/schedules.md has a table).

Try: ``nvdsl show chapters/passes/three_ends.py steps --after persistent``, the same with ``ptx`` in the place of
``steps ...``; ``transpose_a=True`` in `sc.matmul`.

Break it: a ring of one slot.

    -     yield "wgmma, TMA, ring", sc.wgmma_steps(tile, stages)
    +     yield "wgmma, TMA, ring", sc.wgmma_steps(tile, 1)

    ScheduleError: three_ends.py:54: step wgmma(1, 2): 1 stages for 2 warpgroups
      rule: a ring has two slots or more, and a block at most 1,024 threads
      fix:  wgmma(4, 2)
"""

import numpy as np

import nvdsl as nv
from nvdsl import schedule as sc


def ends(tile, warp, stages):
    """Name and schedule of each end."""
    yield "wmma, pad", sc.wmma_steps(tile, warp)
    yield "mma.sync, swizzle", sc.mma_steps(tile, warp)
    yield f"mma.sync, cp.async x {stages}", sc.mma_steps(tile, warp, stages=stages)
    yield "wgmma, TMA, ring", sc.wgmma_steps(tile, stages)


# CHECK: wmma, pad {{.*}} wmma.mma
# CHECK: mma.sync, swizzle {{.*}} ldmatrix, mma.sync
# CHECK: mma.sync, cp.async x 3 {{.*}} cp.async.cg, ldmatrix, mma.sync
# CHECK: wgmma, TMA, ring {{.*}} cp.async.bulk.tensor, wgmma.mma_async
# CHECK: wgmma, silu
# CHECK: PASS
# OTHER: PASS

INSTRUCTIONS = ("cp.async.cg", "cp.async.bulk.tensor", "ldmatrix", "wmma.mma", "\tmma.sync", "wgmma.mma_async")


def main(M=128, N=128, K=256, tile=(128, 64, 64), warp=(64, 32), stages=3):
    a, b = (np.random.default_rng(M).integers(-2, 3, shape).astype(np.float16) for shape in ((M, K), (K, N)))
    expected = a.astype(np.float32) @ b.astype(np.float32)
    if why := nv.no_gpu():
        print(f"{why}: in the simulator")

    silu = sc.matmul(M, N, K, then=lambda x: x / (1.0 + nv.math.exp(-x)))
    of_silu = expected / (1 + np.exp(-expected.astype(np.float64)))
    rows = [(name, sc.compile(sc.matmul(M, N, K), steps), expected) for name, steps in ends(tile, warp, stages)]
    rows.append(("wgmma, silu", sc.compile(silu, sc.wgmma_steps(tile, stages)), of_silu))
    compiled = [gemm.compile(a, b, expected) for _, gemm, _ in rows]
    for (name, gemm, wanted), made in zip(rows, compiled, strict=True):
        c = np.full((M, N), np.nan, np.float32)
        gemm(a, b, c)
        np.testing.assert_allclose(c, wanted, rtol=1e-5, atol=1e-5)
        (kernel,) = made.kernels.values()
        used = [one.strip() for one in INSTRUCTIONS if one in kernel.ptx]
        print(f"{name:24} {len(gemm.steps) - 1:2} steps, {kernel.resources.registers:3} registers, "
              f"{kernel.smem_bytes:7,} bytes of shared memory: {', '.join(used)}")  # fmt: skip
    print("PASS")


if __name__ == "__main__":
    import sys
    from pathlib import Path

    sys.path.append(str(Path(__file__).resolve().parents[1]))
    from command_line import run

    run(main)
