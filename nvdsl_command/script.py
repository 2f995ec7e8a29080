"""Running somebody's script in this process, as ``python script.py`` would."""

from __future__ import annotations

import os
import runpy
import sys
import traceback
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from nvdsl.errors import NvdslError

_LIBRARY = os.path.dirname(os.__file__) + os.sep + "unittest"


@dataclass
class Outcome:
    """``code``: the exit code. ``report``: what went wrong, "" for nothing; ``kind``: the error's type, or a
    SimError's kind."""

    code: int = 0
    report: str = ""
    kind: str = ""
    traceback: str = ""


def run(script: str, arguments: Sequence[str]) -> Outcome:
    """Run ``script`` as ``__main__``. Its errors end it, not this process."""
    outer = sys.argv, sys.path[0]
    sys.argv = [script, *arguments]
    sys.path[0] = str(Path(script).resolve().parent)
    try:
        runpy.run_path(script, run_name="__main__")
        return Outcome()
    except SystemExit as end:
        return _exit(end)
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        return Outcome(1, _report(error), getattr(error, "kind", "") or type(error).__name__, _traceback(error))
    finally:
        sys.argv, sys.path[0] = outer


def _exit(end: SystemExit) -> Outcome:
    if end.code is None or end.code == 0:
        return Outcome()
    if isinstance(end.code, int):
        return Outcome(end.code, f"exit code {end.code}", "exit")
    return Outcome(1, str(end.code), "exit")


def _report(error: BaseException) -> str:
    if isinstance(error, NvdslError):
        return str(error)
    every = [f for f in traceback.extract_tb(error.__traceback__) if not f.filename.startswith(("<frozen ", _LIBRARY))]
    frames = [f for f in every if "site-packages" not in f.filename] or every  # the script's, not numpy.testing's
    at = f"{frames[-1].filename}:{frames[-1].lineno}: " if frames else ""
    says = str(error) or (frames[-1].line if frames else "") or ""
    if isinstance(error, SyntaxError):  # at the line that can't be read, not at the one that imports it
        at, says = f"{error.filename}:{error.lineno}: ", error.msg
    return f"{at}{type(error).__name__}: {says}"


def _traceback(error: BaseException) -> str:
    """Without the frames of this file and of runpy."""
    here = os.path.abspath(__file__)
    trace = error.__traceback__
    while trace is not None and (
        trace.tb_frame.f_code.co_filename in (here, runpy.__file__)
        or trace.tb_frame.f_code.co_filename.startswith("<frozen ")
    ):
        trace = trace.tb_next
    return "".join(traceback.format_exception(type(error), error, trace))
