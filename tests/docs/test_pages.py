"""What the pages say is there: files that they link to, settings, pictures with the commands that make them."""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tests.exhaustive import sample

pytestmark = pytest.mark.usefixtures("quick_python")

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = [
    *sorted(DOCS.rglob("*.md")), *sorted(ROOT.glob("*.md")),
    *(ROOT / folder / "README.md" for folder in ("chapters", "tests", "benchmarks")),
]  # fmt: skip


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_links_lead_to_files(page):
    text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
    text = re.sub(r"(?<!\[)`[^`\n]+`(?!\])", "", text)
    targets = [t for t in re.findall(r"\]\(([^)\s]+)\)", text) if not re.match(r"\w+:", t)]
    assert [t for t in targets if not leads_somewhere(page, *t.partition("#")[::2])] == []


def leads_somewhere(page, path, heading):
    """Whether the file is there, and of a page the heading, by the name that GitHub and the site give it."""
    found = Path(os.path.normpath(page.parent / path)) if path else page
    if not heading or found.suffix != ".md" or not found.exists():
        return found.exists()
    headings = re.findall(r"^#+ (.*)$", found.read_text(encoding="utf-8"), re.MULTILINE)
    return heading in {re.sub(r"[^\w\- ]", "", text.lower()).replace(" ", "-") for text in headings}


def test_the_settings_are_those_of_the_code():
    files = [*(ROOT / "nvdsl").rglob("*.py"), *(ROOT / "nvdsl_command").glob("*.py")]
    read = {name for file in files for name in re.findall(r"\bNVDSL_[A-Z_]*[A-Z]", file.read_text())}
    shown = set(re.findall(r"\bNVDSL_[A-Z_]+", (DOCS / "settings.md").read_text()))
    assert read == shown


# --- pictures

COMMAND = re.compile(r"^    (nvdsl [^\n]*docs/pictures/(\w+\.svg)[^\n]*)$", re.MULTILINE)
COMMANDS = {name: command for page in PAGES for command, name in COMMAND.findall(page.read_text(encoding="utf-8"))}


def without_lines(svg):
    """Source lines move with every edit of a chapter."""
    return re.sub(r" \([^()]*\.py:\d+[^()]*\)", "", svg)


@pytest.mark.parametrize("name", sample(sorted(path.name for path in (DOCS / "pictures").glob("*.svg")), 8))
def test_a_picture_is_what_its_command_makes(name, tmp_path):
    assert name in COMMANDS, f"no page says which command makes docs/pictures/{name}"
    made, kept = tmp_path / name, DOCS / "pictures" / name
    words = [str(made) if word.endswith(name) else word for word in shlex.split(COMMANDS[name])[1:]]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", "nvdsl", *words]
    subprocess.run(command, cwd=ROOT, env=environment, check=True, capture_output=True, timeout=120)
    assert without_lines(made.read_text()) == without_lines(kept.read_text()), f"make it anew: {COMMANDS[name]}"
