"""Regions of several blocks: lanes part at a branch, run on by themselves, and meet again with the right values."""

import numpy as np
import pytest

import nvdsl as nv
from nvdsl import sim
from nvdsl.mlir import ir
from nvdsl.mlir.dialects import arith, cf, scf
from tests.sim.simulate import run, zeros


def collatz(n):
    """How many steps lead to 1, as blocks: loop(n, steps), even, odd, end."""
    i32 = ir.IntegerType.get_signless(32)
    region = scf.ExecuteRegionOp([i32])
    entry = region.regions[0].blocks.append()
    loop = region.regions[0].blocks.append(i32, i32)
    body = region.regions[0].blocks.append()
    even = region.regions[0].blocks.append()
    odd = region.regions[0].blocks.append()
    following = region.regions[0].blocks.append(i32)
    end = region.regions[0].blocks.append(i32)

    def constant(x):
        return arith.constant(i32, x)

    at, steps = loop.arguments
    with ir.InsertionPoint(entry):
        cf.br([n, constant(0)], loop)
    with ir.InsertionPoint(loop):
        cf.cond_br(arith.cmpi(arith.CmpIPredicate.eq, at, constant(1)), [steps], [], end, body)
    with ir.InsertionPoint(body):
        more = arith.addi(steps, constant(1))
        is_odd = arith.andi(at, constant(1))
        cf.cond_br(arith.cmpi(arith.CmpIPredicate.eq, is_odd, constant(0)), [], [], even, odd)
    with ir.InsertionPoint(even):
        cf.br([arith.shrsi(at, constant(1))], following)
    with ir.InsertionPoint(odd):
        cf.br([arith.addi(arith.muli(at, constant(3)), constant(1))], following)
    with ir.InsertionPoint(following):
        cf.br([following.arguments[0], more], loop)
    with ir.InsertionPoint(end):
        scf.yield_([end.arguments[0]])
    return region.results[0]


@nv.jit
def counted(x, out):
    @nv.kernel(grid=1, block=64)
    def kernel():
        out[nv.thread_id.x] = collatz(x[nv.thread_id.x])

    kernel()


@pytest.mark.parametrize("uniform", [True, False])
def test_lanes_part_and_meet(uniform):
    def steps(n):
        count = 0
        while n != 1:
            n = n // 2 if n % 2 == 0 else 3 * n + 1
            count += 1
        return count

    x = np.full(64, 27, np.int32) if uniform else np.arange(1, 65, dtype=np.int32)
    for options in (sim.Options(), sim.Options(delivery="random", order="random", seed=1)):
        out = zeros(64, dtype=np.int32)
        run(counted, x, out, options=options)
        assert out.tolist() == [steps(int(n)) for n in x]
