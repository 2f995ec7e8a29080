"""Python programs: arithmetic and control flow on traced values, as a person would write them."""

from __future__ import annotations

import atexit
import hashlib
import importlib.util
import shutil
import tempfile
import textwrap
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from tests.differential import inputs
from tests.differential.case import Call, Case, Result, from_bits

_SOURCE = '''\
import nvdsl as nv
from tests.differential.elementwise import bits


def keep(out, t, *values):
    for row, value in enumerate(values):
        out[row, t] = bits(value)


def larger(a, b):
    if a > b:
        return a
    return b


def halvings(n):
    count = nv.i32(0)
    while n > 1:
        n = n // 2
        count += 1
    return count


@nv.jit
def program(out, {arguments}):
    @nv.kernel(grid={blocks}, block={threads})
    def kernel():
        u = nv.block_id.x
        tid = nv.thread_id.x
        t = u * {threads} + tid
{body}
        keep(out, t, {kept})

    kernel()
'''


@dataclass(frozen=True)
class Program(Case):
    """``body``: statements on the variables ``v0`` ..., the first of which start as an element of one input each: the
    thread's own, or one for the block where ``uniform``. ``kept``: the variables to compare, with their types. ``u`` is
    the block's number, ``tid`` the thread's in it, ``t`` in the grid."""

    kind = "program"
    threads: int
    blocks: int
    sources: tuple[str, ...]
    uniform: tuple[bool, ...]
    body: str
    kept: tuple[tuple[str, str], ...]
    seed: int

    def source(self) -> str:
        starts = [f"v{i} = x{i}[{'u' if self.uniform[i] else 't'}]" for i in range(len(self.sources))]
        return _SOURCE.format(
            arguments=", ".join(f"x{i}" for i in range(len(self.sources))),
            blocks=self.blocks,
            threads=self.threads,
            body=textwrap.indent("\n".join([*starts, self.body.rstrip()]), " " * 8),
            kept=", ".join(name for name, _ in self.kept),
        )

    def call(self) -> Call:
        total = self.threads * self.blocks
        out = np.full((len(self.kept), total), 0xCDCDCDCDCDCDCDCD, np.uint64)
        sources = [inputs.mixed(name, total, self.seed + i) for i, name in enumerate(self.sources)]
        return Call(
            _module(self.source()).program,
            [out, *sources],
            lambda: [Result(name, from_bits(row, t)) for row, (name, t) in zip(out, self.kept, strict=True)],
        )


@cache
def _folder() -> Path:
    folder = tempfile.mkdtemp(prefix="nvdsl-programs-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return Path(folder)


@cache
def _module(source: str) -> Any:
    name = "program_" + hashlib.sha256(source.encode()).hexdigest()[:16]
    path = _folder() / f"{name}.py"
    path.write_text(source)
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
