"""Progress of long simulations: a bar on stderr while one takes more than two seconds, if stderr is a terminal.

Where stderr is no terminal, a line every 10 seconds says so. NVDSL_SIM_PROGRESS=0 shows nothing, and
NVDSL_SIM_PROGRESS=1 prints the lines on a terminal, too.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from typing import Any

from nvdsl.errors import Where

PATIENCE = 2.0
"""Seconds until it is shown."""

LINES = 10.0
"""Seconds between two lines where stderr is no terminal."""

TURNS = 1024
"""Turns of a loop between two looks at the time."""

_bars: dict[str, Progress] = {}  # on stderr: of the launch whose bar is shown; others show none meanwhile


def of(kernel: str, machine: Any) -> Progress | None:
    """For a launch; None where nobody wants to see it."""
    wish = os.environ.get("NVDSL_SIM_PROGRESS", "")
    if wish == "0":
        return None
    x, y, z = machine.grid
    return Progress(kernel, x * y * z, _Bar if sys.stderr.isatty() and wish != "1" else _Lines)


class Progress:
    """One launch's. ``events``: copies delivered; ``blocks``: those that have returned."""

    def __init__(self, kernel: str, blocks: int, display: Any) -> None:
        self.kernel, self.all = kernel, blocks
        self.events, self.blocks = 0, 0
        self.loop = ""  # where a long one is
        self.began = time.monotonic()
        self._display: Any = display
        self._shown: Any = None
        self._next = self.began + (PATIENCE if display is _Bar else LINES)

    def tick(self) -> None:
        """Often: shows what there is to show when it is time."""
        now = time.monotonic()
        if now < self._next:
            return
        if self._shown is None:
            if self._display is _Bar and _bars.setdefault("stderr", self) is not self:
                return
            self._shown = self._display(self)
        self._next = now + self._shown.every
        self._shown.show(self)

    def finished(self, blocks: int) -> None:
        self.blocks += blocks
        self.loop = ""

    def turns(self, numbers: range, at: Where | None) -> Iterator[int]:
        """The numbers of a loop, with a look at the time now and then."""
        count = (numbers.stop - numbers.start + numbers.step - 1) // numbers.step
        for done in range(0, count, TURNS):
            yield from numbers[done : done + TURNS]
            self.loop = f"; turn {min(done + TURNS, count):,} of {count:,} of the loop at {at}"
            self.tick()
        self.loop = ""

    def close(self) -> None:
        try:
            if self._shown is not None:
                self._shown.close()
        finally:
            if _bars.get("stderr") is self:
                del _bars["stderr"]


class _Bar:
    """rich's, gone when the launch is over."""

    every = 0.1

    def __init__(self, progress: Progress) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
        from rich.progress import Progress as RichProgress

        console = Console(stderr=True)
        self._bar = RichProgress(
            TextColumn("simulating {task.description}"),
            BarColumn(12),  # all of it fits in 80 columns
            MofNCompleteColumn(),
            TextColumn("blocks, {task.fields[events]} copies"),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
            TextColumn("left"),
            console=console,
            transient=True,
            redirect_stdout=sys.stdout.isatty(),
            redirect_stderr=False,
        )
        self._task = self._bar.add_task(progress.kernel, total=progress.all, events="0")
        self._bar.start()

    def show(self, progress: Progress) -> None:
        self._bar.update(self._task, completed=progress.blocks, events=f"{progress.events:,}")

    def close(self) -> None:
        self._bar.stop()


class _Lines:
    every = LINES

    def __init__(self, progress: Progress) -> None:
        pass

    def show(self, progress: Progress) -> None:
        seconds = time.monotonic() - progress.began
        done = progress.blocks / progress.all
        left = f", about {seconds / done - seconds:.0f} s left" if done else ""
        print(
            f"simulating {progress.kernel}: {progress.blocks} of {progress.all} blocks, {progress.events:,} copies, "
            f"{seconds:.0f} s{left}{progress.loop}",
            file=sys.stderr,
        )

    def close(self) -> None:
        pass
