"""mbarriers without an init, bytes that nobody waits for, the first wait's parity."""

import pytest

import nvdsl as nv
from nvdsl.ops import tma
from tests.unit.kernels import array
from tests.unit.verify.verdicts import accepted, line, verdict

X = array(nv.f32, 64)


def load(init=lambda bars: bars[0].init(1), wait=lambda bar: bar.wait(0), size=1):
    def body(x):
        data = nv.smem((64,), nv.f32)
        bars = nv.Mbarriers(size)
        if nv.thread_id.x == 0:
            init(bars)
        nv.sync_threads()
        if nv.thread_id.x == 0:
            bars[size - 1].arrive_expect_tx(256)
            tma.bulk_load(data, x, 256, bars[size - 1])
        wait(bars[size - 1])
        x[nv.thread_id.x % 64] = data[nv.thread_id.x % 64]

    return body


def test_an_initialized_barrier_that_is_waited_for():
    accepted(load(), X)
    accepted(load(lambda bars: bars[1].init(1), size=2), X)


@pytest.mark.parametrize(
    ("init", "size", "which"),
    [(lambda bars: None, 1, "mbarrier is used"), (lambda bars: bars[0].init(1), 2, "mbarrier 1 of the group of 2")],
)
def test_a_barrier_that_is_not_initialized(init, size, which):
    error = verdict(load(init, size=size), "arrive_expect_tx", X)
    assert which in error.message and "never initialized" in error.message


def test_a_slot_of_a_ring_that_is_not_initialized():
    def body(count):
        def ring(x):
            data = nv.smem((64,), nv.f32)
            bars = nv.Mbarriers(4)
            if nv.thread_id.x == 0:
                for i in nv.range(count):
                    bars[i].init(1)
            nv.sync_threads()
            for k in nv.range(8):
                if nv.thread_id.x == 0:
                    bars[k % 4].arrive_expect_tx(256)
                    tma.bulk_load(data, x, 256, bars[k % 4])
                bars[k % 4].wait((k // 4) & 1)

        return ring

    accepted(body(4), X)
    error = verdict(body(3), "arrive_expect_tx", X, source=body)
    assert "mbarrier 3 of the group of 4 is used and never initialized" in error.message


def test_a_large_group_that_a_loop_initializes():
    def init(bars):
        for i in nv.range(100):
            bars[i].init(1)

    accepted(load(init, size=100), X)
    verdict(load(init, size=101), "arrive_expect_tx", X)


def test_a_group_that_two_loops_initialize():
    def init(bars):
        for i in nv.range(5):
            for j in nv.range(4):
                bars[i * 4 + j].init(1)

    accepted(load(init, size=20), X)


def test_nobody_waits_for_the_bytes():
    body = load(wait=lambda bar: None)
    assert "nothing waits for these bytes" in verdict(body, "tma.bulk_load", X).message


def test_a_poll_is_a_wait():
    def poll(bar):
        done = bar.test_wait(0)
        while not done:
            done = bar.test_wait(0)

    accepted(load(wait=poll), X)


def late(bar):
    bar.wait(1)


def test_the_first_wait_for_bytes_has_parity_0():
    error = verdict(load(wait=late), "bar.wait(1)", X, source=late)
    assert "has parity 1" in error.message
    assert f"the copies at line {line(load, 'tma.bulk_load')}" in error.message

    def both(bar):
        bar.wait(0)
        late(bar)

    accepted(load(wait=both), X)
