"""Calls that a later process finds compiled without a trace.

What is compiled is found on disk by the text of its module (`nvdsl.lower.binaries`), and that takes a trace. Calls of
nvdsl's own functions with constants of nvdsl's own are found by what a trace would be made from, too: the function and
its package as they are, the specs, the constants, the options. A function of the user's is always traced: it may read
what no key could hold, a file or the environment.

What is kept says which kernels belong to the call, and what its host function does, as MLIR's text.
"""

from __future__ import annotations

import dataclasses
import enum
import hashlib
import json
import os
import sys
import time
from pathlib import Path
from types import FunctionType, ModuleType
from typing import TYPE_CHECKING, Any, NamedTuple

from nvdsl.call.module import context
from nvdsl.call.specialize import Call, Constant
from nvdsl.errors.settings import is_on
from nvdsl.mlir import ir, threads
from nvdsl.trace.kept import digest
from nvdsl.values.dtypes import DType

if TYPE_CHECKING:
    from nvdsl.lower.options import Options
    from nvdsl.lower.result import Lowered

FORMAT = 1
_ROOT = Path(__file__).parents[1]
_KERNELS = "nvdsl.kernels."
_STARTED = time.time()


class Found(NamedTuple):
    """What was compiled for a call: see `nvdsl.call.compiled.Compiled`."""

    lowered: Lowered
    written: frozenset[int]


class Keyless(Exception):
    """Something has no text that is the same in each process and says all that a trace can read of it."""


def key(function: FunctionType, call: Call, options: Options) -> str | None:
    """What a call's compilation is found by. None where it has to be traced: for a function of the user's or constants
    that hold one, where nvdsl's files were edited after this process began, with NVDSL_VERIFY=off, and where nothing
    is kept."""
    from nvdsl.lower import binaries

    if not function.__module__.startswith(_KERNELS) or not is_on("NVDSL_VERIFY", True):
        return None
    settings = binaries.settings(options)
    if settings is None:
        return None
    try:
        specs = [text_of(spec.value if isinstance(spec, Constant) else spec) for spec in call.compiled_for]
        own = text_of(function), _modules(function.__module__)
    except Keyless:
        return None
    files = _files()
    if files is None:
        return None
    everything = FORMAT, sys.version, settings, files, own, specs, call.keywords, call.run_time
    return hashlib.sha256(repr(everything).encode()).hexdigest()


def text_of(value: Any) -> str:
    """A constant's text: equal for two of which a trace can read the same, and for no others. Raises `Keyless`."""
    kind = type(value)
    if value is None or kind in (bool, int, str):
        return f"{kind.__name__} {value!r}"
    if kind is float:
        return f"float {value.hex()}"
    if kind is DType:
        return f"dtype {value.name}"
    if isinstance(value, tuple):
        return f"{_name(kind)}({', '.join(map(text_of, value))})"
    if isinstance(value, FunctionType | type):
        return _code_of(value) if isinstance(value, FunctionType) else _name(value)
    if isinstance(value, enum.Enum):
        return f"{_name(kind)}.{value.name}"
    if dataclasses.is_dataclass(value) and kind.__dataclass_params__.frozen:
        # What is not compared says nothing: an `ArraySpec` keeps its hash, which no other process has.
        fields = [field.name for field in dataclasses.fields(value) if field.compare]
        parts = [f"{name}={text_of(getattr(value, name))}" for name in fields]
        return f"{_name(kind)}({', '.join(parts)})"
    raise Keyless


def _name(kind: type) -> str:
    """A class of nvdsl's own, or of Python's."""
    if kind.__module__.partition(".")[0] not in ("nvdsl", "builtins") or "<" in kind.__qualname__:
        raise Keyless
    return f"{kind.__module__}:{kind.__qualname__}"


def _code_of(function: FunctionType) -> str:
    """A function of nvdsl's own, which reads nothing but its module and its defaults."""
    if function.__closure__ or not function.__code__.co_filename.startswith(str(_ROOT)):
        raise Keyless
    defaults = function.__defaults__ or (), tuple((function.__kwdefaults__ or {}).items())
    return f"{function.__module__}:{function.__qualname__} {digest(function.__code__)} {text_of(defaults)}"


