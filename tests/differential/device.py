"""Running cases on a GPU in child processes: one that hangs or crashes ends there, and the others go on."""

from __future__ import annotations

import json
import queue
import subprocess
import sys
import threading
import time
import traceback
from typing import Any

from tests.differential import corpus
from tests.differential.case import from_json


def record(entries: list[corpus.Entry], jobs: int, timeout: float, budget: float) -> list[corpus.Entry]:
    """The entries with what the GPU gave: arrays, or an error. ``timeout``: seconds for one case; ``budget``: for all.

    Each of ``jobs`` children takes one case after the other, so that compilation uses all cores.
    """
    todo: queue.SimpleQueue[corpus.Entry] = queue.SimpleQueue()
    for entry in entries:
        todo.put(corpus.Entry(entry.case, error="not reached"))
    done: dict[Any, corpus.Entry] = {}
    deadline = time.monotonic() + budget
    threads = [threading.Thread(target=_serve, args=(todo, done, timeout, deadline)) for _ in range(jobs)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return [done.get(entry.case, corpus.Entry(entry.case, error="not reached")) for entry in entries]


def _serve(todo: Any, done: dict[Any, corpus.Entry], timeout: float, deadline: float) -> None:
    child = _Child()
    while time.monotonic() < deadline:
        try:
            entry = todo.get_nowait()
        except queue.Empty:
            break
        entry.error, entry.arrays = child.run(entry.case, timeout)
        done[entry.case] = entry
    child.end()


class _Child:
    """A process that runs cases, one line of JSON each; started anew after one that hung or crashed."""

    def __init__(self) -> None:
        self.process: subprocess.Popen[str] | None = None

    def run(self, case: Any, timeout: float) -> tuple[str, dict[str, Any]]:
        if self.process is None:
            command = [sys.executable, "-c", "from tests.differential.device import child; child()"]
            self.process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1, start_new_session=True
            )
        assert self.process.stdin is not None and self.process.stdout is not None
        alarm = threading.Timer(timeout, self.process.kill)
        alarm.start()
        try:
            self.process.stdin.write(json.dumps(case.to_json()) + "\n")
            self.process.stdin.flush()
            answer = self.process.stdout.readline()
        except OSError:
            answer = ""
        finally:
            alarm.cancel()
        if not answer:
            code = self.process.wait()
            self.process = None
            return f"the child ended with {code} (a crash, or killed after {timeout:g} s)", {}
        found = json.loads(answer)
        if found["error"]:  # a failed launch poisons the context
            self.end()
        return found["error"], found["arrays"]

    def end(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None


def child() -> None:
    """The child's side."""
    out, sys.stdout = sys.stdout, sys.stderr
    for text in sys.stdin:
        error, arrays = "", {}
        try:
            arrays = {r.name: corpus.encode(r) for r in from_json(json.loads(text)).run("gpu")}
        except Exception:
            error = traceback.format_exc(limit=-3)
        print(json.dumps({"error": error, "arrays": arrays}), file=out, flush=True)
