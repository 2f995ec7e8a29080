"""Conversions that a later process finds done, each module's beside its .pyc: ``frame.cpython-311.nvdsl.pyc``.

What a function is converted to depends on its code, and on the files that convert it: texts that compile to the same
code at the same places do the same. So the code is what a conversion is found by, whatever became of the text. The
rules are those of Python's own .pyc: a file is of one version of the source, told by size and time; nothing is written
with PYTHONDONTWRITEBYTECODE, or where the folder can't be written; PYTHONPYCACHEPREFIX moves it. Scripts and notebooks
have no .pyc, and what they define is converted in each process.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import importlib.util
import marshal
import os
import sys
import threading
import time
from pathlib import Path
from types import CodeType, FunctionType

Version = tuple[str, int, int]

_STARTED = time.time()


def _version(path: str | os.DirEntry[str]) -> Version:
    state = os.stat(path)
    return os.fspath(path), state.st_size, state.st_mtime_ns


@functools.cache
def _converter() -> str | None:
    """Of Python's code, and of the files that convert. None where these are newer than this process, which may have
    imported them before."""
    files = sorted(_version(entry) for entry in os.scandir(Path(__file__).parent) if entry.name.endswith(".py"))
    if max(changed for _, _, changed in files) > _STARTED * 1e9:
        return None
    return hashlib.sha256(repr((importlib.util.MAGIC_NUMBER, files)).encode()).hexdigest()


class _Module:
    """The conversions of one module's functions, by `digest`."""

    def __init__(self, converter: str, source: str, cached: str) -> None:
        self.path = f"{cached.removesuffix('.pyc')}.nvdsl.pyc"
        self.of = converter, *_version(source)
        self.codes: dict[str, bytes] = {}
        self.is_new = False
        with contextlib.suppress(OSError, EOFError, ValueError, TypeError), open(self.path, "rb") as file:
            of, codes = marshal.loads(file.read())
            if of == self.of:
                self.codes = codes

    def write(self) -> None:
        if not self.is_new:
            return
        self.is_new, part = False, f"{self.path}.{os.getpid()}-{threading.get_ident()}"
        try:
            os.makedirs(os.path.dirname(self.path), exist_ok=True)
            with open(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644), "wb") as file:
                file.write(marshal.dumps((self.of, self.codes)))
            os.replace(part, self.path)
        except OSError:
            with contextlib.suppress(OSError):
                os.unlink(part)


_modules: dict[tuple[str, str], _Module | None] = {}


def _module(function: FunctionType) -> _Module | None:
    """Of the module that a function is from, where Python would keep that module's code."""
    name, source = function.__module__, function.__code__.co_filename
    if (name, source) not in _modules:
        spec = getattr(sys.modules.get(name), "__spec__", None)
        cached, converter = getattr(spec, "cached", None), _converter()
        found = None
        if cached and spec is not None and spec.origin == source and converter is not None:
            with contextlib.suppress(OSError):
                found = _Module(converter, source, cached)
        _modules[name, source] = found
    return _modules[name, source]


def find(function: FunctionType) -> CodeType | None:
    """The code that a function was converted to before."""
    module = _module(function)
    data = module.codes.get(digest(function.__code__)) if module else None
    return marshal.loads(data) if data else None


def add(function: FunctionType, converted: CodeType) -> None:
    """Keep what a function was converted to, from the next `write` on."""
    module = _module(function)
    if module:
        module.codes[digest(function.__code__)] = marshal.dumps(converted)
        module.is_new = True


def write() -> None:
    """Write what was added. It takes a few milliseconds, and there is time for them beside a compilation."""
    if not sys.dont_write_bytecode:
        for module in list(_modules.values()):
            if module:
                module.write()


@functools.lru_cache(maxsize=4096)
def digest(code: CodeType) -> str:
    """Of all that a code is; the same in each process."""
    constants = [_constant(x) for x in code.co_consts]
    names = code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars, code.co_filename, code.co_qualname
    counts = code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount, code.co_flags, code.co_firstlineno
    found = hashlib.sha256(repr((names, counts, constants)).encode())
    for part in (code.co_code, code.co_linetable, code.co_exceptiontable):
        found.update(b"%d:" % len(part) + part)
    return found.hexdigest()


def _constant(value: object) -> str:
    if isinstance(value, CodeType):
        return digest(value)
    return repr(sorted(map(repr, value)) if isinstance(value, frozenset) else value)  # its order is no process's own
