"""The cache on disk: where it is, and files that are whole or not there.

Nothing in it is needed and nothing in it is trusted: every file carries a checksum of what it holds, and one that does
not fit is thrown away with a warning, as if it had never been written.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
import warnings
from pathlib import Path


class CacheWarning(UserWarning):
    """A file of the cache can't be used or written. The call goes on without it."""


def enabled() -> bool:
    """Whether compiled kernels are kept on disk: unless NVDSL_CACHE is off, 0, no or false."""
    return os.environ.get("NVDSL_CACHE", "").lower() not in ("off", "0", "no", "false")


def folder(*parts: str) -> Path:
    """A folder of the cache: below NVDSL_CACHE_DIR, or else ``$XDG_CACHE_HOME/nvdsl``, or else ``~/.cache/nvdsl``."""
    chosen = os.environ.get("NVDSL_CACHE_DIR")
    if chosen:
        return Path(chosen).expanduser().joinpath(*parts)
    base = os.environ.get("XDG_CACHE_HOME", "")  # the rule of freedesktop.org: a relative one counts as unset
    root = Path(base) if os.path.isabs(base) else Path(os.path.expanduser("~"), ".cache")
    return root.joinpath("nvdsl", *parts)


def write(path: Path, data: bytes) -> bool:
    """Write a file so that readers and other writers see it whole or not at all. False, with a warning, where that
    is not possible (a full disk, a folder that is not ours)."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        handle, name = tempfile.mkstemp(prefix=".", suffix=".part", dir=path.parent)
        try:
            with open(handle, "wb") as file:
                file.write(data)
            os.replace(name, path)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(name)
            raise
    except OSError as error:
        warnings.warn(f"{path} can't be written: {error.strerror}", CacheWarning, stacklevel=2)
        return False
    return True


def read(path: Path) -> bytes | None:
    """The bytes of a file; None where it isn't there or can't be read."""
    try:
        return path.read_bytes()
    except OSError:
        return None


def discard(path: Path, why: str) -> None:
    """Throw away a file that can't be used, and say so."""
    warnings.warn(f"{path} is thrown away: {why}", CacheWarning, stacklevel=2)
    with contextlib.suppress(OSError):
        path.unlink()


def shrink(directory: Path, limit: int, suffix: str) -> None:
    """Keep a folder's files that end in ``suffix`` below ``limit`` bytes: the ones used longest ago go first, down to
    three quarters of it."""
    files = []
    with contextlib.suppress(OSError):
        for entry in os.scandir(directory):
            if entry.name.endswith(suffix):
                with contextlib.suppress(OSError):  # another process was faster
                    state = entry.stat()
                    files.append((state.st_mtime, state.st_size, entry.path))
    total = sum(size for _, size, _ in files)
    if total <= limit:
        return
    for _, size, path in sorted(files):
        with contextlib.suppress(OSError):
            os.unlink(path)
        total -= size
        if total <= limit * 3 // 4:
            return
