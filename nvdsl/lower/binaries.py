"""Compiled kernels kept on disk, so that the first call of a later process is a trace and a look-up.

Found by everything that decides what is compiled: the traced module with its locations, the options, ptxas (its file),
MLIR and nvdsl's lowering. Files that can't be used are thrown away with a warning; see `nvdsl.cache`.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import nvdsl
from nvdsl import cache
from nvdsl.errors import ToolchainError
from nvdsl.lower import stored, toolchain
from nvdsl.lower.advisories import Advisory
from nvdsl.lower.options import Options
from nvdsl.lower.result import Lowered
from nvdsl.mlir import ir, provider

FORMAT = 1
SUFFIX = ".kernel.zip"
MAX_BYTES = 512 << 20
"""Bytes of all files together; what was used longest ago goes first."""


def key(module: Any, options: Options) -> str | None:
    """What a compilation is found by, a hex digest; None where it is not to be kept: the cache is off, something is
    to be dumped, which only a compilation does, or it is one of debug mode."""
    if not cache.enabled() or options.dump or options.debug:
        return None
    same = replace(options, strict=False, dump_dir=None)  # these change what is said, not what is compiled
    settings = (FORMAT, same, _file(toolchain.ptxas(options.ptxas)), _lowering())
    digest = hashlib.sha256(repr(settings).encode())
    digest.update(stored.bytecode(module))
    return digest.hexdigest()


def load(found_by: str, context: Any) -> tuple[Lowered, list[Advisory]] | None:
    """What was kept under a `key`, with its advisories; None where nothing is, or nothing that can be used."""
    path = _path(found_by)
    data = cache.read(path)
    if data is None:
        return None
    try:
        found = stored.unpack(data, found_by, context)
    except stored.Unreadable as error:
        cache.discard(path, str(error))
        return None
    with contextlib.suppress(OSError):
        os.utime(path)  # when it was last used
    return found


def save(found_by: str, lowered: Lowered, advice: list[Advisory]) -> None:
    path = _path(found_by)
    if cache.write(path, stored.pack(lowered, advice, found_by)):
        cache.shrink(path.parent, MAX_BYTES, SUFFIX)


def _path(found_by: str) -> Path:
    return cache.folder("kernels") / (found_by[:32] + SUFFIX)


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
    digest = hashlib.sha256(repr((nvdsl.__version__, provider, files)).encode())
    here = Path(__file__).parent
    for path in sorted([*here.glob("*.py"), *here.parent.glob("*.py")]):
        digest.update(path.read_bytes())
    return digest.hexdigest()
