"""The axis of a picture over logical time: the steps of a recording, from left to right."""

from __future__ import annotations

from nvdsl.layout.draw.svg import GREY, Svg

WIDTH, RIGHT = 1160, 24

NOTE = "Logical time: a step is an operation of a warp, no nanoseconds."


class Axis:
    """Steps to pixels. ``left``: where step 0 is; ``end``: the last step."""

    def __init__(self, end: int, left: float) -> None:
        self.end, self.left = max(end, 1), left
        self.scale = (WIDTH - left - RIGHT) / self.end

    def x(self, step: float) -> float:
        return self.left + min(step, self.end) * self.scale

    def ticks(self) -> list[int]:
        """Some ten round numbers."""
        distance = next(d for d in (5 * 10**i // 5 * f for i in range(9) for f in (1, 2, 5)) if self.end / d <= 14)
        return list(range(0, self.end + 1, distance))

    def draw(self, svg: Svg, top: float, bottom: float) -> None:
        """Lines at the ticks, their numbers below ``bottom``, and the unit."""
        for tick in self.ticks():
            svg.line(self.x(tick), top - 4, self.x(tick), bottom)
            svg.text(self.x(tick), bottom + 16, str(tick), anchor="middle", size=11, colour=GREY)
        svg.text(self.x(self.end / 2), bottom + 36, "steps", anchor="middle", colour=GREY)


def label(svg: Svg, left: float, right: float, middle: float, words: list[str], colour: str) -> None:
    """The first of ``words`` that fits between ``left`` and ``right``; none where none does."""
    for text in words:
        if right - left > 6.6 * len(text) + 4:
            svg.text((left + right) / 2, middle + 4, text, size=11, anchor="middle", colour=colour)
            return
