"""What is done while ptxas, a process of its own, works on a kernel: also the next kernel of a call that has several.

    with ahead.compiling(next_kernel):       # traces, lowers, and starts a ptxas of its own
        run_first_kernel()
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar

from nvdsl.errors import NvdslError

Task = Callable[[], None]

_tasks: ContextVar[deque[Task] | None] = ContextVar("nvdsl_ahead", default=None)
_inside: ContextVar[bool] = ContextVar("nvdsl_ahead_inside", default=False)


@contextmanager
def compiling(task: Task) -> Iterator[None]:
    """The first kernel that is compiled in this context has ``task`` done beside its ptxas. Where nothing is compiled
    there it isn't done at all. What it raises comes again when that kernel is wanted."""

    def without_errors() -> None:
        token = _inside.set(True)
        try:
            with suppress(NvdslError):
                task()
        finally:
            _inside.reset(token)

    token = _tasks.set(deque([without_errors]))
    try:
        yield
    finally:
        _tasks.reset(token)


def is_inside() -> bool:
    """Whether this is part of such a task: another kernel's ptxas runs, and its lock is held."""
    return _inside.get()


def beside_ptxas(own: Task) -> None:
    """Do what waits to be done beside a ptxas, then ``own``: beside the last ptxas, where tasks start further ones.
    Raises what ``own`` raises."""
    tasks = _tasks.get()
    if not tasks:
        own()
        return
    errors: list[NvdslError] = []

    def kept() -> None:
        try:
            own()
        except NvdslError as error:
            errors.append(error)

    tasks.append(kept)
    while tasks:
        tasks.popleft()()
    if errors:
        raise errors[0]
