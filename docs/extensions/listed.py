"""Which public names the pages of the reference show. A test compares them with what is exported."""

from __future__ import annotations

import re

BLOCK = re.compile(r"```\{public\}[ \t]*(?P<module>\S*)\n(?P<body>.*?)```", re.DOTALL)


def listed(page: str) -> list[tuple[str, str]]:
    """(module, name) of all that a page's source shows."""
    found = []
    for block in BLOCK.finditer(page):
        words = " ".join(line for line in block["body"].splitlines() if not line.startswith(":")).split()
        found += [(block["module"], word) for word in words]
    return found
