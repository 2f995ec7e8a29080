"""The cache on disk: where it is, and files that are whole or not there.

Nothing in it is needed. It is trusted as the user's own files are, and no further: a file is taken only if nobody but
the user (and root) may have written it, by `shared`, which is asked of the file and of the folders around it. Checksums
find accidents, not forgery: who may write these files may write nvdsl's own, too, and could read a secret key beside
them. What does not fit is thrown away with a warning, as if it had never been written.
"""

from __future__ import annotations

import contextlib
import fcntl
import grp
import os
import pwd
import stat
import tempfile
import time
import warnings
from collections.abc import Iterator
from pathlib import Path

from nvdsl.errors import ToolchainError
from nvdsl.errors.settings import is_on

MOST = 256 << 20
"""Bytes of one file: a larger one is none of ours."""

_told: set[str] = set()


class CacheWarning(UserWarning):
    """A file of the cache can't be used or written. The call goes on without it."""


def enabled() -> bool:
    """Whether compiled kernels are kept on disk: unless NVDSL_CACHE is off."""
    return is_on("NVDSL_CACHE", True)


def folder(*parts: str) -> Path:
    """A folder of the cache: below NVDSL_CACHE_DIR, or else ``$XDG_CACHE_HOME/nvdsl``, or else ``~/.cache/nvdsl``."""
    chosen = os.environ.get("NVDSL_CACHE_DIR")
    if chosen:
        with contextlib.suppress(RuntimeError):  # ~nobody
            return Path(chosen).expanduser().joinpath(*parts)
        raise ToolchainError(
            f"NVDSL_CACHE_DIR={chosen}: there is no such home directory", fix="name a folder, or unset NVDSL_CACHE_DIR"
        )
    base = os.environ.get("XDG_CACHE_HOME", "")  # the rule of freedesktop.org: a relative one counts as unset
    root = Path(base) if os.path.isabs(base) else Path(os.path.expanduser("~"), ".cache")
    return root.joinpath("nvdsl", *parts)


# --- whose it is


def shared(state: os.stat_result) -> str | None:
    """Who else may write a file, or into a folder, with this ``os.stat``; None where nobody may. The rule is that of
    OpenSSH's StrictModes: it belongs to the user or to root, and neither its group nor others may write to it. A group
    of which the user is the only member may. In a folder with the sticky bit others can make only files of their own,
    which are not taken."""
    if state.st_uid not in (os.geteuid(), 0):
        return f"it belongs to {_name(state.st_uid)}"
    if stat.S_ISDIR(state.st_mode) and state.st_mode & stat.S_ISVTX:
        return None
    if state.st_mode & stat.S_IWOTH:
        return "everybody may write to it"
    if state.st_mode & stat.S_IWGRP and not _is_private(state.st_gid):
        return "its group may write to it"
    return None


def _name(user: int) -> str:
    try:
        return f"user {pwd.getpwuid(user).pw_name}"
    except KeyError:
        return f"user {user}"


def _is_private(group: int) -> bool:
    """Whether the user is the only member of a group: of that name, and without others."""
    try:
        me, found = pwd.getpwuid(os.geteuid()), grp.getgrgid(group)
    except KeyError:
        return False
    return me.pw_gid == group and found.gr_name == me.pw_name and set(found.gr_mem) <= {me.pw_name}


def obstacle(directory: Path) -> str | None:
    """Why a folder of the cache isn't used, with what to do about it; None for one that is, or that isn't there."""
    root = folder()
    for one in [directory, *directory.parents] if directory.is_relative_to(root) else [directory]:
        try:
            why = shared(os.stat(one))
        except OSError:
            why = None
        if why is not None:
            return (
                f"{one} is not used: {why}. Whoever may write there decides what this process runs: "
                f"chown it to yourself, `chmod go-w {one}`, or name another folder with NVDSL_CACHE_DIR"
            )
        if one == root:
            break
    return None


def _usable(directory: Path) -> bool:
    why = obstacle(directory)
    if why is not None and why not in _told:
        _told.add(why)
        warnings.warn(why, CacheWarning, stacklevel=3)
    return why is None


def make(directory: Path) -> None:
    """Make a folder of the cache, which nobody else may write to, whatever the umask is. Raises OSError."""
    missing = []
    while not directory.is_dir() and directory != directory.parent and directory != folder().parent:
        missing.append(directory)
        directory = directory.parent
    directory.mkdir(parents=True, exist_ok=True)
    for one in reversed(missing):
        one.mkdir(exist_ok=True, mode=0o700)


# --- files


def write(path: Path, data: bytes) -> bool:
    """Write a file so that readers and other writers see it whole or not at all. False, with a warning, where that
    is not possible (a full disk, a folder that is not ours)."""
    if not _usable(path.parent):
        return False
    try:
        make(path.parent)
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
    """The bytes of a file; None where it isn't there, can't be read, or isn't the user's alone. It never waits: not
    for a FIFO's writer, and not for a device."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_NOCTTY | os.O_CLOEXEC)
        try:
            why = _unfit(os.fstat(handle))
            if why is None:
                with open(handle, "rb", closefd=False) as file:
                    return file.read(MOST) if _usable(path.parent) else None
        finally:
            os.close(handle)
    except OSError:
        return None
    discard(path, why)
    return None


def _unfit(state: os.stat_result) -> str | None:
    if not stat.S_ISREG(state.st_mode):
        return "it is no regular file"
    return f"it has {state.st_size:,} bytes" if state.st_size > MOST else shared(state)


def touch(path: Path) -> None:
    """Note that a file was used now."""
    with contextlib.suppress(OSError):
        os.utime(path)


def discard(path: Path, why: str) -> None:
    """Throw away a file that can't be used, and say so."""
    warnings.warn(f"{path} is thrown away: {why}", CacheWarning, stacklevel=2)
    with contextlib.suppress(OSError):
        path.unlink()


@contextlib.contextmanager
def alone(name: str, patience: float) -> Iterator[bool]:
    """Let one thread of all processes that use the cache in at a time, by the name of what they do. False where the
    others took longer than ``patience`` seconds, or where there can be no lock: then it is done beside them. A process
    that ends, however it does, leaves no lock."""
    handle, got = -1, False
    try:
        with contextlib.suppress(OSError):
            if obstacle(folder("locks")) is None:
                make(folder("locks"))
                handle = os.open(folder("locks", f"{name}.lock"), os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
                got = _locked(handle, time.monotonic() + patience)
        yield got
    finally:
        if got:
            fcntl.flock(handle, fcntl.LOCK_UN)  # a process that was forked meanwhile has the file open, too
        if handle >= 0:
            os.close(handle)


def _locked(handle: int, until: float) -> bool:
    while True:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > until:
                return False
            time.sleep(0.02)
        else:
            return True
