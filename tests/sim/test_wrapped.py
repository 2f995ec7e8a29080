"""Index arithmetic of i32 that wraps around is reported; hashes and random numbers are not."""

import numpy as np
import pytest

import nvdsl as nv
from nvdsl import sim
from tests.sim.simulate import run, verdict


@nv.jit
def placed(x, big, *, how):
    """``big[0]`` is a number that the kernel does not know."""
    x_tma = nv.TMA(x, (8, 32)) if how == "coordinate" else None

    @nv.kernel(grid=1, block=32)
    def kernel():
        n, t = big[0], nv.thread_id.x
        if how == "index":
            x[n * 4 + t, 0] = 1.0
        elif how == "sum":
            x[n + n, t] = 1.0
        elif how == "lanes":
            x[(t + 1) * n, 0] = 1.0
        elif how == "coordinate":
            tile, full = nv.smem((8, 32), nv.f32), nv.Mbarriers(1, arrivals=1)[0]
            if t == 0:
                full.arrive_expect_tx(tile.bytes)
                x_tma.load(tile, full, (n * 4, 0))
            full.wait(0)
        elif how == "bound":
            for _ in nv.range(n * 4):
                x[0, t] = 1.0
        elif how == "widened":
            x[nv.i64(n * 4) % 8, t] = 1.0
        elif how == "compared":
            if t < n * 4:
                x[0, t] = 1.0
        elif how == "untaken":
            if n < 0:
                x[n * 4, t] = 1.0
        elif how == "64 bits":
            if t < nv.i64(n) * 4:
                x[0, t] = 1.0
        else:
            h = (t * n + n) * n  # a hash
            x[h % 8, t] = nv.f32(h >> 3)
            x[(h >> 16) & 7, t] = nv.f32(nv.u32(h) * nv.u32(n))
            if h < 1000:
                x[0, t] = 1.0

    kernel()


def arrays():
    return np.zeros((8, 32), np.float32), np.array([1 << 30], np.int32)


WRAPPED = {
    "index": "lane 0: 1,073,741,824 * 4 is 4,294,967,296, beyond i32",
    "sum": "lane 0: 1,073,741,824 + 1,073,741,824 is 2,147,483,648",
    "lanes": "lane 1: 2 * 1,073,741,824",
    "coordinate": "1,073,741,824 * 4",
    "bound": "1,073,741,824 * 4",
    "compared": "1,073,741,824 * 4",
}


@nv.jit
def stored(x, out, *, how):
    """64 numbers of i32, and results of 64 bits."""

    @nv.kernel(grid=1, block=32)
    def kernel():
        t = nv.thread_id.x
        a, b = x[t], x[0]
        if how == "product":
            out[t] = a * b
        elif how == "of one number":
            out[t] = b * b
        elif how == "sum":
            out[t] = a + a
        elif how == "difference":
            out[t] = -2 - a - a
        elif how == "widened, then added":
            out[t] = nv.i64(a * b) + t
        elif how == "added up":
            out.atomic_add(0, nv.i64(a * b))
        elif how == "in 64 bits":
            out[t] = nv.i64(a) * b + a
        elif how == "in a branch":
            if t == 0:
                out[t] = a * 4 if a < 9 else 0
        elif how == "unsigned":
            out[t] = nv.u32(a) * nv.u32(b)
        else:
            out[t] = (a * b) ^ (a >> 3)  # a hash

    kernel()


WIDE = {
    "product": "lane 0: 1,073,741,824 * 1,073,741,824 is",
    "of one number": "1,073,741,824 * 1,073,741,824",
    "sum": "lane 0: 1,073,741,824 + 1,073,741,824 is 2,147,483,648, beyond i32",
    "difference": "lane 0: -1,073,741,826 - 1,073,741,824 is -2,147,483,650",
    "widened, then added": "* 1,073,741,824",
    "added up": "* 1,073,741,824",
}


def numbers():
    return np.arange(32, dtype=np.int32) + (1 << 30), np.zeros(32, np.int64)


@pytest.mark.parametrize("how", WIDE)
def test_what_is_stored_in_64_bits_is_reported(how):
    error = verdict(stored, *numbers(), how=how)
    assert error is not None and error.kind == "overflow" and "stored in 64 bits" in error.rule
    assert WIDE[how] in error.message and "nv.u32(x)" in error.fix


@pytest.mark.parametrize("how", ["in 64 bits", "in a branch", "unsigned", "hash"])
def test_what_is_stored_in_64_bits_and_right(how):
    run(stored, *numbers(), how=how)


@pytest.mark.parametrize("how", WRAPPED)
def test_a_place_that_wraps_is_reported(how):
    error = verdict(placed, *arrays(), how=how)
    assert error is not None and error.kind == "overflow"
    assert WRAPPED[how] in error.message


@pytest.mark.parametrize("how", ["widened", "untaken", "64 bits", "hash"])
def test_what_is_no_place_may_wrap(how):
    run(placed, *arrays(), how=how)


def test_without_checks_it_wraps():
    run(placed, *arrays(), how="compared", options=sim.Options(checks=False))
