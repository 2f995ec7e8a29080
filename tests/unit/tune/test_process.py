"""A process may hang, crash and raise; the parent lives on and knows which it was."""

import os
import subprocess
import sys
import time

import pytest

from nvdsl.tune.process import Lost, Process, Refused

pytestmark = pytest.mark.usefixtures("quick_python")
PYTHON = sys.executable  # a real one


class Server:
    """What the processes of these tests serve."""

    def __init__(self, start=0):
        self._count = start

    def count(self, more):
        self._count += more
        return self._count

    def fail(self):
        raise ValueError("no such thing")

    def hang(self):
        self.doing("candidate 3")
        time.sleep(60)

    def crash(self, how):
        print("last words", file=sys.stderr, flush=True)
        os.abort() if how == "abort" else os._exit(7)

    def pid(self):
        return os.getpid()

    def child(self):
        return subprocess.Popen(["sleep", "60"]).pid


SERVER = f"{__name__}:Server"


@pytest.fixture
def process():
    made = Process(SERVER, 10)
    yield made
    made.close()


def gone(pid, seconds=5.0):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        try:
            with open(f"/proc/{pid}/stat") as file:
                if file.read().rpartition(")")[2].split()[0] == "Z":
                    return True
        except OSError:
            return True
        time.sleep(0.02)
    return False


def test_the_object_lives_between_calls_and_survives_what_it_raises(process):
    assert process.call("count", 1, deadline=30) == 11
    with pytest.raises(Refused, match="no such thing"):
        process.call("fail", deadline=10)
    assert process.call("count", 1, deadline=10) == 12


def test_a_hang_ends_at_the_deadline_with_its_children(monkeypatch):
    monkeypatch.setattr(sys, "executable", PYTHON)
    process = Process(SERVER, 10)
    child = process.call("child", deadline=30)
    start = time.monotonic()
    with pytest.raises(Lost, match="hung: not done after 0.5 s") as caught:
        process.call("hang", deadline=0.5)
    assert caught.value.doing == "candidate 3"
    assert time.monotonic() - start < 5
    assert gone(child)


@pytest.mark.parametrize(("how", "text"), [("abort", "SIGABRT"), ("exit", "exit code 7, last words")])
def test_a_crash_says_how(process, how, text):
    with pytest.raises(Lost, match=f"crashed: {text}"):
        process.call("crash", how, deadline=30)
    with pytest.raises(Lost):
        process.call("count", 1, deadline=1)


def test_it_does_not_outlive_its_parent():
    program = f"""
import os, sys, time
sys.path[:0] = {sys.path!r}
from nvdsl.tune.process import Process
process = Process({SERVER!r})
print(process.call("pid", deadline=30), flush=True)
process._connection.send(("hang", ()))
process._connection.recv()  # it is at it
os.kill(os.getpid(), 9)
"""
    run = subprocess.run([PYTHON, "-c", program], capture_output=True, text=True, timeout=60)
    assert gone(int(run.stdout))
