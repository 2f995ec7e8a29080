"""64-bit integers are aligned to 8 bytes: one access each, and no ptxas is asked to store an f64 in two halves."""

import re

import pytest

import nvdsl as nv


@nv.jit
def through_bits(x, out):
    @nv.kernel(grid=1, block=32)
    def kernel():
        t = nv.thread_id.x
        out[t] = nv.bitcast(nv.f64(x[t]), nv.i64)

    kernel()


@pytest.mark.parametrize("dtype", [nv.i64, nv.f32, nv.i32])
def test_64_bits_are_stored_at_once(dtype):
    ptx = through_bits.compile(nv.ShapeDtype((32,), dtype), nv.ShapeDtype((32,), nv.i64)).ptx
    assert re.findall(r"st\.global\.(\w+)", ptx) == ["b64"]
    assert ("ld.global.b64" in ptx) == (dtype is nv.i64)
