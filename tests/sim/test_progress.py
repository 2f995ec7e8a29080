"""Progress of long simulations: where it is shown, and what it says."""

import io
import sys

import numpy as np
import pytest

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


def test_no_terminal_shows_nothing(simulated):
    assert simulated(io.StringIO()) == ""


def test_lines_on_request(simulated, monkeypatch):
    monkeypatch.setenv("NVDSL_SIM_PROGRESS", "1")
    lines = simulated(io.StringIO()).splitlines()
    assert lines and all(line.startswith("simulating gemm: ") and " of 4 blocks, " in line for line in lines)
    assert any("s left" in line for line in lines)
    done = [int(line.split()[2]) for line in lines]
    assert done == sorted(done) and done[-1] > 0


def test_never_on_request(simulated, monkeypatch):
    monkeypatch.setenv("NVDSL_SIM_PROGRESS", "0")
    assert simulated(Terminal()) == ""
