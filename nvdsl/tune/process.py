"""A Python process that does what it is asked, and may hang or crash without harm to this one.

The process serves one object: ``Process("module:Class", arguments)`` makes it there, ``call("method", ...)`` calls it.
"""

from __future__ import annotations

import contextlib
import ctypes
import importlib
import os
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection, Pipe
from pathlib import Path
from typing import Any

_PR_SET_PDEATHSIG = 1


class Lost(Exception):
    """The process is gone. ``reason``: it hung until its deadline, or crashed; ``doing``: what it said last that it
    was doing (see `serve`)."""

    def __init__(self, reason: str, doing: Any) -> None:
        super().__init__(reason)
        self.reason, self.doing = reason, doing


class Refused(Exception):
    """The method raised; the message is the exception's. The process lives on."""


class Process:
    """``factory``: ``"module:Class"``; the object is made in the process with ``arguments`` (pickled) at the first
    call. Start it in a thread that lives as long as it is needed: it is killed with its parent thread."""

    def __init__(self, factory: str, *arguments: Any) -> None:
        self._connection, theirs = Pipe()
        self._stderr = tempfile.TemporaryFile()
        code = f"from nvdsl.tune.process import serve; serve({theirs.fileno()})"
        self._child = subprocess.Popen(
            [sys.executable, "-c", code],
            stdin=subprocess.DEVNULL,
            stdout=self._stderr,
            stderr=self._stderr,
            env=_environment(),
            pass_fds=[theirs.fileno()],
            start_new_session=True,
        )
        theirs.close()
        self._connection.send((sys.path, factory))
        self._connection.send(arguments)

    def call(self, method: str, *arguments: Any, deadline: float) -> Any:
        """The method's result. ``deadline``: seconds. Raises `Lost` (the process is gone then) and `Refused`."""
        doing, end = None, time.monotonic() + deadline
        try:
            self._connection.send((method, arguments))
            while True:
                if not self._connection.poll(max(0.0, end - time.monotonic())):
                    self.close()
                    raise Lost(f"hung: not done after {deadline:g} s", doing)
                kind, value = self._connection.recv()
                if kind == "doing":
                    doing = value
                elif kind == "raised":
                    raise Refused(value)
                else:
                    return value
        except (EOFError, OSError):
            ending = self._ending()
            self.close()
            raise Lost(f"crashed: {ending}", doing) from None

    def close(self) -> None:
        """Kill the process and all that it started. Safe to call again."""
        self._connection.close()
        if self._child.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._child.pid, signal.SIGKILL)
            with contextlib.suppress(subprocess.TimeoutExpired):  # a driver may take its time to end a kernel
                self._child.wait(20)
        self._stderr.close()

    def _ending(self) -> str:
        if self._stderr.closed:
            return "it was ended before"
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._child.wait(5)
        code = self._child.returncode
        how = "no answer" if code is None else f"exit code {code}" if code >= 0 else signal.Signals(-code).name
        self._stderr.seek(0)
        said = self._stderr.read().decode(errors="replace").strip().splitlines()
        return f"{how}, {said[-1]}" if said else how


def serve(handle: int) -> None:
    """The process's side. The object's attribute ``doing`` is set to a function that tells the parent what is being
    done, so that a hang can be blamed on it."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)  # a kernel that hangs must not outlive the parent
    connection = Connection(handle)
    path, factory = connection.recv()
    sys.path += [entry for entry in path if entry not in sys.path]
    arguments = connection.recv()
    target: Any = None
    while True:
        try:
            method, parameters = connection.recv()
        except EOFError:
            return
        try:
            if target is None:
                target = _find(factory)(*arguments)
                target.doing = lambda what: connection.send(("doing", what))
            connection.send(("result", getattr(target, method)(*parameters)))
        except Exception as error:
            traceback.print_exc()
            connection.send(("raised", f"{error}" if str(error) else type(error).__name__))


def _find(name: str) -> Callable[..., Any]:
    module, _, attribute = name.partition(":")
    return getattr(importlib.import_module(module), attribute)


def _environment() -> dict[str, str]:
    root = str(Path(__file__).resolve().parents[2])
    path: Sequence[str] = [root, *filter(None, [os.environ.get("PYTHONPATH")])]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(path), "NVDSL_DUMP": "", "PYTHONFAULTHANDLER": "1"}
