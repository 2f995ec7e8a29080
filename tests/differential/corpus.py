"""Cases with what an H200 gave for them, as lines of JSON."""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from tests.differential import copies, elementwise, lanes, products, programs  # noqa: F401  (registers the kinds)
from tests.differential.case import Case, Result, canonical, differing, from_json

FOLDER = Path(__file__).parent / "recorded"
PIECES = 32
"""Checksums that stand for an exact array in a packed corpus."""


@dataclass
class Entry:
    """A case, and the encoded arrays by name, or the error, that a machine gave for it."""

    case: Case
    arrays: dict[str, Any] = field(default_factory=dict)
    error: str = ""


def read(path: Path) -> list[Entry]:
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    return [Entry(from_json(line["case"]), line.get("arrays", {}), line.get("error", "")) for line in lines]


def write(path: Path, entries: Iterable[Entry]) -> None:
    path.write_text("".join(line(entry) + "\n" for entry in entries))


def line(entry: Entry) -> str:
    data: dict[str, Any] = {"case": entry.case.to_json()}
    if entry.arrays:
        data["arrays"] = entry.arrays
    if entry.error:
        data["error"] = entry.error
    return json.dumps(data)


def encode(result: Result) -> dict[str, Any]:
    """A whole array."""
    x = np.ascontiguousarray(result.array)
    data = base64.b64encode(zlib.compress(x.tobytes(), 9)).decode()
    return {"dtype": x.dtype.name, "shape": x.shape, "data": data}


def decode(array: dict[str, Any]) -> np.ndarray:
    raw = zlib.decompress(base64.b64decode(array["data"]))
    return np.frombuffer(raw, np.dtype(array["dtype"])).reshape(array["shape"])


def pack(entry: Entry) -> Entry:
    """The entry with checksums, which know one NaN only, in the place of exact arrays."""
    arrays = dict(entry.arrays)
    for result in entry.case.run("sim"):
        if result.tolerance is None and "data" in arrays[result.name]:
            arrays[result.name] = {"sums": checksums(decode(arrays[result.name]))}
    return Entry(entry.case, arrays, entry.error)


def checksums(x: np.ndarray) -> str:
    raw = canonical(x).tobytes()
    step = max(-(-len(raw) // PIECES), 64)
    return text(np.array([zlib.crc32(raw[i : i + step]) for i in range(0, len(raw), step)], "<u4"))


def text(words: np.ndarray) -> str:
    return base64.b64encode(words.astype("<u4").tobytes()).decode()


def words(text: str) -> np.ndarray:
    return np.frombuffer(base64.b64decode(text), "<u4")


def disagreements(entry: Entry, target: str = "sim") -> list[str]:
    """What differs between ``target`` here and what was recorded, in words."""
    if entry.error:
        return [f"was not recorded: {entry.error}"]
    found = []
    results = entry.case.run(target)
    if [r.name for r in results] != list(entry.arrays):
        return [f"gives {[r.name for r in results]} where {list(entry.arrays)} were recorded"]
    for result in results:
        recorded = entry.arrays[result.name]
        if "sums" in recorded:
            mine, theirs = words(checksums(result.array)), words(recorded["sums"])
            bad = np.flatnonzero(mine != theirs)
            if len(bad):
                found.append(f"{result.name}: pieces {bad.tolist()} of {len(mine)} differ")
            continue
        theirs = decode(recorded)
        bad = differing(result, theirs)
        if bad.any():
            found.append(f"{result.name} ({result.array.dtype}): {int(bad.sum())} of {bad.size} differ: "
                         + "; ".join(_shown(result.array, theirs, at) for at in np.argwhere(bad)[:4]))  # fmt: skip
    return found


def _shown(mine: np.ndarray, theirs: np.ndarray, at: np.ndarray) -> str:
    place = tuple(at.tolist())
    return f"at {place} {_number(mine[place])} here, {_number(theirs[place])} there"


def _number(x: Any) -> str:
    return f"{x} ({x.tobytes()[::-1].hex()})"
