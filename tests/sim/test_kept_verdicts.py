"""`make mutants` keeps the verdicts of a kernel that is the same, and of no other."""

import numpy as np
import pytest

import nvdsl as nv
from tests.sim.mutants import kept
from tests.sim.mutants.judge import Subject, Verdict
from tests.sim.programs import Case
from tests.sim.simulate import traced

SOURCE = """
@nv.jit
def shift(x, y):
    @nv.kernel(grid=1, block=32)
    def kernel():
        s = nv.smem(32, nv.f32)
        s[nv.lane_id()] = x[nv.lane_id()]
        nv.sync_warp()
        y[nv.lane_id()] = s[(nv.lane_id() + 1) % 32]

    kernel()
"""
FOUND = {0: Verdict("simulator", "warp-sync", "late", "line", "message")}


def subject(folder, source=SOURCE, first=0.0):
    path = folder / "shift.py"
    path.write_text(source)
    space = {"nv": nv}
    exec(compile(source, path, "exec"), space)
    x = np.arange(32, dtype=np.float32) + np.float32(first)
    return Subject("shift", Case(traced(space["shift"], x, np.zeros_like(x)), lambda: None, lambda: None))


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.setattr(kept, "FOLDER", tmp_path / "kept")
    monkeypatch.setattr(kept, "checks", lambda: "these")


def test_verdicts_of_the_same_kernel_are_kept_wherever_it_stands(tmp_path):
    assert kept.verdicts(subject(tmp_path)) == {}
    kept.keep(subject(tmp_path), FOUND)
    assert kept.verdicts(subject(tmp_path)) == FOUND
    assert kept.verdicts(subject(tmp_path, "\n\n# moved\n" + SOURCE)) == FOUND


@pytest.mark.parametrize(
    "changed",
    [{"source": SOURCE.replace("+ 1", "+ 2")}, {"source": SOURCE.replace("nv.sync_warp()", "")}, {"first": 1.0}],
)
def test_those_of_a_changed_kernel_are_not(tmp_path, changed):
    kept.keep(subject(tmp_path), FOUND)
    assert kept.verdicts(subject(tmp_path, **changed)) == {}


def test_those_of_other_checks_are_kept_on_demand(tmp_path, monkeypatch):
    kept.keep(subject(tmp_path), FOUND)
    monkeypatch.setattr(kept, "checks", lambda: "others")
    assert kept.verdicts(subject(tmp_path)) == {}
    assert kept.verdicts(subject(tmp_path), of_any_checks=True) == FOUND


def test_a_file_that_was_cut_off_holds_nothing(tmp_path):
    kept.keep(subject(tmp_path), FOUND)
    path = kept._path("shift")
    path.write_text(path.read_text()[:40])
    assert kept.verdicts(subject(tmp_path)) == {}


def test_the_code_of_a_check_is_what_it_does():
    source = 'def f(x):\n    """Text."""\n    return x + 1\n'
    assert kept.code(source) == kept.code("# A comment.\ndef f(x):\n    return x + 1  # one\n")
    assert kept.code(source) != kept.code(source.replace("1", "2"))
