"""Ordinary stores, then a read by TMA or wgmma: a proxy fence comes in between."""

import pytest

import nvdsl as nv
from nvdsl.ops import tma
from tests.unit.kernels import array
from tests.unit.verify.verdicts import accepted, line, verdict

OUT = array(nv.f32, 64, 64)


def stored(fence, *, swizzle=0, elsewhere=False):
    """A tile is written by all threads, then stored by TMA."""

    def store(out):
        out_tma = nv.TMA(out, tile=(16, 32), swizzle=swizzle)

        @nv.kernel(grid=1, block=32)
        def kernel():
            other = nv.smem((16, 32), nv.f32, swizzle=swizzle)
            tile = nv.smem((16, 32), nv.f32, swizzle=swizzle)
            for i in nv.range(16):
                (other if elsewhere else tile)[i, nv.thread_id.x] = 1.0
            fence()
            nv.sync_threads()
            if nv.thread_id.x == 0:
                out_tma.store(tile, (0, 0))
                tma.bulk_commit_group()
                tma.bulk_wait_group(0)

        kernel()

    return store


def refused(function):
    with pytest.raises(nv.VerifyError) as caught:
        nv.jit(function).trace(OUT)
    assert caught.value.where.line == line(function, "out_tma.store(tile")
    return caught.value


@pytest.mark.parametrize("swizzle", [0, 128])
def test_a_tma_store_of_what_threads_wrote(swizzle):
    nv.jit(stored(nv.fence_proxy_async, swizzle=swizzle)).trace(OUT)
    function = stored(lambda: None, swizzle=swizzle)
    error = refused(function)
    assert f"wrote at line {line(function, '(other if elsewhere')}" in error.message
    assert "nv.fence_proxy_async()" in error.fix


def test_a_fence_of_another_kind_is_none():
    refused(stored(nv.fence_proxy_alias))
    refused(stored(nv.threadfence))


def test_stores_elsewhere_need_no_fence():
    nv.jit(stored(lambda: None, elsewhere=True)).trace(OUT)


def multiplied(fence, part=0):
    def body(d):
        a, b = (nv.smem((64, 64), nv.f16, swizzle=128) for _ in range(2))
        for i in nv.range(64):
            if nv.thread_id.x < 64:
                a[i, nv.thread_id.x] = nv.f16(1.0)
        if fence:
            nv.fence_proxy_async()
        nv.sync_threads()
        acc = nv.accumulator(64, 64)
        acc += (a if part == 0 else b) @ b
        nv.wgmma_wait(0)
        acc.store(d, (0, 0))

    return body


def test_an_operand_of_wgmma_that_threads_wrote():
    accepted(multiplied(True), OUT)
    body = multiplied(False)
    error = verdict(body, "acc +=", OUT)
    assert "wgmma's operand A reads" in error.message
    assert f"line {line(body, 'a[i, nv')}" in error.message
    accepted(multiplied(False, part=1), OUT)


def test_stores_behind_the_read_are_another_question():
    def body(d):
        a, b = (nv.smem((64, 64), nv.f16, swizzle=128) for _ in range(2))
        acc = nv.accumulator(64, 64)
        acc += a @ b
        nv.wgmma_wait(0)
        acc.store(d, (0, 0))
        a[0, nv.thread_id.x % 64] = nv.f16(1.0)

    accepted(body, OUT)


def test_stores_to_global_memory_are_not_meant():
    def body(d):
        d[0, nv.thread_id.x % 64] = 1.0
        a, b = (nv.smem((64, 64), nv.f16, swizzle=128) for _ in range(2))
        acc = nv.accumulator(64, 64)
        acc += a @ b
        nv.wgmma_wait(0)

    accepted(body, OUT)
