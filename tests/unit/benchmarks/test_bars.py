"""The page of targets: it has all, and its links lead to headings."""

import re
from pathlib import Path

from benchmarks import bars

MEASURED = Path(__file__).parents[3] / "docs" / "measured"


def test_the_page_has_all_targets():
    written = (MEASURED / "bars.md").read_text()
    assert [line for line in bars.page().splitlines() if line.startswith("## ")] == re.findall("^## .*", written, re.M)
    assert all(f"| {bar.what} |" in written for group in bars.GROUPS.values() for bar in group)


def slug(heading):
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def test_links_to_what_was_tried_lead_to_headings():
    for page, _, anchor in (bar.tried.partition("#") for group in bars.GROUPS.values() for bar in group if bar.tried):
        headings = re.findall(r"^#+ (.*)$", (MEASURED / page).read_text(), re.MULTILINE)
        assert not anchor or anchor in map(slug, headings), (page, anchor)


def test_a_target_is_met_by_every_number():
    figure = lambda name: bars.both(1.1, 0.9)  # noqa: E731
    assert "not met: [tried](x.md)" in bars.Bar("", 1.0, "n", figure, "x.md").line()
    assert "| met |" in bars.Bar("", 0.9, "n", figure).line()
    assert "| met |" in bars.Bar("", 1.1, "n", figure, most=True).line()
