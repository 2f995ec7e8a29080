"""What a person sees while a tuning runs."""

import sys

from nvdsl.tune import progress


def tell(shown):
    shown.stage("compiling", 3)
    for note in "abc":
        shown.step(note)
    shown.stage("timing")
    shown.step("3 candidates, 3 rounds")
    shown.close("stages=4 is the fastest")


def test_lines_where_stderr_is_no_terminal(capsys):
    tell(progress.show("tuning gemm"))
    out, err = capsys.readouterr()
    assert out == ""
    assert err.splitlines() == [
        "tuning gemm: compiling (3)", "tuning gemm: timing", "tuning gemm: stages=4 is the fastest"
    ]  # fmt: skip


def test_bars_on_a_terminal(capsys, monkeypatch):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    monkeypatch.setenv("TERM", "xterm")
    shown = progress.show("tuning gemm")
    assert isinstance(shown, progress.Bars)
    tell(shown)
    out, err = capsys.readouterr()
    assert out == ""
    assert "stages=4 is the fastest" in err
