"""Compiled kernels kept on disk, so that the first call of a later process is a trace and a look-up; of nvdsl's own
functions not even a trace (`nvdsl.call.untraced`).

Found by everything that decides what is compiled: the traced module with its locations, the options, ptxas (its file),
MLIR and nvdsl's lowering. Files that can't be used are thrown away with a warning; see `nvdsl.lower.cache`.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from typing import Any

from nvdsl.errors import ToolchainError
from nvdsl.lower import ahead, cache, cache_size, stored, toolchain
from nvdsl.lower.advisories import Advisory
from nvdsl.lower.options import Options
from nvdsl.lower.result import KernelBinary, Lowered
from nvdsl.lower.version import __version__
from nvdsl.mlir import ir, provider

FORMAT = 2
SUFFIX = ".kernel.zip"
CALL_SUFFIX = ".call.json"
SUFFIXES: tuple[str, ...] = (SUFFIX, CALL_SUFFIX)
"""Of a compilation, and of what finds it for a call (`nvdsl.call.untraced`)."""
PATIENCE = 60.0
"""Seconds to wait for another process that compiles the same: then it is compiled here, too."""


def settings(options: Options) -> str | None:
    """Everything but a module that decides what is compiled; None where it is not to be kept: the cache is off,
    something is to be dumped, which only a compilation does, or it is one of debug mode."""
    if not cache.enabled() or options.dump or options.debug:
        return None
    same = replace(options, strict=False, dump_dir=None)  # these change what is said, not what is compiled
    return repr((FORMAT, same, _file(toolchain.ptxas(options.ptxas)), _lowering()))


def key(module: Any, options: Options) -> str | None:
    """What a compilation is found by, a hex digest; None where it is not to be kept (`settings`)."""
    found = settings(options)
    if found is None:
        return None
    digest = hashlib.sha256(found.encode())
    digest.update(stored.bytecode(module))
    return digest.hexdigest()


def load(found_by: str) -> tuple[dict[str, KernelBinary], list[Advisory]] | None:
    """The kernels that were kept under a `key`, with their advisories; None where nothing is, or nothing that can be
    used."""
    path = _path(found_by)
    data = cache.read(path)
    if data is None:
        return None
    try:
        found = stored.unpack_kernels(data, found_by)
    except stored.Unreadable as error:
        cache.discard(path, str(error))
        return None
    cache.touch(path)
    return found


def save(found_by: str, lowered: Lowered, advice: list[Advisory]) -> None:
    path = _path(found_by)
    data = stored.pack(lowered, advice, found_by, host=False)
    if cache.write(path, data):
        cache_size.tidy(path.parent, len(data), SUFFIXES)


def alone(found_by: str) -> AbstractContextManager[bool]:
    """While one process compiles something, others that need the same wait for it. The locks are few, whatever is
    compiled: now and then something else is waited for. Who has one already does not wait for a second."""
    return cache.alone(f"kernel-{found_by[:2]}", 0.0 if ahead.is_inside() else PATIENCE)


def _path(found_by: str) -> Path:
    return cache.folder("kernels") / (found_by[:32] + SUFFIX)


def call_path(found_by: str) -> Path:
    """The file that says what was compiled for a call."""
    return cache.folder("kernels") / (found_by[:32] + CALL_SUFFIX)


File = tuple[str, int, int]  # its path, its size, when it was changed


def _file(path: Path) -> File:
    """What tells a program's versions apart, and costs no process."""
    path = path.resolve()
    state = path.stat()
    return str(path), state.st_size, state.st_mtime_ns


@functools.cache
def _lowering() -> str:
    """Of nvdsl's version, the lowering's source, MLIR's and LLVM's library, and libdevice."""
    files = [_file(path) for path in sorted(Path(str(ir.__file__)).parent.glob("_mlir_libs/*.so*"))]
    with contextlib.suppress(ToolchainError):  # only kernels that call exp and the like need it
        files.append(_file(toolchain.libdevice()))
    digest = hashlib.sha256(repr((__version__, provider, files)).encode())
    here = Path(__file__).parent
    for path in sorted([*here.glob("*.py"), *here.parent.glob("*.py")]):
        digest.update(path.read_bytes())
    return digest.hexdigest()
