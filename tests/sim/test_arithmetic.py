"""Arithmetic whose corners NumPy has otherwise than the hardware: comparisons, minNum, fma, the widths of integers."""

from fractions import Fraction

import numpy as np
import pytest

import nvdsl as nv
from nvdsl.ir.arith import float_comparison
from nvdsl.mlir.dialects import arith, memref
from nvdsl.ops.pointer import index
from nvdsl.sim import numbers
from tests.sim.simulate import run

pytestmark = pytest.mark.usefixtures("warnings_off")

NAN = float("nan")
# MLIR, arith.cmpf: the predicates in order; each holds for (1, 2), (2, 2), (2, 1), (1, NaN).
PREDICATES = {
    "false": "----", "oeq": "-x--", "ogt": "--x-", "oge": "-xx-", "olt": "x---", "ole": "xx--", "one": "x-x-",
    "ord": "xxx-", "ueq": "-x-x", "ugt": "--xx", "uge": "-xxx", "ult": "x--x", "ule": "xx-x", "une": "x-xx",
    "uno": "---x", "true": "xxxx",
}  # fmt: skip


@pytest.mark.parametrize("name", PREDICATES)
def test_every_comparison_of_floats(name):
    compare = float_comparison(list(PREDICATES).index(name))
    x, y = np.array([1, 2, 2, 1], np.float32), np.array([2, 2, 1, NAN], np.float32)
    expected = [c == "x" for c in PREDICATES[name]]
    assert compare(x, y).tolist() == expected
    assert [compare(a, b) for a, b in zip(x, y, strict=True)] == expected


def test_minimum_and_maximum_of_zeros_and_nans():
    x, y = (np.array(a, np.float16) for a in ([-0.0, 0.0, NAN, 1.0, NAN], [0.0, -0.0, 2.0, NAN, NAN]))
    low, high = numbers.reduction("min", x, y), numbers.reduction("max", x, y)
    assert np.signbit(low[:2]).all() and not np.signbit(high[:2]).any()
    assert low[2:4].tolist() == high[2:4].tolist() == [2.0, 1.0] and np.isnan([low[4], high[4]]).all()

    @nv.jit
    def extremes(x, y, out):
        @nv.kernel(grid=1, block=1)
        def kernel():
            out[0] = nv.min(x[0], y[0])
            out[1] = nv.max(y[0], x[0])

        kernel()

    out = np.full(2, NAN, np.float64)
    run(extremes, np.array([0.0]), np.array([-0.0]), out)
    assert np.signbit(out).tolist() == [True, False]


def nearest(exact, kind):
    """The float of ``kind`` nearest to a Fraction, ties to even, by trying the neighbours."""
    guess = kind(float(exact))
    near = [guess, np.nextafter(guess, kind(np.inf)), np.nextafter(guess, kind(-np.inf))]
    return min(near, key=lambda f: (abs(Fraction(float(f)) - exact), int(np.asarray(f).view(f"i{f.itemsize}")) & 1))


@pytest.mark.parametrize("kind", [np.float16, np.float32, np.float64])
def test_fma_rounds_once(kind):
    rng = np.random.default_rng(0)
    x, y = (rng.standard_normal(400).astype(kind) for _ in range(2))
    z = (-(x * y) * (1 + rng.integers(-3, 4, 400) * float(np.finfo(kind).eps))).astype(kind)  # cancels: the error shows
    z[200:] = rng.standard_normal(200).astype(kind)
    exact = [Fraction(float(a)) * Fraction(float(b)) + Fraction(float(c)) for a, b, c in zip(x, y, z, strict=True)]
    expected = [nearest(e, kind) for e in exact]
    assert np.array_equal(numbers.fma(x, y, z), expected)
    assert not np.array_equal(x * y + z, expected)


def test_fma_is_not_rounded_to_f64_in_between():
    one = np.float32([1])
    small = np.float32(2.0**-23)
    x, y, z = one + small, (one - small) * np.float32(2.0**-24), one + small
    # x * y is 2**-24 - 2**-70: the sum lies below the middle of two floats, and in f64 on it.
    assert (x.astype(np.float64) * y + z).astype(np.float32) > z
    assert numbers.fma(x, y, z) == z


def test_fma_at_the_ends_of_f64():
    x, y, z = (np.array(a) for a in ([1e308, -1e308, 5e-324, np.inf, 0.0], [10, 10, 0.5, 0, 1], [0.0, 0, 0, 1, -0.0]))
    r = numbers.fma(x, y, z)
    assert r[0] == np.inf and r[1] == -np.inf and r[2] == 0 and np.isnan(r[3]) and r[4] == 0


@nv.jit
def counted(out, x):
    """What a branch and a loop of each lane's own leave in an i32 is an i32: its bits are 32."""

    @nv.kernel(grid=1, block=32)
    def kernel():
        t = nv.thread_id.x
        n, count = x[t], nv.i32(0)
        while n > 1:
            n = n // 2
            count += 1
        top = nv.i32(2**31 - 1) if t < 16 else nv.i32(0)
        for i in nv.range(t % 3):
            top += i
        out[0, t] = nv.bitcast(count, nv.u32)
        out[1, t] = nv.u32(nv.bitcast(top + t, nv.f32) == nv.bitcast(top + t, nv.f32))
        out[2, t] = nv.bitcast(top + t, nv.u32)

    kernel()


def test_integers_of_branches_keep_their_width():
    x, out = np.arange(32, dtype=np.int64), np.zeros((3, 32), np.uint32)
    run(counted, out, x)
    t = np.arange(32)
    assert out[0].tolist() == [max(int(n).bit_length() - 1, 0) for n in x]
    assert out[2].tolist() == ((t < 16) * (2**31 - 1) + (t % 3 == 2) + t).tolist()


@pytest.mark.parametrize(("how", "expected"), [("maxu", -1), ("minu", 3), ("maxs", 7), ("mins", -1), ("andi", 3)])
def test_each_kind_of_atomic(how, expected):
    @nv.jit
    def atomic(out, x):
        @nv.kernel(grid=1, block=2)
        def kernel():
            memref.atomic_rmw(getattr(arith.AtomicRMWKind, how), x[nv.thread_id.x], out, [index(0)])

        kernel()

    out = np.array([3], np.int32)
    run(atomic, out, np.array([-1, 7], np.int32))
    assert out[0] == expected
