"""Many small jobs on one GPU: a process a core prepares its share of them, and times them while no other does.

A job is a picklable value. ``prepare(job)`` compiles, without the GPU where that can be; ``time(job, prepared)`` runs
and returns a row, or None. Jobs are given out in turn, so that neighbours are in different processes.
"""

from __future__ import annotations

import multiprocessing
import os
import time as clock
from collections.abc import Callable, Iterator, Sequence
from typing import Any

Job = Any
Row = dict[str, Any]


def run(
    jobs: Sequence[Job],
    prepare: Callable[[Job], Any],
    time: Callable[[Job, Any], Row | None],
    *,
    workers: int | None = None,
    limit: float = float("inf"),
) -> Iterator[tuple[Job, Row | None | str]]:
    """Each job with its row, or what was raised, as they come. ``limit``: seconds after which no job is begun."""
    context = multiprocessing.get_context("spawn")
    count = min(len(jobs), workers or max(1, (os.cpu_count() or 3) - 2))
    gpu, found, end = context.Lock(), context.Queue(), clock.time() + limit
    processes = [
        context.Process(target=_work, args=(jobs[i::count], prepare, time, gpu, found, end), daemon=True)
        for i in range(count)
    ]
    for one in processes:
        one.start()
    left = count
    while left:
        job, row = found.get()
        if job is None:
            left -= 1
        else:
            yield job, row
    for one in processes:
        one.join()


def _work(jobs: list[Job], prepare: Any, time: Any, gpu: Any, found: Any, end: float) -> None:
    try:
        for job in jobs:
            if clock.time() > end:
                break
            try:
                ready = prepare(job)
                with gpu:
                    row = time(job, ready)
                found.put((job, row))
            except Exception as error:
                found.put((job, str(error).partition("\n")[0]))
    finally:
        found.put((None, None))
