"""A page for a chapter: its docstring as prose, its pictures, the command that runs it, and its code.

    ```{chapter} ch4_multistage_gemm
    ```
"""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import Any

from docutils import nodes
from docutils.statemachine import StringList
from repository import DOCS, ROOT, rewritten
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective


def prose(source: str) -> str:
    """The module's docstring but for its first line, which is the title."""
    return (ast.get_docstring(ast.parse(source)) or "").partition("\n\n")[2]


def code(source: str) -> str:
    """What follows the docstring, without the lines that are for FileCheck."""
    end = ast.parse(source).body[0].end_lineno or 0
    kept = [line for line in source.splitlines()[end:] if not re.match(r"\s*# (RUN|CHECK)", line)]
    text = "\n".join(_without_orphans(kept)).strip("\n")
    return re.sub(r"\n{4,}", "\n\n\n", text)


def _without_orphans(lines: list[str]) -> list[str]:
    """Comments at the margin between two functions were headings of CHECK lines."""
    return [line for i, line in enumerate(lines) if not (line.startswith("# ") and not _code_follows(lines, i))]


def _code_follows(lines: list[str], i: int) -> bool:
    rest = [line for line in lines[i + 1 :] if not line.startswith("#")]
    return bool(rest and rest[0].strip())


class Chapter(SphinxDirective):
    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        name = self.arguments[0]
        path = ROOT / "chapters" / f"{name}.py"
        self.env.note_dependency(str(path))
        source = path.read_text(encoding="utf-8")
        number = name.split("_")[0]
        pictures = sorted((DOCS / "pictures").glob(f"{number}_*.svg"))
        shown = [f"![{picture.stem.replace('_', ' ')}](/pictures/{picture.name})" for picture in pictures]
        run = (
            f"    python chapters/{name}.py\n\nor `nvdsl run chapters/{name}.py`, which simulates it on any machine."
        )
        program = (
            f"````python\n{code(source)}\n````\n\nThe file, with what its test expects of the traced module: "
            f"{{repository}}`chapters/{name}.py <chapters/{name}.py>`."
        )
        return [
            *self._parsed("\n\n".join([rewritten(prose(source), path, self.env.docname), *shown]), path),
            self._section("Run it", run, path),
            self._section("The program", program, path),
        ]

    def _section(self, title: str, text: str, path: Path) -> nodes.section:
        section = nodes.section("", nodes.title(title, title), names=[nodes.fully_normalize_name(title)])
        self.state.document.note_implicit_target(section, section)
        section += self._parsed(text, path)
        return section

    def _parsed(self, text: str, path: Path) -> list[nodes.Node]:
        node = nodes.container()
        self.state.nested_parse(StringList(text.splitlines(), source=str(path)), 0, node)
        return node.children


def setup(app: Sphinx) -> dict[str, Any]:
    app.add_directive("chapter", Chapter)
    return {"parallel_read_safe": False}
