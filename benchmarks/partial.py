"""Results that several runs make together: each row has the number of the run that measured it. ``runs`` has commands,
machines and dates."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks import paired

Row = dict[str, Any]


def part(problems: Sequence[Any], which: str) -> list[Any]:
    """Every n-th of ``problems``, from number i on; ``which`` is "i/n", 1/1 to n/n."""
    i, n = map(int, which.split("/"))
    if not 1 <= i <= n:
        raise ValueError(f"part {which}: 1/{n} to {n}/{n}")
    return list(problems[i - 1 :: n])


def merged(before: dict[str, Any], run: Row, rows: Sequence[Row], names: Sequence[str]) -> dict[str, Any]:
    """``before``, a result, with these rows of a run in place of those of the same problems, and behind them. A problem
    is what a row has under ``names``. Runs of which no row is left are left out."""

    def problem(row: Row) -> str:
        return json.dumps([row[name] for name in names])

    earlier = before.get("runs") or [{x: before[x] for x in ("command", "machine") if x in before}]
    new = {problem(row): {**row, "run": len(earlier)} for row in rows}
    kept = [new.pop(problem(row), {"run": 0, **row}) for row in before.get("rows", [])]
    found = [*kept, *new.values()]
    used = sorted({row["run"] for row in found})
    every = [*earlier, run]
    return {
        "runs": [every[number] for number in used],
        "rows": [{**row, "run": used.index(row["run"])} for row in found],
    }


def read(path: Path | None) -> dict[str, Any]:
    """The result in a file, or an empty one."""
    return dict(json.loads(path.read_text())) if path is not None and path.exists() else {}


def write(
    path: Path, script: str, rows: Sequence[Row], names: Sequence[str], before: dict[str, Any], **more: Any
) -> list[Row]:
    """Write the rows of this run, merged with ``before``. Returns all rows of the file."""
    run = {"command": paired.command(path, script), "machine": paired.machine()}
    result = merged(before, run, rows, names)
    path.write_text(paired.dumps({**more, **result}))
    return list(result["rows"])
