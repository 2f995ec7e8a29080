"""Accumulators are read when their wgmma is done: every way to wait too little."""

import pytest

import nvdsl as nv
from nvdsl.layout import Operand
from nvdsl.mlir.dialects import llvm
from nvdsl.ops import wgmma
from nvdsl.thin import NVDSL, TMA, T, WGMMAMatrix, WGMMAType, get_dynamic_shared_memory, nvgpu
from tests.unit.kernels import array
from tests.unit.verify.verdicts import accepted, line, verdict

D = array(nv.f32, 64, 64)


def tiles():
    return [nv.smem((64, 64), nv.f16, swizzle=128) for _ in range(2)]


def once(wait, commit=True):
    def body(d):
        a, b = tiles()
        acc = nv.accumulator(64, 64)
        acc = acc.mma(a, b, commit=commit)
        wait()
        acc.store(d, (0, 0))

    return body


def test_a_wait_for_all():
    accepted(once(lambda: nv.wgmma_wait(0)), D)


def test_no_wait():
    body = once(lambda: None)
    error = verdict(body, "acc.store", D)
    assert f"while the wgmma at line {line(body, 'acc.mma')} may be in flight: nothing waits" in error.message
    assert "nv.wgmma_wait(0)" in error.fix


def test_a_wait_that_leaves_it_in_flight():
    body = once(lambda: nv.wgmma_wait(1))
    assert "leaves 1 group in flight" in verdict(body, "acc.store", D).message


def test_a_wait_for_what_is_not_committed():
    body = once(lambda: nv.wgmma_wait(0), commit=False)
    assert "no group has been committed" in verdict(body, "acc.store", D).message


def two(pending):
    """The first of two accumulators is read while the second's wgmma may go on."""

    def body(d):
        a, b = tiles()
        one, other = nv.accumulator(64, 64), nv.accumulator(64, 64)
        one += a @ b
        other += a @ b
        nv.wgmma_wait(pending)
        one.store(d, (0, 0))
        nv.wgmma_wait(0)
        other.store(d, (0, 0))

    return body


def test_a_wait_may_leave_younger_groups():
    accepted(two(1), D)
    verdict(two(2), "one.store", D)


def loop(wait_inside=lambda: None, wait_behind=lambda: None, read=lambda acc: acc):
    def body(d, n):
        a, b = tiles()
        acc = nv.accumulator(64, 64)
        for _ in nv.range(n):
            acc += a @ b
            wait_inside()
            acc = read(acc)
        wait_behind()
        acc.store(d, (0, 0))

    return body


def all_done():
    nv.wgmma_wait(0)


def all_but_one():
    nv.wgmma_wait(1)


def double(acc):
    return acc.map(lambda x: x * 2.0)


@pytest.mark.parametrize("n", [4, 1])
def test_loops_carry_what_is_in_flight(n):
    accepted(loop(all_but_one, all_done), D, n)
    accepted(loop(all_done), D, n)
    verdict(loop(all_but_one), "acc.store", D, n)
    verdict(loop(), "acc.store", D, n)


def test_reads_within_a_loop():
    accepted(loop(all_done, read=double), D, 4)
    verdict(loop(all_but_one, all_done, read=double), "acc.map", D, 4, source=double)


def test_a_round_reads_what_the_round_before_left():
    def body(d):
        a, b = tiles()
        acc = nv.accumulator(64, 64)
        for _ in nv.range(4):
            acc.store(d, (0, 0))
            acc += a @ b
        nv.wgmma_wait(0)

    verdict(body, "acc.store", D)


def test_a_wait_in_both_branches_or_in_one():
    def body(d, n, other):
        a, b = tiles()
        acc = nv.accumulator(64, 64)
        acc += a @ b
        if n > 3:
            nv.wgmma_wait(0)
        else:
            other()
        acc.store(d, (0, 0))

    accepted(lambda d, n: body(d, n, all_done), D, 4)
    accepted(lambda d, n: body(d, n, lambda: None), D, 4)  # n may be known to the author


def test_a_wgmma_goes_on_with_a_sum_in_flight():
    """scale_d in a register is inline PTX with the accumulator's fields for operands: no read."""

    def body(d, n):
        a, b = tiles()
        acc = nv.accumulator(64, 64)
        acc += a @ b
        acc = acc.mma(a, b, scale_d=n > 3)
        nv.wgmma_wait(0)
        acc.store(d, (0, 0))

    accepted(body, D, 4)


def test_inline_wgmmas_are_in_flight_too():
    def body(d, n):
        a, b = tiles()
        acc = nv.accumulator(64, 64)
        acc = acc.mma(a, b, scale_d=n > 3)
        acc.store(d, (0, 0))

    verdict(body, "acc.store", D, 4)


def raw(fence):
    def body():
        tile = nv.smem((64, 16), nv.f16, swizzle=32)
        descriptor = wgmma.descriptor(tile.address, Operand(tile.layout, "k"))
        start = llvm.mlir_undef(wgmma.accumulator_type(64, nv.f32))
        if fence:
            wgmma.wgmma_fence()
        types = {"n": 64, "a_dtype": nv.f16, "b_dtype": nv.f16, "d_dtype": nv.f32}
        wgmma.mma_async(start, descriptor, descriptor, scale_d=False, **types)

    return body


def test_a_fence_comes_before_the_first_wgmma():
    accepted(raw(True))
    assert "no wgmma.fence" in verdict(raw(False), "wgmma.mma_async").message


def test_nvgpus_op_leaves_one_group_in_flight():
    def main(pending):
        @NVDSL.mlir_func
        def gemm(a):
            a_tma = TMA([64, 64], a.type, swizzle=nvgpu.TensorMapSwizzleKind.SWIZZLE_128B)
            a_tma.create_descriptor(a)

            @NVDSL.mlir_gpu_launch(grid=(1, 1, 1), block=(128, 1, 1), smem=32768)
            def kernel():
                tile = get_dynamic_shared_memory((64, 64), T.f16(), 0)
                out = get_dynamic_shared_memory((64, 64), T.f32(), 16384)
                A = WGMMAMatrix(WGMMAType.Descriptor, [64, 64], desc=a_tma, smem=tile)
                B = WGMMAMatrix(WGMMAType.Descriptor, [64, 64], desc=a_tma, smem=tile)
                D = WGMMAMatrix(WGMMAType.Accumulator, shape=[64, 64], ty=T.f32())
                D += A @ B
                wgmma.wgmma_wait(pending)
                nvgpu.warpgroup_mma_store(D.acc_op, out)

            kernel()

        return gemm

    main(0).trace(array(nv.f16, 64, 64))
    with pytest.raises(nv.VerifyError, match="leaves 1 group in flight"):
        main(1).trace(array(nv.f16, 64, 64))
