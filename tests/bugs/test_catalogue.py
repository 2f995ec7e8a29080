"""docs/bugs.md: each entry has a kernel here that shows it, and the checks that it names report it, at the line.

A comment at the line says which: ``# verifier``, ``# simulator: deadlock``, ``# launch``.
"""

import importlib.util
import re
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from nvdsl import sim
from nvdsl.errors import ArgumentError, NvdslError, SimError, VerifyError
from tests.exhaustive import exhaustive
from tests.sim.simulate import traced, verdict_of

HERE = Path(__file__).parent
DOCUMENT = HERE.parents[1] / "docs" / "bugs.md"
KERNELS = sorted(path.stem for path in HERE.glob("*.py") if not path.name.startswith("test_"))
SCHEDULES = [
    sim.Options(),
    sim.Options(delivery="eager"),
    sim.Options(order="reverse"),
    *(sim.Options(delivery="random", order="random", seed=seed) for seed in range(4)),
]


@cache
def module(name):
    spec = importlib.util.spec_from_file_location(f"bug_{name}", HERE / f"{name}.py")
    found = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(found)
    return found


def arrays(name):
    return [np.zeros(shape, dtype) for shape, dtype in module(name).ARRAYS]


@cache
def marks(name):
    """{check: the lines at which it may report}; of the simulator, "simulator: kind"."""
    found = {}
    for number, line in enumerate((HERE / f"{name}.py").read_text().splitlines(), 1):
        code, _, comment = line.partition("  # ")
        for check in comment.split(", ") if comment and not comment.startswith("fmt") else ():
            found.setdefault(check, set()).add(number)
    return found


@cache
def entries():
    """{kernel: the lines of its entry} of the document."""
    parts = re.split(r"^### ", DOCUMENT.read_text(), flags=re.M)[1:]
    return {part.split("\n", 1)[0].strip(): part for part in parts}


def refused(name):
    """The error of tracing and verifying, or None."""
    try:
        module(name).kernel.trace(*arrays(name))
    except NvdslError as error:
        return error
    return None


def at(error, name, lines):
    assert error.where is not None and Path(error.where.file).stem == name, error
    assert error.where.line in lines, error


@pytest.mark.parametrize("name", KERNELS)
def test_the_verifier_reports_it_at_the_line(name):
    error, lines = refused(name), marks(name).get("verifier")
    if lines is None and error is None:
        return
    assert isinstance(error, VerifyError), error
    at(error, name, lines if lines is not None else set().union(*marks(name).values()))


@pytest.mark.parametrize("schedules", [SCHEDULES[:4], pytest.param(SCHEDULES, marks=exhaustive)], ids=["some", "all"])
@pytest.mark.parametrize("name", [n for n in KERNELS if any(c.startswith("simulator") for c in marks(n))])
def test_the_simulator_reports_it_at_the_line(name, schedules, monkeypatch):
    """In the default schedule; in another one it may go unseen, but never be taken for something else."""
    monkeypatch.setenv("NVDSL_VERIFY", "off")
    program = traced(module(name).kernel, *arrays(name))
    for options in schedules:
        error = verdict_of(program, options)
        if options == SCHEDULES[0]:
            assert isinstance(error, SimError)
        if error is not None:
            assert f"simulator: {error.kind}" in marks(name), error
            at(error, name, marks(name)[f"simulator: {error.kind}"])


@pytest.mark.parametrize("name", [n for n in KERNELS if "launch" in marks(n)])
def test_a_launch_refuses_it(name, monkeypatch):
    monkeypatch.setenv("NVDSL_VERIFY", "off")
    with pytest.raises(ArgumentError) as refusal:
        module(name).kernel(*arrays(name), target="sim")
    at(refusal.value, name, marks(name)["launch"])


def test_each_entry_has_a_kernel_and_each_kernel_an_entry():
    assert sorted(entries()) == KERNELS


@pytest.mark.parametrize("name", KERNELS)
def test_an_entry_is_whole(name):
    entry = entries()[name]
    for part in ("Symptom:", "Cause:", "Found by:", "Write instead:"):
        assert f"**{part}**" in entry, part
    assert f"(../tests/bugs/{name}.py)" in entry
    found_by = re.search(r"\*\*Found by:\*\*(.*?)(?=\n- |\Z)", entry, re.S)[1]
    for check in marks(name):
        what, _, kind = check.partition(": ")
        assert what in found_by and (not kind or f"`{kind}`" in found_by), check
    for kind in re.findall(r"`([a-z-]+)`", found_by.partition("on the GPU")[0]):
        assert f"simulator: {kind}" in marks(name), kind
    assert ("the verifier" in found_by) == ("verifier" in marks(name))
