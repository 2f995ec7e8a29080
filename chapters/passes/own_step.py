# RUN: %python %s 2>&1 | FileCheck %s
# RUN: %python %s --M 96 --N 128 --K 64 --group 2 2>&1 | FileCheck %s --check-prefix=OTHER
"""Passes 2: a step of your own.

A GPU starts blocks in the order of their numbers, row after row of tiles. The blocks that run at the same time then
need one row of A and all of B. In groups of some rows of tiles they need a few rows of A and a few columns of B, which
stay in the L2 cache (chapter 7 does the same by hand).

``group_blocks`` is this as a step: a function of a `Work`, decorated with ``sc.step``. It finds the launch's block ids,
computes others from them with MLIR's builders, and lets everything use these. The last group has fewer rows where the
number of rows is no multiple of ``rows``. The step says by ``work.refuse`` what it can't do, and the error names it and
the line of the schedule. Where a transform of MLIR's does the work, ``with work.transform() as script`` builds one.

    before                         after group_blocks(2), with 4 rows of 3 tiles
     0  1  2                        0  2  4
     3  4  5                        1  3  5
     6  7  8                        6  8 10
     9 10 11                        7  9 11

Try: --group 1, --group 100; ``nvdsl show chapters/passes/own_step.py steps --after group_blocks``.

Break it: forget that the last group may have fewer rows.

    -         height = arith.minsi(number(rows), arith.subi(number(down), first))
    +         height = number(rows)

    SimError: <matmul after finish()>:58: vector.load by warp 0 of block (1, 2) lane 0: index 96 on axis 0 of an array
          of 96 x 64
      rule: indices are 0 to extent - 1
      fix:  guard the access with an `if`, or change the grid

Three rows of tiles in groups of two: the second group has one.
"""

import numpy as np

import nvdsl as nv
from nvdsl import schedule as sc
from nvdsl.ir.walk import constant
from nvdsl.mlir import ir
from nvdsl.mlir.dialects import arith


@sc.step
def group_blocks(work, rows):
    """Numbers the blocks by groups of rows of tiles, and in each group column by column."""
    launch = work.one("gpu.launch", made_by="launch() before")
    across, down = (constant(size) for size in list(launch.operands)[:2])
    ids = {str(op.attributes["dimension"])[-2]: op for op in work.find("gpu.block_id")}
    if rows < 1 or set(ids) != {"x", "y"}:
        work.refuse(f"groups of {rows} rows of blocks", "it numbers blocks of two axes, in groups of 1 row or more")
    old = [ids["x"].results[0], ids["y"].results[0]]
    uses = [[(use.owner.operation, use.operand_number) for use in value.uses] for value in old]
    last = max(ids.values(), key=list(launch.regions[0].blocks[0].operations).index)
    with ir.InsertionPoint.after(last), launch.location:
        def number(n):
            return arith.constant(ir.IndexType.get(), n)

        place = arith.addi(arith.muli(old[1], number(across)), old[0])
        first = arith.muli(arith.divui(place, number(rows * across)), number(rows))
        within = arith.remui(place, number(rows * across))
        height = arith.minsi(number(rows), arith.subi(number(down), first))
        made = arith.divui(within, height), arith.addi(first, arith.remui(within, height))
    for new, users in zip(made, uses, strict=True):
        for user, operand in users:
            user.operands[operand] = new


# CHECK: step group_blocks(0): groups of 0 rows of blocks
# CHECK: PASS
# OTHER: PASS


def main(M=96, N=128, K=64, group=2):
    steps = sc.wmma_steps((32, 32, 32), (32, 32))
    place = [step.name for step in steps].index("launch") + 1
    gemm = sc.compile(sc.matmul(M, N, K), [*steps[:place], group_blocks(group), *steps[place:]])
    a, b = (np.random.default_rng(M).integers(-2, 3, shape).astype(np.float16) for shape in ((M, K), (K, N)))
    c = np.full((M, N), np.nan, np.float32)
    if why := nv.no_gpu():
        print(f"{why}: in the simulator")
    gemm(a, b, c)
    np.testing.assert_array_equal(c, a.astype(np.float32) @ b.astype(np.float32))
    try:
        sc.compile(sc.matmul(M, N, K), [*steps[:place], group_blocks(0)])
    except nv.ScheduleError as error:
        print(error)
    print("PASS")


if __name__ == "__main__":
    import sys
    from pathlib import Path

    sys.path.append(str(Path(__file__).resolve().parents[1]))
    from command_line import run

    run(main)
