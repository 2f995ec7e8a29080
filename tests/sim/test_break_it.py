"""What the chapters' exercises say is what nvdsl reports."""

import pytest

from tests.exhaustive import exhaustive
from tests.sim.break_it import CHAPTERS, exercise, quoted

LONG = "simt/ladder.py"
"""It compiles and runs twelve forms of a product before the one that is changed."""


@pytest.mark.parametrize(
    "path", [pytest.param(p, id=p.stem, marks=exhaustive if p.match(LONG) else ()) for p in CHAPTERS]
)
def test_the_report_is_as_quoted(path, tmp_path, monkeypatch):
    monkeypatch.setenv("NVDSL_TARGET", "sim")
    one = exercise(path)
    assert one.report == quoted(one.run(tmp_path), tmp_path), "python -m tests.sim.break_it --write"
