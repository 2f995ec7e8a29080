# RUN: %python %s 2>&1 | FileCheck %s
# RUN: %if all %{ %python %s --M 70 --N 33 --K 40 --stages 2 2>&1 | FileCheck %s --check-prefix=OTHER %}
"""SIMT 3: copies behind the arithmetic, and the whole ladder.

**6 double buffering.** In the rows before, a step of K first waits for memory, and then multiplies. Here there are
several buffers for each tile. ``nv.copy(..., asynchronous=True)`` starts copies (cp.async) that nobody waits for until
their tile is needed, ``stages - 1`` steps later. Each step closes a group of copies. "All groups but ``stages - 2``"
are then those of this step's tiles. One barrier in a step says two things: the tiles are there for all threads, and the
buffer of the step before is free.

    stages = 3    step 0     step 1     step 2     step 3
    buffer 0      multiply   fill 3     .          multiply
    buffer 1      .          multiply   fill 4     .
    buffer 2      fill 2     .          multiply   fill 5

In a schedule this is the step ``copy_async(stages)``.

The program then goes through the whole ladder, from the naive kernel to this one; ``benchmarks/bench_simt.py`` times it
beside cuBLAS.

Try: --stages 2; ``nvdsl show chapters/simt/ladder.py steps --after copy_async``.

Next: tensor cores. ``chapters/passes/ladder.py`` goes there by schedules, chapter 3 by hand.

Break it: fill all buffers before the loop.

    -         for slot in range(stages - 1):
    +         for slot in range(stages):

    SimError: ladder.py:62: cp.async by warp 0 at ladder.py:62 touches bytes 5120..5183 of shared memory (and more) of
          cp.async by warp 0 at ladder.py:62: nothing orders the two
      first:  cp.async by warp 0 at ladder.py:62
      second: cp.async by warp 0 at ladder.py:62
      rule: the bytes of a cp.async are there for the thread that waited for its group (PTX ISA, cp.async)
      fix:  nv.cp_async_commit() and nv.cp_async_wait(0) in the threads that copied, then a barrier, before the access
"""

import nvdsl as nv
from chapters.simt import blocks, registers
from nvdsl import schedule as sc


@nv.jit
def ahead(a, b, c, *, tile=(128, 128, 32), threads=(16, 16), stages=3):
    (m, k), (_, n) = a.shape, b.shape
    depth = tile[2]
    steps = nv.cdiv(k, depth)

    @nv.kernel(grid=(nv.cdiv(n, tile[1]), nv.cdiv(m, tile[0])), block=threads[0] * threads[1])
    def kernel():
        A = nv.smem((stages * tile[0], depth + 4), nv.f32)
        B = nv.smem((stages * depth, tile[1]), nv.f32)
        top, left = nv.block_id.y * tile[0], nv.block_id.x * tile[1]
        rows, columns = registers.places(tile, threads, True)

        def buffers(slot):
            return A[slot * tile[0] : (slot + 1) * tile[0], :depth], B[slot * depth : (slot + 1) * depth, :]

        def fetch(step, slot):
            at = step * depth
            to_a, to_b = buffers(slot)
            nv.copy(a[top : top + tile[0], at : at + depth], to_a, asynchronous=True)
            nv.copy(b[at : at + depth, left : left + tile[1]], to_b, asynchronous=True)

        for slot in range(stages - 1):
            if slot < steps:
                fetch(nv.i32(slot), slot)
            nv.cp_async_commit()
        acc = [[nv.f32(0) for _ in columns] for _ in rows]
        for step in nv.range(steps):
            nv.cp_async_wait(stages - 2)
            nv.sync_threads()
            ahead = step + (stages - 1)
            if ahead < steps:
                fetch(ahead, ahead % stages)
            nv.cp_async_commit()
            acc = registers.multiply(*buffers(step % stages), rows, columns, acc, True)
        registers.store(c, top, left, rows, columns, acc, True)

    kernel()


def rows(tile=(128, 128, 32), threads=(16, 16), stages=3):
    """Name, kernel with its options, and schedule of each row of the ladder."""
    yield from blocks.rows(threads, 16)
    yield from registers.rows(tile, threads)
    steps = sc.simt_steps(tile, (threads[0], 4 * threads[1]), threads, stages=stages)
    yield "6 double buffering", ahead, {"tile": tile, "threads": threads, "stages": stages}, steps


# CHECK: 0 naive
# CHECK: 6 double buffering
# CHECK: PASS
# OTHER: 6 double buffering
# OTHER: PASS


def main(M=32, N=32, K=48, tile=(32, 32, 16), threads=(8, 4), stages=3):
    blocks.check(rows(tile, threads, stages), M, N, K)


if __name__ == "__main__":
    import sys
    from pathlib import Path

    sys.path.append(str(Path(__file__).resolve().parents[1]))
    from command_line import run

    run(main)
