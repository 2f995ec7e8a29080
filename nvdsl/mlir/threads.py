"""Locks that a fork leaves free, the lock around MLIR, and what several threads need and one makes.

What a call changes belongs to that call: few things need a lock. A child process after `os.fork` has the forking thread
alone, so a lock that another thread held would never be released there: those of `lock` are free again in a child.
"""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable, Hashable, Iterator
from typing import Any, Generic, TypeVar

T = TypeVar("T")

_locks: weakref.WeakSet[Any] = weakref.WeakSet()
_onces: weakref.WeakSet[Once[Any]] = weakref.WeakSet()


def lock() -> Any:
    """A `threading.RLock` that is free in a child process, unless the forking thread itself held it."""
    made = threading.RLock()
    _locks.add(made)
    return made


def _free_in_child() -> None:
    for one in [*_locks, *(guard for once in _onces for guard in once._locks.values())]:
        if not one._is_owned():
            one._at_fork_reinit()


os.register_at_fork(after_in_child=_free_in_child)

mlir = lock()
"""Held by whoever makes ops. Whether ops get the user's lines as locations is a switch of the process
(`trace.location`), so a trace in one thread would change the locations of ops that another one makes. MLIR and LLVM
keep Python's lock while they work, so nothing that could run at the same time waits for this one."""


blas = threading.RLock()
"""Held around products that NumPy gives to OpenBLAS, without Python's lock and with a lock of its own. `os.fork` waits
for this one: a child that began in the middle of a product would wait for ever at its first."""
os.register_at_fork(before=blas.acquire, after_in_parent=blas.release, after_in_child=blas.release)


class Once(Generic[T]):
    """Values by key, each made by one thread; others that need the same one wait for it, and for no other.

    Where making raises, nothing is kept: each thread that waited makes it anew, and gets its own exception.
    """

    def __init__(self) -> None:
        self._made: dict[Hashable, T] = {}
        self._locks: dict[Hashable, Any] = {}
        _onces.add(self)

    def get(self, key: Hashable) -> T | None:
        """What was made, None where nothing was. Raises TypeError for a key that can't be hashed."""
        return self._made.get(key)

    def make(self, key: Hashable, function: Callable[[], T]) -> T:
        """What was made for a key; else ``function()``, which is kept."""
        made = self._made
        found = made.get(key)
        if found is not None:
            return found
        if mlir._is_owned():  # a call inside of a trace: who makes the value may wait for this thread
            made[key] = found = function()
            return found
        with self._locks.setdefault(key, threading.RLock()):  # not `lock`: Python drops a Ctrl-C as a weak one dies
            try:
                found = made.get(key)
                if found is None:
                    found = made[key] = function()
                return found
            finally:
                self._locks.pop(key, None)

    def discard(self, unwanted: Callable[[Any], bool]) -> None:
        """Forget what was made for such keys."""
        for key in [key for key in list(self._made) if unwanted(key)]:
            self._made.pop(key, None)

    def clear(self) -> None:
        """Forget all. What a thread is making now is not kept, either: it may rest on what no longer holds."""
        self._made = {}

    def __iter__(self) -> Iterator[Hashable]:
        return iter(list(self._made))

    def __len__(self) -> int:
        return len(self._made)