def _modules(name: str) -> str:
    """What the modules of kernels that belong to the one of this name hold now: functions, methods and plain constants.
    They are as in their files, unless a program has changed them."""
    digest, waiting = hashlib.sha256(), [name]
    for one in waiting:
        found = []
        for key, value in sorted(vars(sys.modules[one]).items()):
            other = value.__name__ if isinstance(value, ModuleType) else getattr(value, "__module__", None)
            if not isinstance(other, str) or not other.startswith(_KERNELS) or other in waiting:
                other = None
            if other in sys.modules and not hasattr(sys.modules[other], "__path__"):  # packages hold what was imported
                waiting.append(other)
            found.append((key, _held(value)))
        digest.update(repr((one, found)).encode())
    return digest.hexdigest()


def _held(value: Any) -> Any:
    """What tells whether a global was changed."""
    if isinstance(value, FunctionType):
        return digest(value.__code__)
    if isinstance(value, type):
        members = vars(value).items() if value.__module__.startswith(_KERNELS) else ()
        return value.__qualname__, [(k, _held(x)) for k, x in members if isinstance(x, _PLAIN)]
    return repr(value) if isinstance(value, int | float | str | None) else type(value).__name__


_PLAIN = (FunctionType, int, float, str)


def _files() -> str | None:
    """Of nvdsl's source, told apart as Python tells which file a .pyc was made of: by size and time. None where some of
    it is newer than this process, which may have imported it before."""
    digest, folders = hashlib.sha256(), [str(_ROOT)]
    for folder in folders:
        for entry in sorted(os.scandir(folder), key=lambda entry: entry.name):
            if entry.is_dir():
                folders += [entry.path] if entry.name != "__pycache__" else []
            elif entry.name.endswith(".py"):
                state = entry.stat()
                if state.st_mtime > _STARTED:
                    return None
                digest.update(f"{entry.path} {state.st_size} {state.st_mtime_ns}\n".encode())
    return digest.hexdigest()


def is_kept(found_by: str) -> bool:
    """Whether something is under a `key`: then it was traced and compiled."""
    from nvdsl.lower import binaries

    return binaries.call_path(found_by).exists()


def load(found_by: str, options: Options) -> Found | None:
    """What was kept under a `key`. None where nothing is, or nothing that can be used."""
    from nvdsl.lower import advisories, binaries, cache
    from nvdsl.lower.result import Lowered

    path, start = binaries.call_path(found_by), time.perf_counter()
    data = cache.read(path)
    if data is None:
        return None
    try:
        digest, _, rest = data.partition(b"\n")
        if hashlib.sha256(rest).hexdigest().encode() != digest:
            raise ValueError("it has changed since it was written")
        kept = json.loads(rest)
        if kept["key"] != found_by:
            raise ValueError("it was written for another call")
        kernels = binaries.load(kept["kernels"])
        if kernels is None:
            return None
        with threads.mlir, context():
            host = ir.Module.parse(kept["host"])
        written = frozenset(map(int, kept["written"]))
    except Exception as error:  # json and MLIR raise several types for bytes that are not theirs
        cache.discard(path, str(error) or type(error).__name__)
        return None
    cache.touch(path)
    made, advice = kernels
    advisories.report(advice, strict=options.strict)
    return Found(Lowered(host, made, {"look-up": time.perf_counter() - start}, kept["kernels"]), written)


def save(found_by: str, found: Found, text: str | None = None) -> None:
    """Keep what was compiled for a call. ``text``: of its host module, if it is known."""
    from nvdsl.lower import binaries, cache, compiler

    text = text or compiler.host_text(found.lowered.host)
    kept = {"key": found_by, "kernels": found.lowered.found_by, "written": sorted(found.written), "host": text}
    data = json.dumps(kept).encode()
    cache.write(binaries.call_path(found_by), hashlib.sha256(data).hexdigest().encode() + b"\n" + data)
