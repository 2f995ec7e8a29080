"""What the chapters' exercises say is what nvdsl reports."""

import pytest

from tests.sim.break_it import CHAPTERS, exercise, quoted


@pytest.mark.parametrize("path", CHAPTERS, ids=lambda path: path.stem)
def test_the_report_is_as_quoted(path, tmp_path, monkeypatch):
    monkeypatch.setenv("NVDSL_TARGET", "sim")
    one = exercise(path)
    assert one.report == quoted(one.run(tmp_path), tmp_path), "python -m tests.sim.break_it --write"
