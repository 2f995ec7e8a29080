"""Running a function or a script in a child process with a deadline: a hang, a crash or a poisoned CUDA
context ends there."""

from __future__ import annotations

import contextlib
import copyreg
import functools
import importlib
import os
import pickle
import resource
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

from nvdsl.errors import NvdslError, WatchdogError
from nvdsl.errors.records import dataclass

P = ParamSpec("P")
R = TypeVar("R")


class ChildTimeout(NvdslError):
    """The child process was still running at its deadline and was killed."""

    stage = "child"


class ChildFailed(NvdslError):
    """The child process raised or crashed. ``exception`` is what it raised, if that could be passed on."""

    stage = "child"
    exception: BaseException | None = None


@dataclass(frozen=True)
class ChildResult:
    """``value`` is what the function returned (None for a script); ``seconds`` is the child's wall time."""

    value: Any
    stdout: str
    stderr: str
    seconds: float


def run_in_child(
    target: str,
    args: Sequence[object] = (),
    kwargs: Mapping[str, object] | None = None,
    *,
    timeout: float = 120.0,
    env: Mapping[str, str] | None = None,
) -> ChildResult:
    """Run `target` in a Python process of its own, isolated from this one.

    `target` is ``"module:function"`` (arguments and result are pickled) or the path of a ``.py`` file
    (arguments become its command line). `timeout` is in seconds, `env` is added to the environment. At the
    deadline the child's whole process group is killed, after it was made to print where it stood.
    Raises ChildTimeout, or ChildFailed with the end of the child's output.
    """
    with tempfile.TemporaryDirectory(prefix="nvdsl-child-") as name:
        folder = Path(name)
        command = _command(target, args, kwargs or {}, folder)
        started = time.monotonic()
        with open(folder / "stdout", "wb") as stdout, open(folder / "stderr", "wb") as stderr:
            child = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=stdout,
                stderr=stderr,
                env=_environment(env),
                start_new_session=True,
            )
            with contextlib.suppress(OSError):  # it may have ended already
                resource.prlimit(child.pid, resource.RLIMIT_CORE, (0, 0))
            ended = _wait(child, timeout)
        seconds = time.monotonic() - started
        out, err = ((folder / stream).read_text(errors="replace") for stream in ("stdout", "stderr"))
        if not ended:
            raise ChildTimeout(f"{target} ran past its deadline of {timeout:g} s\n{_tail(out, err)}")
        value, exception = None, None
        if (folder / "outcome").exists():
            value, exception = pickle.loads((folder / "outcome").read_bytes())
    if child.returncode:
        failure = ChildFailed(f"{target} {_ending(child.returncode)}\n{_tail(out, err)}")
        failure.exception = exception
        raise failure
    return ChildResult(value, out, err, seconds)


def in_child(timeout: float = 120.0) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Decorator: every call of the function (of a module's top level, a test for example) is made in a
    child process. It returns what the function returned and raises what it raised, `pytest.skip` too."""

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        @functools.wraps(function)
        def call(*args: P.args, **kwargs: P.kwargs) -> R:
            target = f"{function.__module__}:{function.__qualname__}"
            try:
                return run_in_child(target, args, kwargs, timeout=timeout).value
            except ChildFailed as failure:
                if failure.exception is None:
                    raise
                raise failure.exception from failure

        call.__nv_child__ = function  # type: ignore[attr-defined]
        return call

    return decorate


def _command(target: str, args: Sequence[Any], kwargs: Mapping[str, Any], folder: Path) -> list[str]:
    if target.endswith(".py"):
        return [sys.executable, target, *map(str, args)]
    # Two pickles, because the arguments may need modules that only the first one's sys.path finds.
    call = pickle.dumps((sys.path, target)) + pickle.dumps((tuple(args), dict(kwargs)))
    (folder / "call").write_bytes(call)
    return [sys.executable, "-c", f"from nvdsl.testing.child import _serve; _serve({str(folder)!r})"]


def _environment(extra: Mapping[str, str] | None) -> dict[str, str]:
    root = str(Path(__file__).resolve().parents[2])
    path = os.pathsep.join(filter(None, [root, os.environ.get("PYTHONPATH")]))
    return {**os.environ, "PYTHONPATH": path, "PYTHONFAULTHANDLER": "1", **(extra or {})}


def _wait(child: subprocess.Popen[bytes], timeout: float) -> bool:
    """True if the child ended by itself. A child that did not is gone afterwards, with its whole group."""
    try:
        child.wait(timeout)
        return True
    except subprocess.TimeoutExpired:
        child.send_signal(signal.SIGABRT)  # faulthandler prints every thread's Python stack
        time.sleep(0.5)  # not a wait: while the child is not reaped, its group's number can't be another's
        return False
    finally:
        if child.returncode is None:
            os.killpg(child.pid, signal.SIGKILL)
            child.wait(10)


def _ending(code: int) -> str:
    return f"was ended by {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"


def _tail(out: str, err: str, lines: int = 40) -> str:
    text = err.strip() or out.strip() or "(no output)"
    return "\n".join(text.splitlines()[-lines:])


def _serve(folder: str) -> None:
    """The child's side of ``module:function``."""
    with open(Path(folder) / "call", "rb") as call:
        path, target = pickle.load(call)
        sys.path += [entry for entry in path if entry not in sys.path]
        args, kwargs = pickle.load(call)
    value, exception = None, None
    try:
        value = find(target)(*args, **kwargs)
    except BaseException as error:  # pytest.skip is one
        exception = error
        traceback.print_exc()
    (Path(folder) / "outcome").write_bytes(pickle.dumps((value, _portable(exception))))
    if isinstance(exception, WatchdogError):  # CUDA's clean-up may wait for a kernel that hangs
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(1)
    sys.exit(exception is not None)


def find(target: str) -> Callable[..., Any]:
    """The function that ``module:name`` names, without its `in_child`."""
    module, _, name = target.partition(":")
    found: Any = importlib.import_module(module)
    for part in name.split("."):
        found = getattr(found, part)
    return getattr(found, "__nv_child__", found)


def _portable(exception: BaseException | None) -> BaseException | None:
    """The exception if it survives pickling, else None: its traceback on stderr has to do then."""
    if type(exception).__name__ == "Skipped":  # pytest's, which calls itself a builtin and can't be found
        copyreg.pickle(type(exception), lambda error: (_skipped, (str(error),)))
    try:
        return pickle.loads(pickle.dumps(exception))
    except Exception:
        return None


def _skipped(reason: str) -> BaseException:
    import pytest

    return pytest.skip.Exception(reason)
