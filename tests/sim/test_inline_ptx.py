"""Inline PTX in the simulator: its meaning in Python, what that may return, memory that it accesses."""

import numpy as np
import pytest

import nvdsl as nv
from nvdsl import sim
from nvdsl.ops.pointer import GLOBAL, address_of
from tests.sim.simulate import run, verdict

LEVELS = [sim.Options(level=level) for level in sim.options.LEVELS]


def around(body, block=64):
    """A host function of x and y whose kernel is ``body(x, y, thread)``."""

    @nv.jit
    def host(x, y):
        @nv.kernel(grid=1, block=block)
        def kernel():
            body(x, y, nv.thread_id.x)

        kernel()

    return host


def arrays(dtype=np.uint32):
    return np.arange(64).astype(dtype) * 3, np.zeros(64, dtype)


@pytest.mark.parametrize("options", LEVELS)
def test_a_meaning_is_executed_for_the_active_lanes(options):
    sizes = []

    def meaning(a, b, c):
        sizes.append(len(a))
        assert (a.dtype, b.dtype, c.dtype) == (np.uint32, np.int32, np.bool_)
        return np.where(c, a ^ b, 0)

    def body(x, y, t):
        if t < 40:
            text = "{ lop3.b32 $0, $1, $2, 0, 0x3c; @!$3 mov.b32 $0, 0; }"
            y[t] = nv.ptx(text, x[t], t, t % 2 == 0, result=nv.u32, meaning=meaning)

    x, y = arrays()
    run(around(body), x, y, options=options)
    t = np.arange(64)
    np.testing.assert_array_equal(y, np.where((t < 40) & (t % 2 == 0), x ^ t, 0))
    assert sizes == [32, 8]


def test_several_results_and_types():
    def meaning(a, b):
        return a / b, a < b

    def body(x, y, t):
        text = "{ div.rn.f64 $0, $2, $3; setp.lt.f64 $1, $2, $3; }"
        quotient, less = nv.ptx(text, x[t], 64.0 + nv.f64(0), result=(nv.f64, nv.bool_), meaning=meaning)
        y[t] = nv.select(less, quotient, -1.0)

    x, y = arrays(np.float64)
    run(around(body), x, y)
    np.testing.assert_array_equal(y, np.where(x < 64, x / 64, -1))


@pytest.mark.parametrize("dtype", [nv.i16, nv.u16, nv.i32, nv.i64, nv.u64, nv.f16, nv.bf16, nv.f32])
def test_a_register_keeps_its_bits(dtype):
    def body(x, y, t):
        size = dtype.bits
        y[t] = nv.ptx(f"mov.b{size} $0, $1;", x[t], result=dtype, meaning=lambda a: a)

    x = (np.arange(64) - 32).astype(dtype.numpy)
    y = np.zeros_like(x)
    run(around(body), x, y)
    assert x.tobytes() == y.tobytes()


def test_lanes_may_exchange_values():
    def body(x, y, t):
        text = "shfl.sync.idx.b32 $0, $1, $2, 31, 0xffffffff;"
        y[t] = nv.ptx(text, x[t], (t + 1) % 32, result=nv.u32, meaning=lambda a, lane: a[lane])

    x, y = arrays()
    run(around(body), x, y)
    np.testing.assert_array_equal(y.reshape(2, 32), np.roll(x.reshape(2, 32), -1, axis=1))


def copied(x, y, t, at, offset=0):
    """y[t] = x[at], by pointers."""
    source = address_of(x, at * 4, GLOBAL)
    value = nv.ptx("ld.global.b32 $0, [$1];", source, result=nv.u32, meaning=lambda p: p.load(nv.u32, offset))
    nv.ptx("st.global.b32 [$0], $1;", address_of(y, t * 4, GLOBAL), value, meaning=lambda p, v: p.store(v, nv.u32))


@pytest.mark.parametrize("options", LEVELS)
def test_memory_through_pointers(options):
    x, y = arrays()
    run(around(lambda x, y, t: copied(x, y, t, 63 - t)), x, y, options=options)
    np.testing.assert_array_equal(y, x[::-1])


def body_without(x, y, t):
    y[t] = nv.ptx("brev.b32 $0, $1;", x[t], result=nv.u32)


def body_raises(x, y, t):
    y[t] = nv.ptx("brev.b32 $0, $1;", x[t], result=nv.u32, meaning=lambda a: a[99])


def body_floats(x, y, t):
    y[t] = nv.ptx("brev.b32 $0, $1;", x[t], result=nv.u32, meaning=lambda a: a / 2)


def body_two(x, y, t):
    y[t] = nv.ptx("brev.b32 $0, $1;", x[t], result=nv.u32, meaning=lambda a: (a, a))


def body_short(x, y, t):
    y[t] = nv.ptx("brev.b32 $0, $1;", x[t], result=nv.u32, meaning=lambda a: a[:5])


def body_races(x, y, t):
    copied(x, y, t, t)
    y[63 - t] = 0


WRONG = {
    body_without: ("ptx-without-meaning", "does not know what inline PTX does: 'brev.b32 $0, $1;'"),
    body_raises: ("ptx-meaning", "raised IndexError"),
    body_floats: ("ptx-meaning", "returned float64 where a u32 belongs"),
    body_two: ("ptx-meaning", "returned 2 results, not 1"),
    body_short: ("ptx-meaning", "array of shape (5,) for 32 lanes"),
    body_races: ("waw", "nothing orders the two"),
    lambda x, y, t: copied(x, y, t, t, offset=4): ("out-of-bounds", "load of 4 bytes"),
}


@pytest.mark.parametrize("body", WRONG, ids=lambda body: body.__name__)
def test_what_is_reported(body):
    found, (kind, text) = verdict(around(body), *arrays()), WRONG[body]
    assert found is not None and found.kind == kind and text in str(found)
    assert str(found).split(":")[0].endswith("test_inline_ptx.py")


def test_where_it_is_not_executed_no_meaning_is_missed():
    def body(x, y, t):
        if t > 1000:
            body_without(x, y, t)

    run(around(body), *arrays())


def test_meanings_that_differ_in_what_they_see():
    """Two functions of one place: each op has its own."""

    def body(x, y, t):
        total = x[t]
        for factor in (2, 5):
            total = nv.ptx("mad $0, $1;", total, result=nv.u32, meaning=lambda a, factor=factor: a * factor)
        y[t] = total

    x, y = arrays()
    run(around(body), x, y)
    np.testing.assert_array_equal(y, 10 * x)
