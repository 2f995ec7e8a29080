"""The programs in the documentation run, in the simulator, and print what stands below them.

A ```python block is part of a program: a page's blocks are one, in their order. A ```text block right after one is
what it prints. What is no program is indented, or names another language.
"""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.usefixtures("quick_python")

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"

ELSEWHERE = {"docs/matmul.md", "docs/tuning.md"}
"""Their tests check more than the output: tests/unit/kernels/gemm/test_docs.py, tests/unit/tune/test_docs.py."""

PAGES = [
    path.relative_to(ROOT).as_posix()
    for path in (ROOT / "README.md", *sorted(DOCS.rglob("*.md")))
    if "```python" in path.read_text(encoding="utf-8")
]


def run(program, tmp_path):
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "NVDSL_TARGET": "sim", "NVDSL_CACHE_DIR": str(tmp_path)}
    done = subprocess.run([sys.executable, program], capture_output=True, text=True, timeout=120, env=environment)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("page", [page for page in PAGES if page not in ELSEWHERE])
def test_a_page(page, tmp_path):
    text = (ROOT / page).read_text(encoding="utf-8")
    program, expected = tmp_path / "program.py", []
    lines = []
    for block in re.finditer(r"```python\n(.*?)```\n*(?:(?:It prints\n+)?```text\n(.*?)```)?", text, re.DOTALL):
        lines.append(block[1])
        expected.append(block[2] or "")
    program.write_text("\n".join(lines))
    printed = run(program, tmp_path)
    if any(expected):
        assert printed == "".join(expected)


@pytest.mark.parametrize("name", sorted(path.stem for path in (DOCS / "ideas").glob("*.py")))
def test_an_idea(name, tmp_path):
    page = (DOCS / "ideas" / f"{name}.md").read_text(encoding="utf-8")
    block = rf"```\{{literalinclude\}} {name}\.py\n.*?```\n+It prints\n+```text\n(.*?)```"
    (expected,) = re.findall(block, page, re.DOTALL)
    assert run(DOCS / "ideas" / f"{name}.py", tmp_path) == expected


def test_pages_with_tests_of_their_own_exist():
    assert set(PAGES) >= ELSEWHERE
