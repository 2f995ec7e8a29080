"""Python's garbage collector beside compilations."""

from __future__ import annotations

import gc

import numpy as np
import pytest

import nvdsl as nv
from nvdsl.call.garbage import none_collected


@pytest.mark.parametrize("fails", [False, True])
def test_it_goes_on_afterwards(fails):
    seen = []

    @nv.jit
    def function(x):
        seen.append(gc.isenabled())
        if fails:
            raise RuntimeError("the trace's own")

    try:
        function(np.zeros(4, np.float32), target="sim")
    except RuntimeError:
        assert fails
    assert seen == [False] and gc.isenabled()


def test_who_has_switched_it_off_finds_it_so():
    gc.disable()
    try:
        with none_collected():
            assert not gc.isenabled()
        assert not gc.isenabled()
    finally:
        gc.enable()
    with none_collected(), none_collected():
        assert not gc.isenabled()
    assert gc.isenabled()
