"""Compiling many candidates at once, in processes.

Not in threads: MLIR and LLVM keep Python's lock while they work (two threads took 0.77 s for what one did in 0.61 s).
The parent traces, which needs the user's function; the processes get modules as bytecode, and give back cubins.
"""

from __future__ import annotations

import os
import queue
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from nvdsl.tune.process import Lost, Process, Refused

DEADLINE = 120.0  # seconds: of one compilation, the start of its process included


class Compiler:
    """The processes' side."""

    doing: Callable[[Any], None]

    def compile(self, module: bytes, options: Any) -> bytes:
        """A traced module, packed by `nvdsl.lower.stored`. Raises LowerError, with strict options for advisories."""
        from nvdsl.call.module import context
        from nvdsl.lower import compiler, stored
        from nvdsl.mlir import ir

        with context():
            parsed = ir.Module.parse(module)
        return stored.pack(compiler.lower(parsed, options), [], "candidate")


def compile_all(
    modules: Iterable[tuple[int, bytes]], count: int, options: Any, until: float, factory: str = f"{__name__}:Compiler"
) -> Iterator[tuple[int, bytes | None, str]]:
    """Compile the modules as they come: (number, packed kernels, "") or (number, None, why not), as they are done.

    ``modules``: (number, bytecode); ``count``: about how many. No module is begun after ``until`` (of
    time.monotonic): the rest are given back as not compiled.
    """
    workers = [Process(factory) for _ in range(max(1, min(count, os.cpu_count() or 1)))]
    waiting: queue.Queue[tuple[int, bytes] | None] = queue.Queue(2 * len(workers))
    done: queue.Queue[tuple[int, bytes | None, str] | None] = queue.Queue()
    replaced: list[Process] = []
    stopped = threading.Event()

    def work(process: Process) -> None:
        while (item := waiting.get()) is not None:
            number, module = item
            if time.monotonic() > until:
                done.put((number, None, "not compiled: the budget was used up"))
                continue
            try:
                done.put((number, process.call("compile", module, options, deadline=DEADLINE), ""))
            except Refused as error:
                done.put((number, None, f"not compiled: {error}"))
            except Lost as error:
                if stopped.is_set():
                    return
                done.put((number, None, f"the compiler {error.reason}"))
                process = Process(factory)
                replaced.append(process)
        done.put(None)

    def feed() -> Iterator[tuple[int, bytes | None, str]]:
        """Trace in this thread, and give on what was done meanwhile."""
        for item in modules:
            while True:
                try:
                    waiting.put(item, timeout=0.05)
                    break
                except queue.Full:
                    yield from _available(done)
            yield from _available(done)

    threads = [threading.Thread(target=work, args=(process,), daemon=True) for process in workers]
    try:
        for thread in threads:
            thread.start()
        yield from feed()
        for _ in threads:
            waiting.put(None)
        ended = 0
        while ended < len(threads):
            result = done.get()
            if result is None:
                ended += 1
            else:
                yield result
    finally:
        stopped.set()
        for process in (*workers, *replaced):
            process.close()


def _available(done: queue.Queue[Any]) -> Iterator[Any]:
    while not done.empty():
        yield done.get()
