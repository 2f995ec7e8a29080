"""Candidates are compiled at the same time, in processes."""

import os
import time
from pathlib import Path

import pytest

from nvdsl.tune import compiling

pytestmark = pytest.mark.usefixtures("quick_python")


class Meeting:
    """A compiler that is done when two are at it."""

    def compile(self, module, folder):
        here = Path(folder)
        (here / module.decode()).write_text(str(os.getpid()))
        until = time.monotonic() + 20
        while len(list(here.iterdir())) < 2:
            assert time.monotonic() < until, "nobody else compiles"
            time.sleep(0.01)
        return (here / module.decode()).read_bytes()


def compiled(folder, modules):
    until = time.monotonic() + 60
    found = list(compiling.compile_all(modules, 2, str(folder), until, f"{__name__}:Meeting"))
    assert {number for number, _, _ in found} == {number for number, _ in modules}
    return {number: (packed, why) for number, packed, why in found}


def test_as_many_at_a_time_as_there_are_processors(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "cpu_count", lambda: 2)
    found = compiled(tmp_path, [(3, b"three"), (7, b"seven")])
    assert [why for _, why in found.values()] == ["", ""]
    pids = {int(packed) for packed, _ in found.values()}
    assert len(pids) == 2 and os.getpid() not in pids


def test_nothing_is_begun_when_the_budget_is_used_up(tmp_path):
    found = list(compiling.compile_all([(1, b"one")], 1, str(tmp_path), 0.0, f"{__name__}:Meeting"))
    assert found == [(1, None, "not compiled: the budget was used up")]
    assert not list(tmp_path.iterdir())
