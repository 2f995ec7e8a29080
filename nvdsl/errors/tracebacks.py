"""What a user sees of an error: tracebacks of the user's own lines."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from types import TracebackType
from typing import ParamSpec, TypeVar

from nvdsl.errors import NvdslError, frames

P = ParamSpec("P")
R = TypeVar("R")


def at_call(function: Callable[P, R]) -> Callable[P, R]:
    """Errors leave ``function`` as `for_user` makes them."""

    @functools.wraps(function)
    def located(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return function(*args, **kwargs)
        except NvdslError as error:
            raise for_user(error) from error.__cause__  # NVDSL_TRACEBACK=full shows nvdsl's own lines, too

    return located


def for_user(error: NvdslError) -> NvdslError:
    """``error`` as it leaves nvdsl: with the line of the call if it has no other, and without nvdsl's own frames.

    NVDSL_TRACEBACK=full keeps all frames, and the exceptions behind the error.
    """
    error.where = error.where or frames.caller(kernels=False)
    if os.environ.get("NVDSL_TRACEBACK", "") != "full":
        own = error.where is not None and error.where.file.startswith(frames.KERNELS)
        error.__traceback__ = _users(error.__traceback__, own)
        error.__cause__ = None
    return error


def _users(traceback: TracebackType | None, kernels: bool) -> TracebackType | None:
    """The frames of user code. ``kernels``: those of ``nvdsl/kernels``, too."""
    own = []
    while traceback is not None:
        name = traceback.tb_frame.f_code.co_filename
        if frames.is_user(name) and (kernels or not name.startswith(frames.KERNELS)):
            own.append(traceback)
        traceback = traceback.tb_next
    users: TracebackType | None = None
    for one in reversed(own):
        users = TracebackType(users, one.tb_frame, one.tb_lasti, one.tb_lineno)
    return users
