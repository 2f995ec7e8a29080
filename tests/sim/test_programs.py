"""The chapters and the LLVM style programs: right numbers and no false alarm, under any schedule."""

import dataclasses
import io
from contextlib import redirect_stdout

import pytest

from nvdsl import verify
from tests.exhaustive import exhaustive
from tests.sim.mutants.subjects import SUBJECTS, subject
from tests.sim.programs import CASES, ROOT, case, load
from tests.sim.simulate import SCHEDULES, run

KERNELS = [name for name in SUBJECTS if name not in CASES]
NAMES = [*CASES, *KERNELS]


def program(name):
    return case(name) if name in CASES else subject(name).case


def one_of(name):
    """A schedule: kernel after kernel another."""
    return [SCHEDULES[7 * NAMES.index(name) % len(SCHEDULES)]]


@pytest.mark.parametrize("chosen", [one_of, pytest.param(lambda _: SCHEDULES, marks=exhaustive)], ids=["one", "all"])
@pytest.mark.parametrize(
    ("name", "level"),
    [
        pytest.param(name, level, marks=[] if i % 6 in usual else exhaustive)
        for i, name in enumerate(NAMES) for level, usual in (("traced", (1, 5)), ("nvvm", (3,)))
    ],
)  # fmt: skip
def test_right_numbers_and_no_false_alarm(name, level, chosen):
    one = program(name)
    for options in chosen(name):
        one.reset()
        one.program.run(dataclasses.replace(options, level=level))
        one.check()


@pytest.mark.parametrize("name", NAMES)
def test_the_verifier_gives_no_false_alarm(name):
    module = program(name).program.module
    with module.context:
        verify.check(module)


def test_every_chapter_is_here():
    for path in [*ROOT.glob("chapters/ch*.py"), *ROOT.glob("tests/compat/ch*.py")]:
        chapter = ("compat " if path.parent.name == "compat" else "") + path.name.partition("_")[0]
        elsewhere = chapter.endswith("ch0") or chapter == "ch10"  # prints, see below; tunes
        assert elsewhere or chapter in NAMES, path


def test_threads_print_in_order():
    out = io.StringIO()
    with redirect_stdout(out):
        run(load("chapters/ch0_hello.py").hello)
    assert out.getvalue() == "".join(f"Hello from block {b} thread {t}\n" for b in range(2) for t in range(4))
