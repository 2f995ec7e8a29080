"""Locations of ops: the user's file and line, written by a trace, read for reports and errors."""

from __future__ import annotations

import contextlib
import functools
import linecache
import os
import re
from collections.abc import Collection, Iterator
from typing import Any

from nvdsl.errors import frames
from nvdsl.errors.frames import Where
from nvdsl.mlir import ir, threads


@functools.cache
def _register_files() -> None:
    """Tell MLIR, once a process, which files are not user code. An inclusion wins over an exclusion."""
    for prefix in frames.internal():
        ir._globals.register_traceback_file_exclusion(prefix)
    ir._globals.register_traceback_file_inclusion(frames.KERNELS)


@contextlib.contextmanager
def tracebacks(depth: int = 1) -> Iterator[None]:
    """Give each op made in this context the user's file and line.

    ``depth``: how many user frames a location names, innermost first. One costs about a microsecond an
    op; more cost the walk through their frames. Needs a current ``ir.Context``.
    """
    _register_files()
    with ir.Location.unknown(), ir.loc_tracebacks(max_depth=depth):
        yield


def _off_in_child() -> None:
    """A thread that was tracing when another one forked does not go on in the child."""
    if not threads.mlir._is_owned():
        ir._globals.set_loc_tracebacks_enabled(False)


os.register_at_fork(after_in_child=_off_in_child)


def where(x: Any) -> Where | None:
    """The innermost file and line in the location of ``x``: an op, a value, or an ``ir.Location``."""
    return _innermost(x if isinstance(x, ir.Location) else x.location)


def _innermost(location: Any) -> Where | None:
    if isinstance(location, ir.FileLineColLoc):
        return Where(location.filename, location.start_line)
    if isinstance(location, ir.NameLoc):
        return _innermost(location.child_loc)
    if isinstance(location, ir.CallSiteLoc):
        return _innermost(location.callee) or _innermost(location.caller)
    if isinstance(location, ir.FusedLoc):
        return next(filter(None, map(_innermost, location.locations)), None)
    return None


def variable(place: Where | None) -> str:
    """The name that the source line at ``place`` assigns to, e.g. "full"; "" when it does not."""
    if place is None:
        return ""
    match = re.match(r"\s*(%?[A-Za-z_]\w*)\s*(?::[^=]*)?=[^=]", linecache.getline(place.file, place.line))
    return match[1] if match else ""


def mbarrier_group(place: Where | None, taken: Collection[str]) -> str:
    """A name for the mbarriers made at ``place``, none of ``taken``: the variable's; of a `Ring`, which makes two
    groups in one line, the variable's with ``.full`` and ``.empty``."""
    name = variable(place) or "group"
    if place is not None and re.search(r"\bRing\(", linecache.getline(place.file, place.line)):
        name += ".empty" if f"{name}.full" in taken else ".full"
    while name in taken:
        name += "'"
    return name
