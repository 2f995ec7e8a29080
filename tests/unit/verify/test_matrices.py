"""Rows of ldmatrix and stmatrix: their alignment, and the banks that they lie in."""

import warnings

import pytest

import nvdsl as nv
from tests.unit.kernels import refused_body, trace


def lines(step):
    """A matrix whose rows are ``step`` bytes apart."""

    def body():
        line = nv.smem((4096,), nv.f16)
        nv.ldmatrix(nv.ops.smem.smem_pointer(nv.thread_id.x % 32 * step), 4)
        _ = line

    return body


@pytest.mark.parametrize("step", [2, 8, 24, 40, 129])
def test_a_row_in_the_middle_of_16_bytes(step):
    error = refused_body(lines(step), block=32)
    assert f"ldmatrix: lane 1 names a row at byte {step} of shared memory, {step % 16} bytes past" in str(error)


@pytest.mark.parametrize(("step", "ways"), [(16, 1), (32, 2), (48, 1), (64, 4), (128, 8), (144, 1), (256, 8)])
def test_rows_in_the_same_banks(step, ways):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        trace(lines(step), block=32)
    said = [str(w.message) for w in caught if issubclass(w.category, nv.AdvisoryWarning)]
    assert len(said) == (ways >= 4)
    assert all(f"ldmatrix takes {ways} times as long" in text for text in said)


def test_lanes_whose_addresses_are_not_read():
    """Of one matrix only the first 8 lanes' addresses count."""

    def body():
        line = nv.smem((512,), nv.f16)
        lane = nv.thread_id.x
        nv.ldmatrix(nv.ops.smem.smem_pointer(nv.select(lane < 8, lane * 16, 3)), 1)
        _ = line

    trace(body, block=32)
