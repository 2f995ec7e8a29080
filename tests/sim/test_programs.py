"""The chapters and the LLVM style programs: right numbers and no false alarm, under every schedule."""

import io
from contextlib import redirect_stdout

import pytest

from nvdsl import sim
from tests.sim.programs import CASES, case, load
from tests.sim.simulate import SCHEDULES, run

SLOW = ("compat ch4", "compat ch5")


def simulate(name, options):
    one = case(name)
    one.reset()
    one.program.run(options)
    one.check()


@pytest.mark.parametrize("name", CASES)
def test_right_numbers_at_both_levels(name):
    for level in sim.options.LEVELS:
        for delivery in ("late", "eager"):
            simulate(name, sim.Options(level=level, delivery=delivery))


@pytest.mark.parametrize("name", [name for name in CASES if name not in SLOW])
def test_no_schedule_gives_a_false_alarm(name):
    for options in SCHEDULES:
        simulate(name, options)


@pytest.mark.parametrize("name", SLOW)
def test_few_schedules_of_the_slow_ones(name):
    for options in SCHEDULES[2:5]:
        simulate(name, options)


def test_threads_print_in_order():
    out = io.StringIO()
    with redirect_stdout(out):
        run(load("chapters/ch0_hello.py").hello)
    assert out.getvalue() == "".join(f"Hello from block {b} thread {t}\n" for b in range(2) for t in range(4))
