"""The pictures in docs/ are what their commands in chapters/README.md make."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def without_lines(svg):
    """Source lines move with every edit of a chapter."""
    return re.sub(r" \([^()]*\.py:\d+[^()]*\)", "", svg)


README = (ROOT / "chapters" / "README.md").read_text()
COMMANDS = {
    re.search(r"docs/pictures/(\S+)", line)[1]: line.split()[1:]
    for line in README.splitlines()
    if line.startswith("    nvdsl ") and "docs/pictures/" in line
}


def test_every_picture_has_its_command():
    assert set(re.findall(r"\]\(\.\./docs/pictures/(\S+)\)", README)) == set(COMMANDS)


@pytest.mark.parametrize("name", COMMANDS)
def test_a_picture_is_up_to_date(name, tmp_path):
    made, kept = tmp_path / name, ROOT / "docs" / "pictures" / name
    words = [str(made) if word.endswith(name) else word for word in COMMANDS[name]]
    subprocess.run([sys.executable, "-m", "nvdsl", *words], cwd=ROOT, check=True, capture_output=True, timeout=120)
    again = "make it anew: nvdsl " + " ".join(COMMANDS[name])
    assert without_lines(made.read_text()) == without_lines(kept.read_text()), again
