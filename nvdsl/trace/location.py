"""Which line of the user's source something belongs to: a frame, an op, an error.

User code is everything but nvdsl itself (``nvdsl/kernels`` counts as user code), the package that
provides MLIR, and the parts of the standard library that call back (a context manager's frames, a
dataclass's). Functions that nvdsl rewrites keep their own file and line numbers, so their frames need no
translation.
"""

from __future__ import annotations

import contextlib
import enum
import functools
import linecache
import os
import re
import sys
from collections.abc import Collection, Iterator
from types import FrameType, FunctionType, ModuleType
from typing import Any

import nvdsl
from nvdsl import threads
from nvdsl.errors import Where
from nvdsl.mlir import ir, provider

_INSTALLED = tuple(f"{os.sep}{name}{os.sep}" for name in ("site-packages", "dist-packages"))
_adopted: set[str] = set()
_LIBRARY = os.path.join(os.path.dirname(os.__file__), "")


def _directory(path: str | None) -> str:
    return os.path.join(os.path.dirname(os.path.abspath(path or "")), "")


_PACKAGE = _directory(nvdsl.__file__)
KERNELS = os.path.join(_PACKAGE, "kernels", "")
_INTERNAL = (
    _PACKAGE,
    _directory(ir.__file__),
    *(str(module.__file__) for module in (contextlib, functools, enum)),
    "<string>",  # the methods that dataclasses and namedtuple generate
    "<frozen ",
)


@functools.cache
def is_user(filename: str) -> bool:
    """Whether the file ``filename`` holds user code."""
    return filename.startswith(KERNELS) or not filename.startswith(_INTERNAL)


def is_user_module(name: str) -> bool:
    """Whether the module called ``name`` is user code: not Python's, MLIR's or nvdsl's."""
    top = name.partition(".")[0]
    if top in sys.stdlib_module_names or top == provider.partition(".")[0]:
        return False
    return top != "nvdsl" or name.startswith("nvdsl.kernels")


def is_helper(function: FunctionType) -> bool:
    """Is ``function`` the user's own? Installed packages are not, unless one of their functions was
    decorated: see ``adopt``."""
    return _is_own(function.__code__.co_filename, str(function.__module__))


def is_own_class(kind: type) -> bool:
    """Is ``kind`` a class of the user's own?"""
    return is_own_name(str(kind.__module__))


def is_own_name(module: str) -> bool:
    """Is the module of this name the user's own?"""
    return _is_own(getattr(sys.modules.get(module), "__file__", None) or "", module)


def is_own_module(module: ModuleType) -> bool:
    """Is ``module`` the user's own?"""
    return _is_own(getattr(module, "__file__", None) or "", module.__name__)


def _is_own(filename: str, module: str) -> bool:
    if not is_user(filename) or not is_user_module(module):
        return False
    package = _installed_package(filename)
    return not package or package in _adopted or filename.startswith(KERNELS)


def adopt(function: FunctionType) -> None:
    """From now on, what is installed with ``function`` in one package counts as user code."""
    _adopted.add(_installed_package(function.__code__.co_filename))


def is_installed(filename: str) -> bool:
    """Is the file part of an installed package that decorated nothing, or of Python's library?"""
    package = _installed_package(filename)
    return bool(package) and package not in _adopted or filename.startswith(_LIBRARY)


@functools.cache
def _installed_package(filename: str) -> str:
    """The directory of the installed package that ``filename`` is in; "" for none."""
    for marker in _INSTALLED:
        base, found, rest = filename.rpartition(marker)
        if found:
            return base + found + rest.partition(os.sep)[0]
    return ""


def caller(kernels: bool = True) -> Where | None:
    """Where the innermost frame of user code stands now; None if there is no such frame. ``kernels``: whether
    ``nvdsl/kernels`` counts, as the author of a kernel; else it is who calls one."""
    return at(innermost(sys._getframe(1), kernels))


def innermost(frame: FrameType | None, kernels: bool = True) -> FrameType | None:
    """The innermost frame of user code: ``frame``, or what called it."""
    while frame is not None:
        name = frame.f_code.co_filename
        if is_user(name) and not is_installed(name) and (kernels or not name.startswith(KERNELS)):
            return frame
        frame = frame.f_back
    return None


def at(frame: FrameType | None) -> Where | None:
    """Where ``frame`` stands."""
    return None if frame is None else Where(frame.f_code.co_filename, frame.f_lineno)


@functools.cache
def _register_files() -> None:
    """Tell MLIR, once a process, which files are not user code. An inclusion wins over an exclusion."""
    for prefix in _INTERNAL:
        ir._globals.register_traceback_file_exclusion(prefix)
    ir._globals.register_traceback_file_inclusion(KERNELS)


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
    match = re.match(r"\s*([A-Za-z_]\w*)\s*(?::[^=]*)?=[^=]", linecache.getline(place.file, place.line))
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
