"""The way of a call through nvdsl's rooms: which functions it passes, and in which order."""

from __future__ import annotations

import sys
from collections.abc import Callable
from itertools import groupby
from pathlib import Path
from typing import Any

import nvdsl

ROOT = str(Path(nvdsl.__file__).parent) + "/"
OWN = (ROOT, "<nvdsl")
"""Where code of nvdsl is from: its files, or written for a call."""


def way(call: Callable[[], Any]) -> list[str]:
    """Each Python function of nvdsl that is called: "room/module:name". Not those that a test's stand-ins call."""
    passed: list[str] = []

    def note(frame: Any, event: str, _: Any) -> None:
        code, caller = frame.f_code, frame.f_back.f_code.co_filename
        if event == "call" and code.co_filename.startswith(ROOT) and (caller.startswith(OWN) or not passed):
            passed.append(f"{code.co_filename.removeprefix(ROOT).removesuffix('.py')}:{code.co_name}")

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        call()
    finally:
        sys.setprofile(before)
    return passed


def rooms(passed: list[str]) -> list[str]:
    """The rooms in the order in which they are entered."""
    return [room for room, _ in groupby(one.partition("/")[0] for one in passed)]
