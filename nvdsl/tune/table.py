"""Tables of tuned configurations that come with a package: JSON, read-only, one file a kernel.

    {"format": 1, "kernel": "nvdsl.kernels.gemm.matmul:gemm", "entries": [
      {"gpu": {"name": "NVIDIA H200", "capability": "9.0"}, "arguments": {...}, "shapes": "...", "config": {...},
       "measured": {...}}, ...]}

Entries are the store's records without what they are valid for: a table is as old as the package that it is in, and a
configuration that no longer compiles is passed over.
"""

from __future__ import annotations

import functools
import json
import warnings
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from nvdsl.lower.cache import CacheWarning
from nvdsl.tune.store import FORMAT, Record

FOLDER = Path(__file__).parents[1] / "kernels" / "tables"


def find(table: str | Path) -> Path:
    """The file of a table: nvdsl's own by name, ``"matmul"``, or any by path."""
    return FOLDER / f"{table}.json" if isinstance(table, str) and "/" not in table else Path(table)


def look_up(table: str | Path, question: dict[str, Any], gpu: dict[str, str]) -> dict[str, Any] | None:
    """The configuration for a question, as JSON: of this GPU, or else of one with the same compute capability."""
    fitting = [
        entry
        for entry in _entries(find(table))
        if all(entry.get(part) == question[part] for part in ("kernel", "arguments", "shapes"))
        and entry["gpu"]["capability"] == gpu["capability"]
    ]
    fitting.sort(key=lambda entry: entry["gpu"]["name"] != gpu["name"])
    return fitting[0]["config"] if fitting else None


def write(table: str | Path, kernel: str, records: Iterable[Record]) -> Path:
    """Write a kernel's records as a table, in a stable order; returns its file."""
    entries = [
        {
            "gpu": record.gpu,
            "arguments": record.question["arguments"],
            "shapes": record.question["shapes"],
            "config": record.config,
            "measured": record.measured,
        }
        for record in records
    ]
    entries.sort(key=lambda entry: json.dumps(entry, sort_keys=True))
    path = find(table)
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = ",\n".join(" " + json.dumps(entry) for entry in entries)
    head = json.dumps({"format": FORMAT, "kernel": kernel})[:-1]
    path.write_text(f'{head}, "entries": [\n{lines}\n]}}\n')
    _entries.cache_clear()
    return path


@functools.cache
def _entries(path: Path) -> tuple[dict[str, Any], ...]:
    try:
        table = json.loads(path.read_bytes())
        if table["format"] != FORMAT:
            raise ValueError(f"format {table['format']!r} is not {FORMAT}")
        entries = tuple({"kernel": table["kernel"], **entry} for entry in table["entries"])
        for entry in entries:
            if not (isinstance(entry["config"], dict) and {"capability", "name"} <= set(entry["gpu"])):
                raise ValueError("an entry has no configuration, or no GPU")
        return entries
    except FileNotFoundError:
        return ()
    except Exception as error:  # a damaged package is no reason to stop
        warnings.warn(f"{path} is not used: {type(error).__name__}: {error}", CacheWarning, stacklevel=3)
        return ()
