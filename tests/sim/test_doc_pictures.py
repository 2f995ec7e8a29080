"""The pictures in docs/ are what their commands in chapters/README.md make."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def without_lines(svg):
    """Source lines move with every edit of a chapter."""
    return re.sub(r" \([^()]*\.py:\d+[^()]*\)", "", svg)


@pytest.mark.parametrize("name", ["ch4_slots.svg", "ch5_slots.svg"])
def test_a_picture_is_up_to_date(name, tmp_path):
    text = (ROOT / "chapters" / "README.md").read_text()
    (command,) = re.findall(rf"nvdsl run [^\n]*docs/pictures/{name}[^\n]*", text)
    made, kept = tmp_path / name, ROOT / "docs" / "pictures" / name
    words = [str(made) if word.endswith(name) else word for word in shlex.split(command)[1:]]
    subprocess.run([sys.executable, "-m", "nvdsl", *words], cwd=ROOT, check=True, capture_output=True, timeout=120)
    assert without_lines(made.read_text()) == without_lines(kept.read_text()), f"make it anew: {command}"
