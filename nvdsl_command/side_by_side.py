"""Two texts of MLIR in two columns, where they differ."""

from __future__ import annotations

import re
from collections.abc import Iterator
from difflib import SequenceMatcher
from itertools import zip_longest

CONTEXT = 2
"""Lines that are alike, around what differs."""

_NUMBERED = re.compile(r"([%#])[A-Za-z_]*[\w.]*")
"""Names of values and of maps: each module numbers its own."""


def side_by_side(before: str, after: str, width: int) -> str:
    """Both in columns that take ``width`` characters, cut at the end: lines that differ, and some around them. Names
    of values count for nothing. Between the columns ``<`` is a line that is gone, ``>`` a new one, ``|`` another one.
    Where nothing differs it says so.
    """
    left, right = before.splitlines(), after.splitlines()
    column = max((width - 3) // 2, 20)
    rows = list(_rows(left, right))
    if not any(mark.strip() for _, mark, _ in rows):
        return "(nothing differs)"
    return "\n".join(f"{_cut(a, column):{column}} {mark} {_cut(b, column)}".rstrip() for a, mark, b in rows)


def _rows(left: list[str], right: list[str]) -> Iterator[tuple[str, str, str]]:
    """(line before, mark, line after); a row of dots where lines are left out."""
    matcher = SequenceMatcher(None, [_plain(one) for one in left], [_plain(one) for one in right])
    end = 0
    for group in matcher.get_grouped_opcodes(CONTEXT):
        if group[0][1] > end:
            yield "...", " ", "..."
        for kind, i, j, k, m in group:
            mark = " " if kind == "equal" else "|"
            for a, b in zip_longest(left[i:j], right[k:m]):
                yield a or "", "<" if b is None else ">" if a is None else mark, b or ""
        end = group[-1][2]
    if end < len(left):
        yield "...", " ", "..."


def _plain(line: str) -> str:
    return _NUMBERED.sub(r"\1", line)


def _cut(line: str, width: int) -> str:
    return line if len(line) <= width else line[: width - 1] + "…"
