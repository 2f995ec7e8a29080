"""Tuned configurations on disk: one JSON file for each question, in ``tune/`` of the cache (`nvdsl.lower.cache`).

A file's name stands for the question (kernel, GPU, dtypes, layouts, shape class). Its contents say what the answer
holds for: nvdsl's version, the kernel's source, the search space. An answer that holds for something else is out of
date; a file whose checksum does not fit is broken. Both are thrown away with a warning.
"""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import asdict
from pathlib import Path
from typing import Any

from nvdsl.errors.records import dataclass
from nvdsl.lower import cache, cache_size

FORMAT = 1


@dataclass(frozen=True)
class Record:
    """``question``: see `problem.question`; ``gpu``: name and compute capability; ``valid_for``: version, source and
    space; ``config``: the answer, as JSON (`space.Config.plain`); ``measured``: what was seen when it was found."""

    question: dict[str, Any]
    gpu: dict[str, str]
    valid_for: dict[str, str]
    config: dict[str, Any]
    measured: dict[str, Any]

    def plain(self) -> dict[str, Any]:
        return {"format": FORMAT, **asdict(self)}


def path(question: dict[str, Any], gpu: dict[str, str]) -> Path:
    kernel = _slug(question["kernel"].rpartition(":")[2])
    digest = hashlib.sha256(_canonical([question, gpu])).hexdigest()[:16]
    return cache.folder("tune", kernel) / f"{_slug(gpu['name'])}-{digest}.json"


def load(question: dict[str, Any], gpu: dict[str, str], valid_for: dict[str, str]) -> Record | None:
    """The answer that is kept for a question; None where there is none that holds."""
    file = path(question, gpu)
    data = cache.read(file)
    if data is None:
        return None
    record, problem = parse(data)
    if record is None:
        cache.discard(file, f"it is broken ({problem})")
        return None
    if (record.question, record.gpu) != (question, gpu):
        cache.discard(file, "it answers another question")
        return None
    changed = [what for what, value in valid_for.items() if record.valid_for.get(what) != value]
    if changed:
        cache.discard(file, f"it is out of date: {', '.join(changed)} changed since this was tuned; tune again")
        return None
    return record


def save(record: Record) -> bool:
    file = path(record.question, record.gpu)
    cache_size.remove_stale(file.parent)
    return cache.write(file, serialize(record))


def every(kernel: str) -> list[Record]:
    """All whole records of a kernel, out-of-date ones too."""
    folder = cache.folder("tune", _slug(kernel.rpartition(":")[2]))
    found = (parse(cache.read(file) or b"")[0] for file in sorted(folder.glob("*.json")))
    return [record for record in found if record and record.question["kernel"] == kernel]


def serialize(record: Record) -> bytes:
    plain = json.loads(json.dumps(record.plain()))
    return json.dumps({**plain, "sha256": _checksum(plain)}, indent=1).encode() + b"\n"


def parse(data: bytes) -> tuple[Record | None, str]:
    """The record in a file's bytes; or None, and what is wrong with them."""
    try:
        plain = json.loads(data)
        if plain.get("format") != FORMAT:
            return None, f"format {plain.get('format')!r} is not {FORMAT}"
        if plain.pop("sha256") != _checksum(plain):
            return None, "the checksum does not fit"
        del plain["format"]
        return Record(**plain), ""
    except Exception as error:  # whatever the bytes are, they are no reason to stop
        return None, f"{type(error).__name__}: {error}"


def _checksum(plain: dict[str, Any]) -> str:
    return hashlib.sha256(_canonical(plain)).hexdigest()


def _canonical(value: Any) -> bytes:
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()


def _slug(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9_.-]+", "-", text).strip("-.") or "kernel"
