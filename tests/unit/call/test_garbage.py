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


def test_its_end_is_no_look_at_all_that_the_program_has():
    seen, kept, thresholds = [], [], gc.get_threshold()

    def look(phase, info):
        seen.append(info["generation"])

    gc.collect()
    gc.set_threshold(700, 1, 1)  # to look further is due at once
    gc.callbacks.append(look)
    try:
        for _ in range(8):
            with none_collected():
                kept.append([[] for _ in range(2000)])
    finally:
        gc.callbacks.remove(look)
        gc.set_threshold(*thresholds)
    assert set(seen) == {0}
