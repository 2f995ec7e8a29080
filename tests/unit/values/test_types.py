"""What a type checker says of programs that use nvdsl."""

from __future__ import annotations

import re
import textwrap
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]

PROGRAM = '''
from typing import Any
import numpy as np
import nvdsl as nv

@nv.jit
def scale(x: Any, y: Any, by: float, *, block: int = 128) -> None:
    @nv.kernel(grid=1, block=block)
    def kernel(first: int) -> None:
        reveal_type(nv.lane_id())  # value
        reveal_type(nv.shuffle_xor(nv.lane_id(), 1))  # value
        reveal_type(nv.f32(nv.lane_id()))  # value
        reveal_type(nv.ballot(True))  # value
    reveal_type(kernel)  # kernel
    reveal_type(nv.zeros((2, 2), nv.f32))  # array
    kernel(0)

@nv.jit(strict=True)
def strict(x: Any, *, stages: int) -> None: ...

@nv.autotune(nv.Space(stages=[1, 2]))
@nv.jit
def tuned(x: Any, *, stages: int = 2) -> None: ...

@nv.autotune(nv.Space(stages=[1, 2]))
def bare(x: Any, *, stages: int = 2) -> None: ...

@nv.jit
def annotated(x: nv.Array, y: nv.Array) -> None: ...

a = np.ones((4, 4), np.float32)
reveal_type(scale)  # scale
reveal_type(scale(a, a, 2.0, block=64))  # none
reveal_type(strict)  # strict
reveal_type(tuned)  # tuned
reveal_type(bare)  # bare
reveal_type(scale.compile(a, a, 2.0))  # compiled
reveal_type(scale.compile(a, a, 2.0).ptx)  # str
reveal_type(tuned.tune(a))  # tuning
reveal_type(nv.matmul(a, a))  # product
reveal_type(nv.matmul(a, a, out=a, bias=a, alpha=2.0, activation="relu", acc_dtype=nv.f32))  # product
reveal_type(nv.cdiv(4, 2))  # int
scale(a, a, 2.0, target="sim")
scale(a, a, 2.0, stream=3, debug=True)
annotated(a, a)
annotated(a, a, target="sim")
'''

EXPECTED = {
    "value": "nvdsl.values.traced.Value",
    "array": "nvdsl.lang.array.Array",
    "kernel": "def (first: int)",
    "scale": r"nvdsl.call.jit.Jit[[x: Any, y: Any, by: float, *, block: int = ...]]",
    "strict": r"nvdsl.call.jit.Jit[[x: Any, *, stages: int]]",
    "tuned": r"nvdsl.tune.autotune.Autotuned[[x: Any, *, stages: int = ...]]",
    "bare": r"nvdsl.tune.autotune.Autotuned[[x: Any, *, stages: int = ...]]",
    "none": "None",
    "compiled": "nvdsl.call.compiled.Compiled",
    "str": "str",
    "tuning": "nvdsl.tune.result.Tuning",
    "product": "numpy.ndarray",
    "int": "int",
}

WRONG = {
    'nv.matmul("a", a)': 'of "matmul" cannot be "str"',
    "nv.matmul(a, a, output=a)": 'Unexpected keyword argument "output"',
    "nv.matmul(a, 3)": 'has incompatible type "int"; expected "ArrayLike"',
    "nv.cdiv(1)": 'Missing positional argument "b"',
    "nv.kernel(1, 2)(lambda x: None)(1, 2)": "Too many arguments",
    "scale.compiled": 'has no attribute "compiled"',
}


@pytest.fixture(scope="module")
def said(tmp_path_factory):
    """Lines of what mypy says, by line of the program."""
    api = pytest.importorskip("mypy.api")
    folder = tmp_path_factory.mktemp("typed")
    program = folder / "program.py"
    program.write_text(textwrap.dedent(PROGRAM) + "".join(f"{line}\n" for line in WRONG))
    settings = ["--config-file", str(ROOT / "pyproject.toml"), "--cache-dir", str(ROOT / ".mypy_cache")]
    out, err, _ = api.run([*settings, "--follow-imports=silent", str(program)])
    found = re.findall(r"program\.py:(\d+): (?:error|note): (.*)", out)
    assert found, out + err
    lines = {}
    for number, text in found:
        lines.setdefault(int(number), []).append(text)
    return program.read_text().splitlines(), lines


def test_what_is_revealed(said):
    program, lines = said
    revealed = {i: line.rpartition("# ")[2] for i, line in enumerate(program, 1) if "reveal_type" in line}
    assert len(revealed) == PROGRAM.count("reveal_type")
    for number, name in revealed.items():
        (text,) = lines[number]
        text = text.replace("builtins.", "").replace("=]", "= ...]")  # how a default is written changes with mypy
        assert EXPECTED[name] in text, (program[number - 1], text)


def test_programs_that_are_right_are_right(said):
    program, lines = said
    for number, text in lines.items():
        line = program[number - 1]
        assert "reveal_type" in line or line in WRONG, (line, text)


@pytest.mark.parametrize(("line", "text"), WRONG.items())
def test_what_is_wrong_is_found(said, line, text):
    program, lines = said
    assert any(text in one for one in lines.get(program.index(line) + 1, [])), lines.get(program.index(line) + 1)
