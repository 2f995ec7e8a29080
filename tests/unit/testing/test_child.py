"""Child processes with a deadline, and the decorators of device tests."""

import os
import signal
import sys
import time
import types

import numpy as np
import pytest

from nvdsl.errors import ArgumentError
from nvdsl.testing import ChildFailed, ChildTimeout, device, in_child, requires_hopper, run_in_child

pytestmark = pytest.mark.usefixtures("quick_python")
PYTHON = sys.executable  # a real one

# What the children run. They find this module by the name that it has here.


def double(x, *, plus=0):
    print("doubling")
    return 2 * x + plus


def process_id():
    return os.getpid()


def variable(name):
    return os.environ.get(name)


def refuse():
    raise ArgumentError("no such thing", rule="there is none", fix="write another")


class Unportable(Exception):
    def __init__(self, one, two):
        super().__init__(one)


def raise_unportable():
    raise Unportable("first", "second")


def crash():
    os.kill(os.getpid(), signal.SIGSEGV)


def leave(code):
    os._exit(code)


def hang_with_a_grandchild(file):
    if os.fork() == 0:
        time.sleep(600)
    with open(file, "w") as out:
        out.write(str(os.getpgid(0)))
    a_line_that_hangs()


def a_line_that_hangs():
    time.sleep(600)


def unpicklable():
    return lambda: None


def here(function):
    return f"{__name__}:{function.__name__}"


# --- run_in_child


def test_arguments_and_result_travel():
    result = run_in_child(here(double), [np.arange(3)], {"plus": 1})
    assert result.value.tolist() == [1, 3, 5]
    assert result.stdout == "doubling\n" and 0 < result.seconds < 60


def test_it_is_another_process(monkeypatch):
    monkeypatch.setattr(sys, "executable", PYTHON)
    assert run_in_child(here(process_id)).value != os.getpid()


def test_environment_is_added():
    assert run_in_child(here(variable), ["SOME_SETTING"], env={"SOME_SETTING": "7"}).value == "7"


def test_an_exception_comes_back_with_the_childs_traceback():
    with pytest.raises(ChildFailed) as caught:
        run_in_child(here(refuse))
    assert "exit code 1" in str(caught.value) and "in refuse" in str(caught.value)
    assert isinstance(caught.value.exception, ArgumentError)
    assert caught.value.exception.fix == "write another"


def test_an_exception_that_cannot_travel_is_still_told():
    with pytest.raises(ChildFailed, match="Unportable: first") as caught:
        run_in_child(here(raise_unportable))
    assert caught.value.exception is None


def test_a_result_that_cannot_travel_is_a_failure():
    with pytest.raises(ChildFailed, match="pickle"):
        run_in_child(here(unpicklable))


def test_a_crash_names_the_signal_and_the_line():
    with pytest.raises(ChildFailed, match="SIGSEGV") as caught:
        run_in_child(here(crash))
    assert "in crash" in str(caught.value)


def test_an_exit_code_is_a_failure():
    with pytest.raises(ChildFailed, match="exit code 3"):
        run_in_child(here(leave), [3])


def test_a_name_that_does_not_exist_is_a_failure():
    with pytest.raises(ChildFailed, match="AttributeError"):
        run_in_child(f"{__name__}:nothing")


def running_in_group(group):
    """Process ids of the group; a killed process that nobody has reaped yet is not running."""
    found = []
    for entry in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{entry}/stat") as file:
                state, _, its_group = file.read().rpartition(")")[2].split()[:3]
        except OSError:  # it ended just now
            continue
        if int(its_group) == group and state not in "ZX":
            found.append(int(entry))
    return found


def test_the_deadline_kills_the_whole_group_and_shows_where_it_hung(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "executable", PYTHON)
    started = time.monotonic()
    with pytest.raises(ChildTimeout, match="deadline of 3 s") as caught:
        run_in_child(here(hang_with_a_grandchild), [str(tmp_path / "group")], timeout=3)
    assert time.monotonic() - started < 30
    assert "in a_line_that_hangs" in str(caught.value)
    group = int((tmp_path / "group").read_text())
    assert group != os.getpgid(0)
    while running_in_group(group):  # SIGKILL takes a moment
        assert time.monotonic() - started < 30


def test_a_script_runs_with_its_arguments(tmp_path):
    script = tmp_path / "script.py"
    script.write_text("import sys, nvdsl\nprint(sys.argv[1:])\n")
    result = run_in_child(str(script), [1, "two"])
    assert result.stdout == "['1', 'two']\n" and result.value is None


def test_a_script_that_fails(tmp_path):
    script = tmp_path / "script.py"
    script.write_text("import sys\nsys.exit('nothing to do')\n")
    with pytest.raises(ChildFailed, match="nothing to do"):
        run_in_child(str(script))


# --- in_child


@in_child(timeout=60)
def where_am_i(x):
    """Says so."""
    return os.getpid(), x


@in_child(timeout=60)
def give_up():
    pytest.skip("not today")


@in_child(timeout=60)
def refuse_in_child():
    refuse()


def test_in_child_runs_the_function_itself_elsewhere():
    process, x = where_am_i("here")
    assert process != os.getpid() and x == "here"
    assert where_am_i.__name__ == "where_am_i" and where_am_i.__doc__ == "Says so."


def test_in_child_raises_what_the_function_raised():
    with pytest.raises(ArgumentError, match="no such thing"):
        refuse_in_child()


def test_in_child_skips_where_the_function_skips():
    with pytest.raises(pytest.skip.Exception, match="not today"):
        give_up()


# --- requires_hopper


def with_probe(monkeypatch, reason):
    fake = types.ModuleType("nvdsl.driver.device")
    fake.probe = lambda: reason
    monkeypatch.setitem(sys.modules, "nvdsl.driver.device", fake)
    monkeypatch.setattr("nvdsl.driver.device", fake, raising=False)
    device.missing_hopper.cache_clear()


@pytest.fixture(autouse=True)
def no_answer_stays():
    yield
    device.missing_hopper.cache_clear()


def increment(x):
    return x + 1


def test_without_a_gpu_the_test_is_skipped_with_the_reason(monkeypatch):
    with_probe(monkeypatch, "no CUDA driver on this machine")
    with pytest.raises(pytest.skip.Exception, match="no CUDA driver"):
        requires_hopper(increment)(1)


def test_with_a_gpu_the_test_runs(monkeypatch):
    with_probe(monkeypatch, None)
    assert requires_hopper(increment)(1) == 2


def test_the_test_is_marked_gpu_and_keeps_its_name():
    @requires_hopper
    def test_something():
        pass

    assert [mark.name for mark in test_something.pytestmark] == ["gpu"]
    assert test_something.__name__ == "test_something"
