"""Progress of long simulations: where it is shown, and what it says."""

import io
import re
import sys

import numpy as np
import pytest

import nvdsl as nv
from nvdsl.sim import progress
from tests.sim.programs import load
from tests.sim.simulate import run


class Terminal(io.StringIO):
    def isatty(self):
        return True


class Clock:
    """A monotonic clock that goes on by a second each time somebody asks."""

    def __init__(self, step=1.0):
        self.now, self.step = 0.0, step

    def __call__(self):
        self.now += self.step
        return self.now


@pytest.fixture
def simulated(monkeypatch):
    """stderr of chapter 4 on four blocks, on a terminal or not, with a clock of its own."""

    def simulate(stderr, step=1.0):
        monkeypatch.setattr(sys, "stderr", stderr)
        monkeypatch.setattr(progress.time, "monotonic", Clock(step))
        a, d = np.ones((256, 256), np.float16), np.empty((256, 256), np.float32)
        run(load("chapters/ch4_multistage_gemm.py").gemm, a, a, d)
        return stderr.getvalue()

    return simulate


def test_a_terminal_shows_a_bar(simulated):
    shown = simulated(Terminal())
    assert "simulating gemm" in shown and "/4" in shown and "copies" in shown


def test_a_short_simulation_shows_nothing(simulated):
    assert simulated(Terminal(), step=1e-6) == ""


@pytest.mark.parametrize("stderr", [io.StringIO, Terminal])
def test_lines_without_a_terminal_and_on_request(simulated, monkeypatch, stderr):
    if stderr is Terminal:
        monkeypatch.setenv("NVDSL_SIM_PROGRESS", "1")
    lines = simulated(stderr()).splitlines()
    assert lines and all(line.startswith("simulating gemm: ") and " of 4 blocks, " in line for line in lines)
    assert any("s left" in line for line in lines)
    done = [int(line.split()[2]) for line in lines]
    assert done == sorted(done) and done[-1] > 0


@pytest.mark.parametrize("stderr", [io.StringIO, Terminal])
def test_never_on_request(simulated, monkeypatch, stderr):
    monkeypatch.setenv("NVDSL_SIM_PROGRESS", "0")
    assert simulated(stderr()) == ""


@nv.jit
def counted(out, *, turns):
    @nv.kernel(grid=1, block=32)
    def body():
        total = nv.i32(0)
        for i in nv.range(0, 2 * turns, 2):
            total += i
        out[nv.thread_id.x] = total

    body()


def test_a_long_loop_says_where_it_is(monkeypatch):
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    monkeypatch.setattr(progress.time, "monotonic", Clock())
    out = np.zeros(32, np.int32)
    run(counted, out, turns=50_000)
    assert (out == 50_000 * 49_999 % 2**32 - 2**32 * (50_000 * 49_999 % 2**32 >= 2**31)).all()
    lines = sys.stderr.getvalue().splitlines()
    assert len(lines) >= 3
    assert all(re.search(r"turn [\d,]+ of 50,000 of the loop at .*test_progress.py:\d+$", line) for line in lines[:-1])
