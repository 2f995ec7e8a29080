"""SVG documents: rectangles, lines, text. No package is needed to write them, any browser shows them.

Colours are Okabe and Ito's, which people with any colour vision tell apart; what matters also differs by pattern or
label.
"""

from __future__ import annotations

from html import escape

BLUE, GREEN, ORANGE, RED, PURPLE = "#0072B2", "#009E73", "#E69F00", "#D55E00", "#CC79A7"
INK, GREY, LIGHT, PAPER = "#222222", "#6b6b6b", "#dddddd", "#ffffff"

PALETTE = ("#9ad0f3", "#ffd37f", "#8fd9b6", "#f5b7d2", "#f4ee8f", "#f2a679", "#8fb8de", "#d9d9d9")
"""Eight light fills on which dark text reads well."""


class Svg:
    """A picture of ``width`` x ``height`` pixels; coordinates are pixels from its top left."""

    def __init__(self, width: float, height: float, title: str) -> None:
        self.width, self.height = width, height
        self._title = title
        self._defs: list[str] = []
        self._body: list[str] = []

    def rect(
        self, x: float, y: float, width: float, height: float, fill: str, *,
        stroke: str = "none", tip: str = "", radius: float = 2, line: float = 1,
    ) -> None:  # fmt: skip
        """``tip``: what a browser shows under the pointer."""
        shape = (
            f'<rect x="{_n(x)}" y="{_n(y)}" width="{_n(width)}" height="{_n(height)}" rx="{_n(radius)}" '
            f'fill="{fill}" stroke="{stroke}" stroke-width="{_n(line)}"'
        )
        self._body.append(f"{shape}><title>{escape(tip)}</title></rect>" if tip else f"{shape}/>")

    def line(self, x1: float, y1: float, x2: float, y2: float, colour: str = LIGHT, width: float = 1) -> None:
        self._body.append(
            f'<line x1="{_n(x1)}" y1="{_n(y1)}" x2="{_n(x2)}" y2="{_n(y2)}" stroke="{colour}" '
            f'stroke-width="{_n(width)}"/>'
        )

    def text(
        self, x: float, y: float, text: str, *, size: float = 12, colour: str = INK, anchor: str = "start",
        bold: bool = False, mono: bool = False,
    ) -> None:  # fmt: skip
        """``y``: of the baseline. ``anchor``: start, middle or end."""
        weight = ' font-weight="600"' if bold else ""
        family = ' font-family="ui-monospace, Menlo, Consolas, DejaVu Sans Mono, monospace"' if mono else ""
        self._body.append(
            f'<text x="{_n(x)}" y="{_n(y)}" font-size="{_n(size)}" fill="{colour}" text-anchor="{anchor}"'
            f"{weight}{family}>{escape(text)}</text>"
        )

    def hatch(self, name: str, colour: str, background: str) -> str:
        """A fill of diagonal lines."""
        self._defs.append(
            f'<pattern id="{name}" width="6" height="6" patternUnits="userSpaceOnUse" patternTransform="rotate(45)">'
            f'<rect width="6" height="6" fill="{background}"/><rect width="2" height="6" fill="{colour}"/></pattern>'
        )
        return f"url(#{name})"

    def legend(self, x: float, y: float, entries: list[tuple[str, str, str]]) -> None:
        """(fill, stroke, words) side by side, the baseline at ``y``."""
        for fill, stroke, words in entries:
            self.rect(x, y - 11, 20, 13, fill, stroke=stroke)
            self.text(x + 26, y, words)
            x += 26 + text_width(words) + 22

    def __str__(self) -> str:
        w, h = _n(self.width), _n(self.height)
        return "\n".join(
            [
                f'<svg xmlns="http://www.w3.org/2000/svg" width="{w}" height="{h}" viewBox="0 0 {w} {h}" '
                'font-family="system-ui, Segoe UI, Helvetica, Arial, DejaVu Sans, sans-serif" role="img">',
                f"<title>{escape(self._title)}</title>",
                f"<defs>{''.join(self._defs)}</defs>",
                f'<rect width="{w}" height="{h}" fill="{PAPER}"/>',
                *self._body,
                "</svg>",
                "",
            ]
        )


def text_width(text: str, size: float = 12) -> float:
    """About how wide a text is, in pixels."""
    return 0.57 * size * len(text)


def _n(x: float) -> str:
    """A number without needless digits."""
    return f"{x:.2f}".rstrip("0").rstrip(".")
