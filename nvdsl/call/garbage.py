"""Python's garbage collector, at rest while something is imported or compiled."""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator
from contextlib import contextmanager

_resting = False


@contextmanager
def none_collected() -> Iterator[None]:
    """What a trace makes lives to its end, and what an import makes to that of the process, so that looking through it
    again and again finds nothing: that took a fourteenth of the time of a first call. Now and then the collector looks
    through all that the program has, and where torch is imported that took 0.1 to 0.2 s of a first call. So the end is
    a look at what is new, and at nothing else: left to itself the collector would begin there, and go on to all where
    that is due. Reference counts free what they free."""
    global _resting
    if not gc.isenabled():  # the program's wish, or another compilation's
        yield
        return
    gc.disable()
    _resting = True
    try:
        yield
    finally:
        _resting = False
        if 0 < gc.get_threshold()[0] < gc.get_count()[0]:
            gc.collect(0)
        gc.enable()


def _go_on() -> None:
    """In a child whose parent was compiling, in another thread."""
    if _resting:
        gc.enable()


os.register_at_fork(after_in_child=_go_on)
