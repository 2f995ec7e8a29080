"""The exercises at the end of the chapters' docstrings: a line to change, and what nvdsl reports then.

    Break it: leave out the fence.

        -     nv.fence_proxy_async()         the line of the program; without a `+` line it goes
        +     pass                           what stands there instead

        VerifyError: ch6_tma_store_gemm.py:118: this TMA store reads ...

Line numbers move with every edit of a chapter. Write the reports anew with

    python -m tests.sim.break_it --write
"""

from __future__ import annotations

import argparse
import os
import re
import tempfile
import textwrap
from dataclasses import dataclass
from pathlib import Path

import nvdsl as nv

ROOT = Path(__file__).parents[2]
CHAPTERS = [
    *sorted((ROOT / "chapters").glob("ch*.py"), key=lambda path: int(re.findall(r"\d+", path.stem)[0])),
    *sorted((ROOT / "chapters" / "passes").glob("*.py")),
    *sorted((ROOT / "chapters" / "simt").glob("*.py")),
    *(ROOT / "chapters" / "attention" / f"{name}.py" for name in ("one_tile", "ladder", "backward")),
]

_SECTION = re.compile(r"\nBreak it: (?:.+\n)+\n(?P<change>(?:    [-+] .*\n)+)\n(?P<report>(?:    .*\n)+)")
WIDTH = 120
LONG = 8
"""Lines of a report that is quoted whole; of a longer one what is between its first lines and its rule is left out."""


@dataclass(frozen=True)
class Exercise:
    """``old`` and ``new``: lines of the program, ``new`` None where it goes. ``report``: as the docstring quotes it."""

    path: Path
    old: str
    new: str | None
    report: str

    def changed(self) -> str:
        """The source with the change. The line that goes leaves no gap."""
        source = self.path.read_text()
        end = source.index('"""', source.index('"""') + 3)
        lines = source[end:].split("\n")
        assert lines.count(self.old) == 1, f"{self.path.name} has {self.old!r} {lines.count(self.old)} times"
        place = lines.index(self.old)
        lines[place : place + 1] = [] if self.new is None else [self.new]
        return source[:end] + "\n".join(lines)

    def run(self, folder: Path) -> nv.NvdslError:
        """What the changed chapter raises, with the values of its `main`."""
        path = folder / self.path.name
        path.write_text(self.changed())
        module = {"__name__": path.stem, "__file__": str(path)}
        try:
            exec(compile(path.read_text(), str(path), "exec"), module)
            module["main"]()  # type: ignore[operator]
        except nv.NvdslError as error:
            return error
        raise AssertionError(f"{path.name}: nothing was reported")


def exercise(path: Path) -> Exercise:
    found = _SECTION.search(path.read_text())
    assert found, f"{path.name} has no exercise"
    lines = found["change"].splitlines()
    old = [line[6:] for line in lines if line.startswith("    - ")]
    new = [line[6:] for line in lines if line.startswith("    + ")]
    assert len(old) == 1 and len(new) <= 1, f"{path.name}: an exercise changes one line"
    return Exercise(path, old[0], new[0] if new else None, found["report"])


def quoted(error: nv.NvdslError, folder: Path) -> str:
    """A report as the docstring has it: indented, wrapped, without the folder."""
    lines = f"{type(error).__name__}: {error}".replace(f"{folder}{os.sep}", "").splitlines()
    if len(lines) > LONG:
        rule = next(i for i, line in enumerate(lines) if line.startswith("  rule:"))
        lines = [*lines[:3], "  ...", *lines[rule:]]
    return "".join(_wrapped(line) + "\n" for line in lines)


def _wrapped(line: str) -> str:
    indent = " " * (4 + len(line) - len(line.lstrip()))
    return textwrap.fill(line.strip(), WIDTH, initial_indent=indent, subsequent_indent=indent + " " * 6,
                         break_long_words=False, break_on_hyphens=False)  # fmt: skip


def write(path: Path) -> bool:
    """Put the present report into the docstring; whether it was another one. New lines move the program's."""
    changed = False
    for _ in range(3):
        one = exercise(path)
        with tempfile.TemporaryDirectory() as folder:
            report = quoted(one.run(Path(folder)), Path(folder))
        if report == one.report:
            return changed
        path.write_text(path.read_text().replace(one.report, report, 1))
        changed = True
    raise RuntimeError(f"{path.name}: the report changes with each run")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--write", action="store_true", required=True, help="write the reports anew")
    parser.parse_args()
    os.environ["NVDSL_TARGET"] = "sim"
    for chapter in CHAPTERS:
        if write(chapter):
            print(f"{chapter.relative_to(ROOT)}: written")
