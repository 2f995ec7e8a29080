"""How large the cache on disk may be, and what goes first."""

from __future__ import annotations

import contextlib
import os
import random
import re
import time
import warnings
from pathlib import Path

from nvdsl.lower.cache import CacheWarning, folder, read

LIMIT = 512 << 20
"""Bytes of all compiled kernels together, unless told otherwise."""

STALE = 3600.0
"""Seconds after which a temporary file is one that a killed process left."""

_DAY = 86400.0
_UNITS = {"": 1, "B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "KIB": 1 << 10, "MIB": 1 << 20, "GIB": 1 << 30}
_random = random.Random()  # not the user's, who may have given it a seed


def limit() -> int:
    """Bytes that compiled kernels may take: NVDSL_CACHE_LIMIT ("500MB"), or what `nvdsl cache --limit` keeps, or
    `LIMIT`."""
    said = os.environ.get("NVDSL_CACHE_LIMIT")
    try:
        if said:
            return size(said)
        kept = read(folder("limit")) if folder("limit").exists() else None
        return LIMIT if kept is None else size(kept.decode())
    except ValueError as error:
        warnings.warn(f"the limit of the cache: {error}", CacheWarning, stacklevel=2)
        return LIMIT


def size(text: str) -> int:
    """Bytes of a text like "500MB", "2 GiB" or "1000000". Raises ValueError."""
    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([A-Za-z]*)\s*", text)
    if found is None or found[2].upper() not in _UNITS:
        raise ValueError(f"{text!r} is no size: write 500MB, 2GB or 1GiB")
    return int(float(found[1]) * _UNITS[found[2].upper()])


def tidy(directory: Path, written: int, suffix: str | tuple[str, ...]) -> None:
    """After ``written`` bytes were saved in a folder: `shrink` it, now and then. A look at all files takes some 25 us
    for each; so there is one a day, and one for each eighth of the limit that is written, on average."""
    most, stamp = limit(), directory / ".tidied"
    try:
        is_new = abs(time.time() - stamp.stat().st_mtime) < _DAY
    except OSError:
        is_new = False
    if is_new and _random.random() * most > 8 * written:
        return
    with contextlib.suppress(OSError):
        stamp.touch(mode=0o600)
    shrink(directory, most, suffix)


def shrink(directory: Path, limit: int, suffix: str | tuple[str, ...]) -> None:
    """Keep a folder's files that end in ``suffix`` below ``limit`` bytes: the ones used longest ago go first, down to
    three quarters of it. What killed writers left goes, too."""
    remove_stale(directory)
    files = [(state.st_mtime, state.st_size, path) for path, state in files_of(directory, suffix)]
    total = sum(size for _, size, _ in files)
    if total <= limit:
        return
    for _, size, path in sorted(files):
        with contextlib.suppress(OSError):
            os.unlink(path)
        total -= size
        if total <= limit * 3 // 4:
            return


def remove_stale(directory: Path) -> None:
    """Remove the temporary files of writers that were killed."""
    before = time.time() - STALE
    for path, state in files_of(directory, ".part"):
        if state.st_mtime < before:
            with contextlib.suppress(OSError):
                os.unlink(path)


def files_of(directory: Path, suffix: str | tuple[str, ...]) -> list[tuple[str, os.stat_result]]:
    """The files in a folder that end in ``suffix``, and what is known of each."""
    found = []
    with contextlib.suppress(OSError):
        for entry in os.scandir(directory):
            if entry.name.endswith(suffix):
                with contextlib.suppress(OSError):  # another process was faster
                    found.append((entry.path, entry.stat(follow_symlinks=False)))
    return found
