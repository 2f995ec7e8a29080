"""Clocks: their type."""

import nvdsl as nv
from nvdsl.ir.walk import find
from tests.unit.kernels import trace


def test_clocks_are_64_bits_wide():
    def body():
        assert {nv.clock().dtype, nv.globaltimer().dtype} == {nv.i64}

    module = trace(body)
    assert len(find(module, "nvvm.read.ptx.sreg.clock64")) == len(find(module, "nvvm.read.ptx.sreg.globaltimer")) == 1
