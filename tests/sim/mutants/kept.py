"""Verdicts that `make mutants` keeps in build/mutants, so that it judges again only what has changed.

A verdict holds for a kernel as it is traced, its arguments, and the checks that judged it. Of the kernel's lines only
their order counts: the same kernel further down in its file is the same one.
"""

from __future__ import annotations

import ast
import dataclasses
import functools
import hashlib
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from tests.sim.mutants.judge import Subject, Verdict

ROOT = Path(__file__).parents[3]
FOLDER = ROOT / "build" / "mutants"
CHECKS = ("nvdsl/verify", "nvdsl/sim", "nvdsl/ir", "nvdsl/hopper", "nvdsl/layout", "nvdsl/errors", "tests/sim/mutants")
"""What says which mutants there are, and what is reported of them, at which line."""
WITHOUT = ("kept.py", "__main__.py", "kernels.py", "subjects.py", "survivors.py", "table.py")
"""Of these the kernels, and what is written of the verdicts."""


def verdicts(one: Subject, of_any_checks: bool = False) -> dict[int, Verdict]:
    """Those that still hold, by the mutant's number. ``of_any_checks``: also those of other checks."""
    try:
        found = json.loads(_path(one.name).read_text())
    except (FileNotFoundError, ValueError):
        return {}
    if found["kernel"] != kernel(one) or not (of_any_checks or found["checks"] == checks()):
        return {}
    return {int(number): Verdict(*fields) for number, fields in found["verdicts"].items()}


def keep(one: Subject, found: dict[int, Verdict]) -> None:
    """In place of what was kept of this kernel."""
    listed = {number: dataclasses.astuple(verdict) for number, verdict in sorted(found.items())}
    path = _path(one.name)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"kernel": kernel(one), "checks": checks(), "verdicts": listed}, indent=0))


def kernel(one: Subject) -> str:
    """Of the module and its arguments. Each location stands as the number of the first op that has it."""
    text = one.module.operation.get_asm(enable_debug_info=True)
    numbers: dict[str, int] = {}
    text = re.sub(r'"[^"\n]*":\d+:\d+', lambda at: str(numbers.setdefault(at[0], len(numbers))), text)
    digest = hashlib.sha256(text.encode())
    digest.update(repr([(m.kind, m.name, m.number) for m in one.mutants]).encode())
    one.case.reset()
    for value in one.case.program.values:
        data = value[-1] if isinstance(value, tuple) else value  # (address, where, array), or a number
        digest.update(data.tobytes() if isinstance(data, np.ndarray) else repr(data).encode())
    return digest.hexdigest()


@functools.cache
def checks() -> str:
    """Of the code of the checks: a comment changes no verdict."""
    digest = hashlib.sha256()
    for path in _sources():
        digest.update(code(path.read_text()).encode())
    return digest.hexdigest()


def code(source: str) -> str:
    """What of a file is executed, whatever stands on which line."""
    tree: Any = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(body := getattr(node, "body", None), list):
            node.body = [s for s in body if not (isinstance(s, ast.Expr) and isinstance(s.value, ast.Constant))]  # type: ignore[attr-defined]
    return ast.dump(tree)


def _sources() -> Iterator[Path]:
    for folder in CHECKS:
        yield from sorted(p for p in (ROOT / folder).rglob("*.py") if p.name not in WITHOUT)


def _path(name: str) -> Path:
    return FOLDER / (re.sub(r"[^a-z0-9]+", "_", name) + ".json")
