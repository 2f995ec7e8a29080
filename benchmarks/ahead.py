"""Schedules that are compiled ahead by a process a core, and timed by this one.

What comes back is the text of the module behind the last step. Its machine code is in the cache on disk by then, so
that loading it here takes a tenth of a second.
"""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from typing import Any

from nvdsl.call.compiled import Stage
from nvdsl.schedule.compiled import Scheduled
from nvdsl.schedule.payload import Payload


def compile_ahead(
    jobs: Sequence[Any], prepare: Callable[[Any], str], workers: int | None = None
) -> Iterator[tuple[Any, str, str]]:
    """(job, text, "") of each as they are done, or (job, "", what was raised)."""
    count = workers or max(1, (os.cpu_count() or 3) - 2)
    with ProcessPoolExecutor(count, mp_context=multiprocessing.get_context("spawn")) as pool:
        waiting = {pool.submit(prepare, job): job for job in jobs}
        for one in as_completed(waiting):
            error = one.exception()
            yield (waiting[one], "", str(error).partition("\n")[0]) if error else (waiting[one], one.result(), "")


def loaded(payload: Payload, text: str) -> Scheduled:
    """What a schedule made of a payload, from its text."""
    return Scheduled(payload, (), (Stage("finish()", "", text),))
