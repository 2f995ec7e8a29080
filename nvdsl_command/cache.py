"""``nvdsl cache``: what the cache on disk holds; clearing it, and limiting it."""

from __future__ import annotations

import contextlib
import os
import time
from argparse import Namespace
from pathlib import Path

from nvdsl.lower import binaries, cache, cache_size
from nvdsl_command.arguments import Refused

_Part = tuple[str, tuple[str, ...]]

_PARTS: dict[str, _Part] = {"kernels": ("kernels", binaries.SUFFIXES), "tuned": ("tune", (".json",))}
"""What the parts are called: the folder, and how its files end."""


def run(chosen: Namespace) -> int:
    problem = cache.obstacle(cache.folder("kernels"))
    if chosen.clear or chosen.limit is not None:
        if problem:
            raise Refused(problem)
        if chosen.clear:
            _clear(_PARTS if chosen.clear == "all" else {chosen.clear: _PARTS[chosen.clear]})
        if chosen.limit is not None:
            _limit(chosen.limit)
    _show()
    if problem:
        print(problem)
    return 0


def _show() -> None:
    state = "" if cache.enabled() else " (switched off by NVDSL_CACHE)"
    print(f"{cache.folder()}{state}")
    for name in _PARTS:
        files = _files(name)
        total = sum(state.st_size for _, state in files)
        of = f" of {_bytes(cache_size.limit())}" if name == "kernels" else ""
        print(f"  {name:8} {len(files):7,} files  {_bytes(total)}{of}{_times([s.st_mtime for _, s in files])}")


def _times(times: list[float]) -> str:
    """A kernel's file is touched where it is found: its time is that of its last use."""
    if not times:
        return ""
    recent = sum(time.time() - at < 86400 for at in times)
    return f", used last {_ago(max(times))} ago, the oldest {_ago(min(times))} ago, {recent:,} within a day"


def _clear(parts: dict[str, _Part]) -> None:
    for folder, suffix in parts.values():
        for directory in _folders(folder):
            for path, _ in [*cache_size.files_of(directory, suffix), *cache_size.files_of(directory, ".part")]:
                with contextlib.suppress(OSError):
                    os.unlink(path)


def _limit(text: str) -> None:
    try:
        most = cache_size.size(text)
    except ValueError as error:
        raise Refused(f"--limit: {error}") from None
    if not cache.write(cache.folder("limit"), f"{text}\n".encode()):
        raise Refused(f"the limit can't be kept in {cache.folder()}")
    cache_size.shrink(cache.folder("kernels"), most, binaries.SUFFIXES)
    if os.environ.get("NVDSL_CACHE_LIMIT"):
        print(f"NVDSL_CACHE_LIMIT={os.environ['NVDSL_CACHE_LIMIT']} goes before it here")


def _files(name: str) -> list[tuple[str, os.stat_result]]:
    folder, suffix = _PARTS[name]
    return [file for directory in _folders(folder) for file in cache_size.files_of(directory, suffix)]


def _folders(name: str) -> list[Path]:
    """A folder of the cache, and those in it: tuned configurations have one for each function."""
    root = cache.folder(name)
    return [root, *(path for path in sorted(root.glob("*")) if path.is_dir() and not path.is_symlink())]


def _bytes(count: int) -> str:
    for unit, size in (("GB", 10**9), ("MB", 10**6), ("kB", 1000)):
        if count >= size:
            return f"{count / size:.1f} {unit}"
    return f"{count} B"


def _ago(at: float) -> str:
    seconds = max(0.0, time.time() - at)
    for unit, size in (("days", 86400), ("hours", 3600), ("minutes", 60)):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.0f} seconds"
