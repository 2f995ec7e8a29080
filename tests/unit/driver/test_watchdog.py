"""Debug mode's host side: what becomes of what a kernel wrote into its log."""

from __future__ import annotations

import numpy as np
import pytest

from nvdsl.driver import watchdog
from nvdsl.driver.mbarrier_word import State, decode, hint
from nvdsl.errors import DeviceError, WatchdogError, Where
from nvdsl.lower import device_log
from nvdsl.lower.device_log import BEFORE, FAULT, PAST, Site, Watch
from tests.unit.driver.fake_cuda import Kernel, fake
from tests.unit.driver.host_program import build, function, launch

SITES = (
    Site("entry", Where("k.py", 1)),
    Site("mbarrier", Where("k.py", 2), "full", count=4),
    Site("barrier", Where("k.py", 3)),
    Site("setmaxnreg", Where("k.py", 4), count=240),
    Site("assert", Where("k.py", 5), "k.py:5: x[%d] is %.1f, 5%%", types=("i32", "f32")),
    Site("out-of-bounds", Where("k.py", 6), "load", "an array of 4x8 f32", types=("index", "index"), extents=(4, 8)),
    Site("mbarrier", Where("k.py", 7), "empty", count=1),
    Site("illegal-copy", Where("k.py", 8), "TMA store", "f16", count=8, types=("i32", "i32")),
    Site("division", Where("k.py", 9), "arith.remsi", "i32"),
    Site("loop-step", Where("k.py", 10), "", "index"),
)
LOST = "CUDA_ERROR_LAUNCH_FAILED"
SIZES = "".join(f"%{name} = arith.constant {n} : index\n" for name, n in (("one", 1), ("two", 2), ("threads", 64)))
PROGRAM = function("", SIZES + launch("", grid="%two, %two, %one", block="%threads, %one, %one") + "\nreturn")


class Clock:
    """Time that passes by sleeping only."""

    now = 0.0

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


@pytest.fixture(autouse=True)
def clock(monkeypatch):
    monkeypatch.setattr(watchdog, "time", Clock())


def word(state: State) -> int:
    return 1 << 63 | state.parity << 52 | state.pending << 32 | state.bytes & 0xFFFFFFFF


def run(slots, ends=(LOST,), timeout=2.0):
    """Launch a kernel that writes these slots, (block, warp, what it writes), and ends so."""

    def write(launched, cuda):
        log = np.frombuffer(cuda.log, device_log.SLOT)
        for (x, y), warp, said in slots:
            slot = log[(y * 2 + x) * 2 + warp]
            slot["block"], slot["thread"] = (x, y, 0), 32 * warp + said.pop("lane", 0)
            for name, value in said.items():
                slot[name] = value

    kernel = Kernel("f_kernel", watch=Watch(SITES, timeout))
    cuda, devices = fake(kernel, run=write, ends=list(ends))
    host = build(PROGRAM, [kernel], devices=devices)
    return cuda, host.call


def report(*slots, **options) -> WatchdogError:
    _, call = run(slots, **options)
    with pytest.raises(WatchdogError) as caught:
        call()
    return caught.value


def waits(site, **said):
    return {"state": FAULT, "site": site, **said}


def test_a_kernel_that_ends_well():
    cuda, call = run([((0, 0), 0, {"state": PAST, "site": 2})], ends=[False, False, True])
    call()
    assert cuda.variables[device_log.SYMBOL].value == 0xABC000
    assert cuda.names().index("variable") < cuda.names().index("launch")


def test_a_deadlock_names_warps_barrier_phase_and_cause():
    state = word(State(0, 0, 16))
    error = report(
        ((0, 0), 0, waits(1, index=3, parity=0, barrier=state)),
        ((0, 0), 1, waits(1, index=3, parity=0)),
        ((1, 1), 1, waits(1, index=3, parity=0, barrier=state)),
        ((1, 0), 0, {"state": BEFORE, "site": 2}),
        ((1, 0), 1, {"state": PAST, "site": 6, "parity": 1}),
        ((0, 1), 0, {"state": PAST, "site": 2, "returned": 1}),
    )
    assert (error.kind, error.where, error.running) == ("deadlock", Where("k.py", 2), False)
    text = str(error)
    assert text.startswith("k.py:2: deadlock: in kernel f_kernel 3 warps waited for 2 s")
    what = "mbarrier full[3], parity 0: its phase (parity 0) still needs 16 bytes at k.py:2"
    assert f"warps 0, 1 of block (0, 0) and 1 more wait for {what}" in text
    assert "warp 0 of block (1, 0), thread 0, waits for the block's barrier at k.py:3" in text
    assert "warp 1 of block (1, 0), thread 32, came past mbarrier empty, parity 1, and to no other wait since" in text
    assert "1 warp has returned" in text and "2 warps have not begun" in text
    assert "likely: 16 bytes that full[3] expects are in no copy" in text


def test_an_assert_comes_before_the_deadlock_that_it_causes():
    values = [7, int(np.float32(2.5).view(np.uint32)), 0, 0, 0, 0, 0]
    error = report(((0, 0), 0, waits(1)), ((1, 0), 1, waits(4, lane=5, values=values)), ((1, 1), 1, waits(4)))
    assert (error.kind, error.where) == ("assert", Where("k.py", 5))
    first = "k.py:5: device assert failed in warp 1 of block (1, 0), thread 37: x[7] is 2.5, 5%"
    assert str(error).splitlines()[0] == first
    assert "1 more warp failed it, too" in str(error)


