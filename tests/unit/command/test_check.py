"""nvdsl check: a script under several schedules."""

from pathlib import Path

import pytest

import nvdsl_command
from nvdsl_command import check
from nvdsl_command.check import Schedule
from tests.unit.command.programs import BY_LUCK, GOOD, RACE

pytestmark = pytest.mark.usefixtures("quick_python")


@pytest.fixture
def checked(tmp_path, capsys, monkeypatch):
    """The exit code and the output of a check of a script."""

    def run(text, *arguments):
        monkeypatch.chdir(tmp_path)
        Path("program.py").write_text(text)
        code = nvdsl_command.main(["check", "program.py", *arguments])
        return code, capsys.readouterr().out

    return run


def test_schedules():
    assert list(map(str, check.schedules(4, "nvvm"))) == ["late", "eager", "random, seed 0", "random, seed 1"]
    assert [one.level for one in check.schedules(2, "both")] == ["traced"] * 2 + ["nvvm"] * 2
    assert len(set(check.schedules(22, "both"))) == 44
    assert list(map(str, check.schedules(1, "traced"))) == ["late"]


def test_a_good_script_passes_them_all(checked):
    code, out = checked(GOOD, "--schedules", "3", "--level", "traced", "--", "--size", "4")
    assert code == 0
    assert "3 of 3 schedules passed" in out
    assert out.count(" ok\n") == 3
    assert "arguments" not in out  # the script's own output


def test_a_race_is_reported_once_with_what_repeats_it(checked):
    code, out = checked(RACE, "--schedules", "3", "--level", "nvvm")
    assert code == 1
    assert "0 of 3 schedules passed" in out
    assert "nvdsl run --delivery late --level nvvm program.py" in out
    assert out.count("  fix:  ") == 1  # the same report for all of them
    assert "program.py:12" in out


def test_a_schedule_that_fails_is_named(checked):
    code, out = checked(BY_LUCK, "--schedules", "4", "--level", "traced", "--", "a b")
    assert code == 1
    assert "3 of 4 schedules passed" in out
    assert "random, seed 1     traced" in out
    assert "nvdsl run --delivery random --level traced --order random --seed 1 program.py 'a b'\nexit code 3" in out


@pytest.mark.parametrize(
    ("text", "report"),
    [
        ("1 / 0", "program.py:1: ZeroDivisionError: division by zero"),
        ("x = 3\nassert x == 4", "program.py:2: AssertionError: assert x == 4"),
        ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", "signal 9"),
        ("import sys; sys.exit('no')", "\nno\n"),
        ("import time; time.sleep(60)", "not done after 0.3 s"),
        ("\nx = (", "program.py:2: SyntaxError: '(' was never closed"),
        (r"import os; os.write(1, b'\xff'); os._exit(0)", "the process ended (os._exit) before the script did"),
    ],
)
def test_any_end_but_a_good_one_fails(checked, text, report):
    timeout = "0.3" if "sleep" in text else "60"
    code, out = checked(text, "--schedules", "1", "--level", "traced", "--timeout", timeout)
    assert code == 1
    assert report in out


NOTHING = {
    "no kernel": "x = 3",
    "a kernel that is never called": GOOD.replace("double(x)\n", "").replace("x.sum() == 64", "x.sum() == 32"),
    "a main function that is never called": "def main():\n" + "".join(f"    {s}\n" for s in GOOD.splitlines()),
}


@pytest.mark.parametrize("case", NOTHING)
def test_a_check_of_nothing_fails(checked, case):
    code, out = checked(NOTHING[case], "--schedules", "1", "--level", "traced")
    assert code == 1
    assert "program.py: no kernel ran" in out and "call the jit function in the script" in out


def test_a_command_that_repeats_it_asks_for_the_same():
    one = Schedule("random", "nvvm", 7)
    command = one.command("a.py", ["--M", "3"])
    assert command == "nvdsl run --delivery random --level nvvm --order random --seed 7 a.py --M 3"
    environment = one.environment()
    chosen = {name: environment[f"NVDSL_SIM_{name}"] for name in ("DELIVERY", "ORDER", "SEED", "LEVEL")}
    assert chosen == {"DELIVERY": "random", "ORDER": "random", "SEED": "7", "LEVEL": "nvvm"}
    assert environment["NVDSL_TARGET"] == "sim"


def test_schedules_do_not_write_over_each_others_trace(monkeypatch):
    monkeypatch.setenv("NVDSL_SIM_TRACE", "trace.json")
    assert "NVDSL_SIM_TRACE" not in Schedule("late", "traced").environment()
