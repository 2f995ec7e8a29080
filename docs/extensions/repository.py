"""Links of Markdown files into the repository, made right for the site.

The same files are read on GitHub and in the site. A link to another page stays. A link to a file that has no page goes
to the site's own copy of it, highlighted. A link to a file that does not exist is a warning, so it stops `make docs`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util import logging
from sphinx.util.docutils import SphinxDirective, SphinxRole

DOCS = Path(__file__).resolve().parents[1]
ROOT = DOCS.parent

PAGES = {
    "README.md": "index",
    "CHANGELOG.md": "project/changelog",
    "CONTRIBUTING.md": "project/contributing",
    "SECURITY.md": "project/security",
    "benchmarks/README.md": "project/benchmarks",
    "chapters/README.md": "chapters/index",
    "tests/README.md": "project/tests",
}
"""Files outside of docs/ that have a page."""

IMAGES = {".svg", ".png"}
LEXERS = {".py": "python", ".md": "markdown", ".json": "json", ".toml": "toml", ".yml": "yaml", ".svg": "xml"}

LINK = re.compile(r"(?P<code>`[^`]+`)|(?P<image>!?)\[(?P<text>[^\[\]]*)\]\((?P<target>[^)\s]+)\)")
FENCE = re.compile(r"^ *(```|~~~|:::)")

logger = logging.getLogger(__name__)


def page_of(path: Path) -> str | None:
    """The page that shows a file of the repository, without its suffix; None for a file that has none."""
    relative = path.relative_to(ROOT)
    if relative.as_posix() in PAGES:
        return PAGES[relative.as_posix()]
    chapter = "_".join(relative.with_suffix("").parts[1:])
    if relative.parts[0] == "chapters" and (DOCS / "chapters" / f"{chapter}.md").is_file():
        return f"chapters/{chapter}"
    if path.is_relative_to(DOCS) and path.suffix == ".md":
        return path.relative_to(DOCS).with_suffix("").as_posix()
    return None


def rewritten(text: str, file: Path, docname: str) -> str:
    """``text`` of Markdown ``file``, as part of page ``docname``: its links lead to the site."""
    lines, fenced = [], False
    for line in text.split("\n"):
        if FENCE.match(line):
            fenced = not fenced
        lines.append(line if fenced else LINK.sub(lambda link: _link(link, file, docname), line))
    return "\n".join(lines)


def _link(link: re.Match[str], file: Path, docname: str) -> str:
    if link["code"]:
        return link[0]
    path, mark, anchor = link["target"].partition("#")
    if not path or re.match(r"\w+:", path) or path.startswith("/"):
        return link[0]
    found = Path(os.path.normpath(file.parent / path))
    if not found.exists():
        logger.warning("%s links to %s, which does not exist", file.relative_to(ROOT), path, location=docname)
        return link["text"]
    if found.suffix in IMAGES and link["image"]:
        return f"![{link['text']}](/{os.path.relpath(found, DOCS)})"
    if page := page_of(found):
        return f"[{link['text']}](/{page}.md{mark}{anchor})"
    if found.is_file():
        return f"{{repository}}`{link['text'].replace('`', '')} <{found.relative_to(ROOT).as_posix()}>`"
    return link["text"]  # a folder


class File(SphinxRole):
    """``{repository}`words <path>` ``: a link to the site's copy of a file of the repository."""

    def run(self) -> tuple[list[nodes.Node], list[nodes.system_message]]:
        words, _, path = self.text.rstrip(">").rpartition(" <")
        node = nodes.reference("", words, internal=True, refuri="", source_file=path)
        return [node], []


class Interactive(SphinxDirective):
    """``{interactive} name.html``: a link to a page that `make pages` makes; the content says what it is."""

    required_arguments, has_content = 1, True

    def run(self) -> list[nodes.Node]:
        page = self.arguments[0]
        if not (ROOT / "build" / "docs" / "extra" / "interactive" / page).is_file():
            logger.warning("there is no page %s: `make docs` makes it", page, location=self.get_location())
        up = "../" * self.env.docname.count("/")
        words = " ".join(self.content)
        link = nodes.reference("", words, internal=True, refuri=f"{up}interactive/{page}")
        return [nodes.paragraph("", "", link)]


def source_uri(app: Sphinx, docname: str, path: str, line: int | None = None) -> str:
    """Where page ``docname`` finds the copy of a file. Asking for it makes the copy."""
    app.env.source_files.add(path)  # type: ignore[attr-defined]
    return app.builder.get_relative_uri(docname, f"source/{path}") + (f"#L-{line}" if line else "")


def _begin(app: Sphinx) -> None:
    app.env.source_files = set()  # type: ignore[attr-defined]


def _read(app: Sphinx, docname: str, source: list[str]) -> None:
    source[0] = rewritten(source[0], DOCS / f"{docname}.md", docname)


def _include(app: Sphinx, path: Path, docname: str, content: list[str]) -> None:
    content[0] = rewritten(content[0], (DOCS / path).resolve(), docname)


def _resolve(app: Sphinx, doctree: nodes.document, docname: str) -> None:
    for node in doctree.findall(nodes.reference):
        if "source_file" in node:
            node["refuri"] = source_uri(app, docname, node["source_file"])


def _pages(app: Sphinx) -> Iterator[tuple[str, dict[str, Any], str]]:
    """A page for each file of the repository that some page links to."""
    for path in sorted(app.env.source_files):  # type: ignore[attr-defined]
        code = app.builder.highlighter.highlight_block(  # type: ignore[attr-defined]
            (ROOT / path).read_text(encoding="utf-8"), LEXERS.get(Path(path).suffix, "text"), lineanchors="L"
        )
        yield f"source/{path}", {"title": path, "body": f"<h1><code>{path}</code></h1>{code}"}, "page.html"


def setup(app: Sphinx) -> dict[str, Any]:
    app.add_role("repository", File())
    app.add_directive("interactive", Interactive)
    app.connect("builder-inited", _begin)
    app.connect("source-read", _read)
    app.connect("include-read", _include)
    app.connect("doctree-resolved", _resolve)
    app.connect("html-collect-pages", _pages)
    return {"parallel_read_safe": False}
