"""Self-contained HTML pages: style, script and data in one file, which any browser opens without a server.

The parts are in ``nvdsl/layout/draw/pages``: ``style.css`` for all pages, and for each page its body and its script.
The script finds what Python computed in the element ``data``, as JSON.
"""

from __future__ import annotations

import json
from html import escape
from pathlib import Path
from typing import Any

from nvdsl.layout.draw.svg import BLUE, GREEN, ORANGE, PALETTE, PURPLE, RED

_PARTS = Path(__file__).parent / "pages"


def html(name: str, title: str, data: dict[str, Any]) -> str:
    """The page ``name`` ("slots", "swizzle") with its ``data``."""
    style, body, script = ((_PARTS / part).read_text("utf-8") for part in ("style.css", f"{name}.html", f"{name}.js"))
    known = json.dumps(data, separators=(",", ":")).replace("</", "<\\/")  # no end tag inside the script element
    colours = {"blue": BLUE, "green": GREEN, "orange": ORANGE, "red": RED, "purple": PURPLE}
    colours |= {f"unit{i}": colour for i, colour in enumerate(PALETTE)}
    variables = "".join(f"--{key}:{value};" for key, value in colours.items())
    return "\n".join(
        [
            "<!doctype html>",
            '<html lang="en"><head><meta charset="utf-8">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            '<meta name="color-scheme" content="light dark">',
            f"<title>{escape(title)}</title>",
            f"<style>:root{{{variables}}}\n{style}</style></head><body>",
            body,
            f'<script type="application/json" id="data">{known}</script>',
            f"<script>\n{script}</script>",
            "</body></html>",
            "",
        ]
    )
