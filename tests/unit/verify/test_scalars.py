"""Divisors, shift counts, steps and numbers that an instruction does not take, where the values are sure."""

import pytest

import nvdsl as nv
from tests.unit.verify.verdicts import accepted, verdict


def division():
    s = nv.smem((64,), nv.i32)
    t = nv.thread_id.x
    s[t] = 100 // (t - 3)  # here


def remainder():
    s = nv.smem((64,), nv.i32)
    for k in nv.range(8):
        s[k] = 100 % (k - 5)  # here


def shift():
    s = nv.smem((64,), nv.i32)
    s[nv.thread_id.x] = nv.i32(1) << nv.thread_id.x  # here


def step():
    s = nv.smem((64,), nv.i32)
    for k in nv.range(0, 8, nv.thread_id.x // 64):  # here
        s[k] = 1


def sleep():
    nv.nanosleep(1_000_001)  # here


def count():
    bar = nv.Mbarriers(1)[0]
    if nv.thread_id.x == 0:
        bar.init(nv.thread_id.x)  # here


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (division, "a division by 0"), (remainder, "a division by 0"), (shift, "a shift of 32 bits by 32"),
        (step, "a loop with a step of 0"), (sleep, "a nanosleep of 1,000,001 ns"),
        (count, "an mbarrier.init with a count of 0"),
    ],
)  # fmt: skip
def test_a_value_that_is_sure(body, message):
    assert verdict(body, "# here", block=64).message.startswith(message)


def guarded():
    s = nv.smem((64,), nv.i32)
    t = nv.thread_id.x
    if t != 3:
        s[t] = 100 // (t - 3)
    if t < 32:
        s[t] = nv.i32(1) << t


def rounds():
    s = nv.smem((64,), nv.i32)
    for k in nv.range(8, 0, -1):
        s[k] = 100 // k
    for k in nv.range(0, 8, nv.thread_id.x // 64 + 1):
        s[k] = 1


def selected():
    s = nv.smem((64,), nv.i32)
    t = nv.thread_id.x
    s[t] = nv.select(t < 32, nv.i32(1) << t, 0)


@pytest.mark.parametrize("body", [guarded, rounds, selected])
def test_what_is_right(body):
    accepted(body, block=64)
