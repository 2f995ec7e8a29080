"""Which line of the user's source a frame of Python belongs to.

User code is everything but nvdsl itself (``nvdsl/kernels`` counts as user code), the package that
provides MLIR, and the parts of the standard library that call back (a context manager's frames, a
dataclass's). Functions that nvdsl rewrites keep their own file and line numbers, so their frames need no
translation.
"""

from __future__ import annotations

import contextlib
import enum
import functools
import os
import sys
from types import FrameType, FunctionType, ModuleType

from nvdsl.errors.records import dataclass

_INSTALLED = tuple(f"{os.sep}{name}{os.sep}" for name in ("site-packages", "dist-packages"))
_adopted: set[str] = set()
_LIBRARY = os.path.join(os.path.dirname(os.__file__), "")


@dataclass(frozen=True)
class Where:
    """A place in the user's source."""

    file: str
    line: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


_PACKAGE = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "")
KERNELS = os.path.join(_PACKAGE, "kernels", "")
_internal: tuple[str, ...] = (
    _PACKAGE,
    *(str(module.__file__) for module in (contextlib, functools, enum)),
    "<string>",  # the methods that dataclasses and namedtuple generate
    "<frozen ",
)


_internal_packages = {"nvdsl"}


def add_internal(package: str, directory: str) -> None:
    """The files in ``directory`` and the modules of the top-level ``package`` are not user code either."""
    global _internal
    _internal = (*_internal, os.path.join(os.path.abspath(directory), ""))
    _internal_packages.add(package)
    is_user.cache_clear()


def internal() -> tuple[str, ...]:
    """How the names of files begin that are not user code. What begins with `KERNELS` is, all the same."""
    return _internal


@functools.cache
def is_user(filename: str) -> bool:
    """Whether the file ``filename`` holds user code."""
    return filename.startswith(KERNELS) or not filename.startswith(_internal)


def is_user_module(name: str) -> bool:
    """Whether the module called ``name`` is user code: not Python's, MLIR's or nvdsl's."""
    top = name.partition(".")[0]
    if top in sys.stdlib_module_names or top in _internal_packages:
        return name.startswith("nvdsl.kernels")
    return True


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
