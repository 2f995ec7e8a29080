"""What a person sees of a tuning: bars on a terminal, lines in a log. All on stderr."""

from __future__ import annotations

import sys
from typing import Any, Protocol


class Progress(Protocol):
    """Told what goes on."""

    def stage(self, what: str, total: int | None = None) -> None:
        """A new stage of ``total`` steps (None: unknown)."""

    def step(self, note: str = "") -> None: ...

    def close(self, summary: str = "") -> None: ...


class Silent:
    def stage(self, what: str, total: int | None = None) -> None:
        pass

    def step(self, note: str = "") -> None:
        pass

    def close(self, summary: str = "") -> None:
        pass


class Lines:
    """One line for each stage."""

    def __init__(self, title: str, file: Any = None) -> None:
        self._title, self._file = title, file or sys.stderr

    def stage(self, what: str, total: int | None = None) -> None:
        print(f"{self._title}: {what}" + (f" ({total})" if total else ""), file=self._file, flush=True)

    def step(self, note: str = "") -> None:
        pass

    def close(self, summary: str = "") -> None:
        if summary:
            print(f"{self._title}: {summary}", file=self._file, flush=True)


class Bars:
    """A bar for each stage, with the last note."""

    def __init__(self, title: str) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, SpinnerColumn, TextColumn, TimeElapsedColumn
        from rich.progress import Progress as RichProgress

        self._title = title
        self._bars = RichProgress(
            SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(),
            TextColumn("{task.fields[note]}"), console=Console(stderr=True),
        )  # fmt: skip
        self._bars.start()
        self._task: Any = None

    def stage(self, what: str, total: int | None = None) -> None:
        self._finish()
        self._task = self._bars.add_task(f"{self._title}: {what}", total=total, note="")

    def step(self, note: str = "") -> None:
        if self._task is not None:
            self._bars.update(self._task, advance=1, note=note)

    def close(self, summary: str = "") -> None:
        self._finish()
        self._bars.stop()
        if summary:
            self._bars.console.print(f"{self._title}: {summary}", highlight=False, markup=False)

    def _finish(self) -> None:
        if self._task is not None:
            self._bars.update(self._task, note="")
            self._bars.stop_task(self._task)


def show(title: str) -> Progress:
    """Bars where stderr is a terminal, else lines."""
    return Bars(title) if sys.stderr.isatty() else Lines(title)
