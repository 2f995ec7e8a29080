"""Stores of a part of a register: ptxas 13.0 converted floats there."""

import re

import numpy as np
import pytest

import nvdsl as nv
from nvdsl.lower.narrow_stores import through_registers


@pytest.mark.parametrize(
    "line, expected",
    [
        ("\tst.shared.b32 \t[%rd36], %rd33;",
         "\t{ .reg .b32 %part0; cvt.u32.u64 %part0, %rd33; st.shared.b32 \t[%rd36], %part0; }"),
        ("\t@!%p1 st.global.b16 \t[%rd1+4], %r3;",
         "\t{ .reg .b16 %part0; cvt.u16.u32 %part0, %r3; @!%p1 st.global.b16 \t[%rd1+4], %part0; }"),
        ("\tst.volatile.b8 \t[%rd1], %rd2;",
         "\t{ .reg .b16 %part0; cvt.u16.u64 %part0, %rd2; st.volatile.b8 \t[%rd1], %part0; }"),
        ("\tst.global.v4.b32 \t[%rd1], {%rd2, %r3, %rd2, %rd40};",
         "\t{ .reg .b32 %part0, %part1; cvt.u32.u64 %part0, %rd2; cvt.u32.u64 %part1, %rd40; "
         "st.global.v4.b32 \t[%rd1], {%part0, %r3, %part0, %part1}; }"),
    ],
)  # fmt: skip
def test_the_part_has_a_register_of_its_own(line, expected):
    assert through_registers(line) == expected


@pytest.mark.parametrize(
    "line",
    ["\tst.shared.b64 \t[%rd1], %rd2;", "\tst.shared.b32 \t[%rd1], %r2;", "\tst.global.b16 \t[%rd1], %rs2;",
     "\tst.global.b8 \t[%rd1], %rs2;", "\tst.global.v2.b64 \t[%rd1], {%rd2, %rd3};", "\tst.b32 \t[%rd1], 0;",
     "\tld.shared.b32 \t%r1, [%rd33];"],
)  # fmt: skip
def test_other_lines_stay(line):
    assert through_registers(line) == line


@nv.jit
def lower_half(x, out):
    @nv.kernel(grid=1, block=1)
    def kernel():
        out[0] = nv.i32(nv.bitcast(x[0] + x[0], nv.i64))

    kernel()


def test_no_store_of_a_kernel_takes_a_wider_register():
    """Without the rewrite, LLVM's text has ``st.global.b32 [%rd5], %rd7``."""
    ptx = lower_half.compile(nv.ShapeDtype((1,), nv.f64), nv.ShapeDtype((1,), nv.i32)).ptx
    assert re.search(r"cvt\.u32\.u64 (%part0), %rd\d+; st\.global\.b32\s+\[[^]]+\], \1;", ptx)
    out = np.zeros(1, np.int32)
    x = np.array([0.1])
    lower_half(x, out)
    assert out[0] == (x + x).view(np.int64).astype(np.int32)[0]