def test_an_access_out_of_bounds():
    values = [2, -1 & (1 << 64) - 1, 0, 0, 0, 0, 0]
    error = report(((0, 1), 0, waits(5, lane=3, values=values)))
    assert error.kind == "out-of-bounds"
    assert "load out of bounds by warp 0 of block (0, 1), thread 3: index (2, -1) of an array of 4x8 f32" in str(error)
    assert "on axis 1 the largest legal index is 7" in str(error)


@pytest.mark.parametrize(
    ("at", "found", "rule", "fix"),
    [
        ((-3, 5), "innermost coordinate -3 is -6 bytes of f16", "it is a multiple of 16 bytes", "at -8,"),
        ((961, -1), "innermost coordinate 961 is 1,922 bytes of f16", "it is a multiple of 16 bytes", "at 960,"),
        ((16, -1), "coordinates (16, -1), innermost first", "no negative coordinate", "inside of the array"),
    ],
)
def test_a_copy_that_the_gpu_takes_for_an_illegal_instruction(at, found, rule, fix):
    values = [x & (1 << 32) - 1 for x in at] + [0] * 5
    error = report(((1, 0), 1, waits(7, values=values)), ((1, 1), 0, waits(1)))
    assert (error.kind, error.where, error.running) == ("illegal-copy", Where("k.py", 8), False)
    assert f"TMA store by warp 1 of block (1, 0), thread 32: {found}" in str(error)
    assert rule in error.rule and fix in error.fix


@pytest.mark.parametrize(
    ("site", "values", "says"),
    [
        (8, (7, 0), "thread 3, divides 7 by 0 (arith.remsi)"),
        (8, (1 << 31, (1 << 64) - 1), "divides -2147483648 by -1 (arith.remsi): the quotient has no i32"),
        (9, (0,), "thread 3, is at a loop with a step of 0"),
        (9, ((1 << 64) - 2,), "is at a loop with a step of -2"),
    ],
)
def test_an_operand_that_an_instruction_does_not_take(site, values, says):
    error = report(((0, 1), 0, waits(site, lane=3, values=[*values, *[0] * (7 - len(values))])))
    assert error.kind == ("division" if site == 8 else "loop-step") and error.where == Where("k.py", site + 1)
    assert says in str(error) and error.rule and error.fix


def test_a_kernel_that_says_nothing_new_hangs_and_nothing_is_launched_after_it():
    slots = [((0, 0), 0, {"state": BEFORE, "site": 2}), ((0, 0), 1, {"state": BEFORE, "site": 3})]
    cuda, call = run(slots, ends=[False], timeout=-0.4)  # patience of 0.2 s
    with pytest.raises(WatchdogError) as caught:
        call()
    error = caught.value
    assert (error.kind, error.running, error.where) == ("hang", True, Where("k.py", 4))
    assert "warp 1 of block (0, 0), thread 32, waits for registers (setmaxnreg.inc to 240)" in str(error)
    assert error.details[-2].startswith("likely: setmaxnreg waits for registers")
    launches = cuda.names().count("launch")
    with pytest.raises(WatchdogError, match="still hangs"):
        call()
    assert cuda.names().count("launch") == launches


@pytest.mark.parametrize("state", [BEFORE, 0])
def test_a_kernel_that_goes_on_is_waited_for(state):
    """Longer than the patience: it says something new all the time, or has not begun."""
    cuda, call = run([], ends=[False], timeout=-0.4)
    turn = iter(range(1000))

    def finished(stream):
        number = next(turn)
        slot = np.frombuffer(cuda.log, device_log.SLOT)[0]
        slot["state"], slot["index"] = state, number // 10 if state else 0
        return number > 100  # a second, at 10 ms each

    cuda.finished = finished
    call()


def test_a_report_is_believed_where_cudas_error_is_late(monkeypatch):
    """The kernel stops itself: it is no hang, though nothing says so for longer than the patience."""
    monkeypatch.setattr(watchdog, "_STOPS", 0.1)
    slots = [((0, 0), 0, {"state": BEFORE, "site": 2}), ((0, 0), 1, waits(5, values=[0, 8, 0, 0, 0, 0, 0]))]
    error = report(*slots, ends=[False], timeout=30)
    assert (error.kind, error.running, error.where) == ("out-of-bounds", False, Where("k.py", 6))


def test_a_kernel_that_never_begins(monkeypatch):
    monkeypatch.setattr(watchdog, "_BEGINS", 0.1)
    cuda, call = run([], ends=[False])
    with pytest.raises(WatchdogError, match="kernel f_kernel has been launched, and none of its 8 warps") as caught:
        call()
    assert (caught.value.kind, caught.value.running) == ("hang", True)
    with pytest.raises(WatchdogError, match="still hangs"):
        call()


def test_another_error_of_the_kernel_stays_what_it_is():
    _, call = run([((0, 0), 0, {"state": PAST, "site": 2})], ends=["CUDA_ERROR_ILLEGAL_ADDRESS"])
    with pytest.raises(DeviceError, match="failed while it ran: CUDA_ERROR_ILLEGAL_ADDRESS") as caught:
        call()
    assert not isinstance(caught.value, WatchdogError)


@pytest.mark.parametrize("state", [State(0, 0, 16), State(1, 1048573, 0), State(0, 1, -4096), State(1, 2, 700000)])
def test_states_of_an_mbarrier(state):
    assert decode(word(state)) == state
    assert decode(word(state) & ~(1 << 63)) is None


def test_hints():
    assert "32 more bytes were copied" in hint("b", State(0, 0, -32), 0)
    assert "expect_tx says more" in hint("b", State(0, 0, 32), 0)
    assert "still needs 2 arrivals" in hint("b", State(0, 2, 32), 0)
    assert "completed the phase" in hint("b", State(1, 2, 0), 0)
