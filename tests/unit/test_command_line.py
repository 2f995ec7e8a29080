"""The command line of the chapters."""

import importlib
import inspect
import subprocess
import sys
from pathlib import Path

import pytest

from chapters import command_line

pytestmark = pytest.mark.usefixtures("quick_python")

CHAPTERS = Path(command_line.__file__).parent


def main(n=1000, tile=(16, 64), budget=45.0):
    chosen.append((n, tile, budget))


chosen = []


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("", (1000, (16, 64), 45.0)),
        ("--n 7 --tile 8x32", (7, (8, 32), 45.0)),
        ("--budget 0.5", (1000, (16, 64), 0.5)),
    ],
)
def test_values(given, expected, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["chapter.py", *given.split()])
    monkeypatch.setattr(sys.modules["__main__"], "__doc__", "A chapter.")
    command_line.run(main)
    assert chosen.pop() == expected


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ("--n x", "invalid positive value: 'x'"),
        ("--n 0", "0 is not positive"),
        ("--n -3", "-3 is not positive"),
        ("--tile 8", "8: 2 positive numbers with an x between"),
        ("--tile 8x0", "8x0: 2 positive numbers"),
        ("--tile 8xy", "8xy: 2 positive numbers"),
        ("--stages 2", "unrecognized arguments"),
    ],
)
def test_values_that_make_no_sense(given, says, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["chapter.py", *given.split()])
    monkeypatch.setattr(sys.modules["__main__"], "__doc__", "A chapter.")
    with pytest.raises(SystemExit) as ended:
        command_line.run(main)
    assert ended.value.code == 2
    assert says in capsys.readouterr().err


def test_an_error_of_nvdsl_is_all_that_is_printed():
    command = [sys.executable, str(CHAPTERS / "ch4_multistage_gemm.py"), "--stages", "1"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 1
    first, *others = done.stderr.splitlines()
    assert first.startswith("ArgumentError: ") and first.endswith(": stages = 1")
    assert "Traceback" not in done.stderr and others[0].startswith("  rule:")


@pytest.mark.parametrize("name", sorted(path.stem for path in CHAPTERS.glob("ch*.py")))
def test_help_names_every_option_and_its_default(name, monkeypatch, capsys):
    chapter = importlib.import_module(f"chapters.{name}")
    monkeypatch.setattr(sys, "argv", ["chapter.py", "--help"])
    monkeypatch.setattr(sys.modules["__main__"], "__doc__", chapter.__doc__)
    with pytest.raises(SystemExit) as ended:
        command_line.run(chapter.main)
    assert ended.value.code == 0
    options = inspect.signature(chapter.main).parameters
    assert options and capsys.readouterr().out.count("(default: ") == len(options)
