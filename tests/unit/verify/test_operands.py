"""wgmma reads its operands as TMA wrote them."""

import pytest

import nvdsl as nv
from nvdsl.lang.tma import _SWIZZLE
from nvdsl.layout import Operand, TileLayout
from nvdsl.mlir.dialects import llvm
from nvdsl.ops import tma, wgmma
from nvdsl.ops.smem import get_dynamic_shared_memory, smem_address
from tests.unit.kernels import array
from tests.unit.verify.verdicts import line

X = array(nv.f16, 64, 64)


def multiply(written=128, read=128, start=0, stride=None, major="k", at="plain"):
    """One wgmma of a 64-row tile that TMA wrote with one swizzle and wgmma reads with another, by hand."""
    cols = written // 2 or 8

    def product(x):
        x_tma = tma.TMA([64, cols], x.type, swizzle=_SWIZZLE[written])
        x_tma.create_descriptor(x)

        @nv.kernel(grid=1, block=128)
        def kernel():
            nv.smem((32768,), nv.u8)
            full = nv.Mbarriers(1, arrivals=1)[0]
            if nv.thread_id.x == 0:
                full.arrive_expect_tx(64 * cols * 2)
                x_tma.load(get_dynamic_shared_memory((64, cols), nv.f16.ir, start), full, (0, 0))
            full.wait(0)
            layout = TileLayout.of(64, max(read, 16) // 2, 2, max(read, 16))
            bits = Operand(layout, major).descriptor_constant()
            if stride is not None:
                bits = bits & ~(0x3FFF << 32) | (stride >> 4) << 32
            descriptor = wgmma._join_descriptor(smem_address(start), bits)
            sums = llvm.mlir_undef(wgmma.accumulator_type(64, nv.f32))
            wgmma.wgmma_fence()
            wgmma.mma_async(
                sums, descriptor, descriptor, n=64, a_dtype=nv.f16, b_dtype=nv.f16, d_dtype=nv.f32,
                a_major=major, b_major=major, scale_d=at != "plain" and nv.thread_id.x < 0,
            )  # fmt: skip

        kernel()

    return product


def refused(**switches):
    function = multiply(**switches)
    with pytest.raises(nv.VerifyError) as caught:
        nv.jit(function).trace(X)
    call = range(line(function, "wgmma.mma_async("), line(function, "# fmt: skip"))
    assert caught.value.where.line in call, caught.value
    assert f"load at line {line(function, 'x_tma.load(')}" in caught.value.message
    return caught.value


@pytest.mark.parametrize("swizzle", [32, 64, 128])
@pytest.mark.parametrize("major", ["k", "mn"])
def test_one_swizzle(swizzle, major):
    nv.jit(multiply(swizzle, swizzle, major=major)).trace(X)


@pytest.mark.parametrize(("written", "read"), [(128, 64), (64, 128), (32, 128), (128, 16), (16, 128)])
def test_two_swizzles(written, read):
    error = refused(written=written, read=read)
    assert f"with {f'the {read}-byte swizzle' if read > 16 else 'no swizzle'} and TMA wrote it" in error.message


def test_two_swizzles_of_a_wgmma_in_inline_ptx():
    refused(written=64, read=128, at="inline")


@pytest.mark.parametrize(("swizzle", "start"), [(128, 512), (64, 256), (32, 128)])
def test_tiles_start_where_their_swizzles_pattern_does(swizzle, start):
    nv.jit(multiply(swizzle, swizzle, start=2 * start)).trace(X)
    error = refused(written=swizzle, read=swizzle, start=start)
    assert f"{start} bytes past a multiple of {2 * start:,}" in error.message


@pytest.mark.parametrize("major", ["k", "mn"])
def test_the_stride_is_eight_rows(major):
    error = refused(stride=512, major=major)
    assert "stride byte offset of 512, and 8 rows of 128 bytes are 1,024" in error.message


def test_boxes_are_aligned():
    function = multiply(start=64)
    with pytest.raises(nv.VerifyError, match="a TMA box at byte 64 of shared memory") as caught:
        nv.jit(function).trace(X)
    assert caught.value.where.line == line(function, "x_tma.load(")
    assert "multiple of 128 bytes" in caught.value.rule


def test_code_that_no_thread_reaches():
    def host(x):
        x_tma = nv.TMA(x, tile=(64, 64), swizzle=128)

        @nv.kernel(grid=1, block=128)
        def kernel():
            tiles = nv.smem((2, 64, 64), nv.f16, swizzle=128)
            full = nv.Mbarriers(1, arrivals=1)[0]
            if nv.thread_id.x >= 128:
                x_tma.load(tiles[nv.warp_id()], full, (0, 0))
                acc = nv.accumulator(64, 64)
                acc += tiles[nv.warp_id()] @ tiles[nv.warp_id()]
                nv.wgmma_wait(0)
                for k in nv.range(0):
                    full.arrive()
                    full.wait(k & 1)

        kernel()

    nv.jit(host).trace(X)
