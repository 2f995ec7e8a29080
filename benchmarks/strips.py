"""A plot of many ratios: a line for each kind of problem, a mark for each problem."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from benchmarks.charts import BETTER, RIGHT, WIDTH
from nvdsl.layout.draw.svg import BLUE, GREEN, GREY, INK, ORANGE, Svg

LINE, TOP, LEFT = 26, 60, 250
LEAST, MOST = 0.5, 3.0
"""Ratios that are shown where they are; others stand at the edge."""


def strips(title: str, rows: Sequence[dict[str, Any]]) -> Svg:
    """``rows``: of `bench_kinds`. Above 1 nvdsl is faster; the long mark is the geometric mean."""
    groups: dict[str, list[dict[str, Any]]] = {}
    for r in rows:
        if "ratio" in r:
            groups.setdefault(f"{r['set']}, {r['kind']}", []).append(r)
    bottom = TOP + LINE * len(groups)
    picture = Svg(WIDTH, bottom + 40, title)
    picture.text(12, 28, title, size=17, bold=True)

    def x(ratio: float) -> float:
        at = math.log(min(max(ratio, LEAST), MOST) / LEAST) / math.log(MOST / LEAST)
        return LEFT + at * (WIDTH - RIGHT - LEFT)

    picture.rect(x(1.0), TOP, WIDTH - RIGHT - x(1.0), bottom - TOP, BETTER, radius=0)
    for tick in (0.5, 0.7, 0.9, 1.0, 1.2, 1.5, 2.0, 3.0):
        picture.line(x(tick), TOP, x(tick), bottom, INK if tick == 1.0 else "#dddddd", 1.5 if tick == 1.0 else 1)
        picture.text(x(tick), bottom + 16, f"{tick:g}", anchor="middle", colour=GREY)
    for i, (name, mine) in enumerate(groups.items()):
        y = TOP + LINE * i
        mean = math.exp(sum(math.log(r["ratio"]) for r in mine) / len(mine))
        picture.text(12, y + 17, f"{name}: {mean:.3f}")
        for r in mine:
            picture.line(x(r["ratio"]), y + 8, x(r["ratio"]), y + 18, GREEN if r["ratio"] >= 1 else ORANGE, 1.5)
        picture.line(x(mean), y + 4, x(mean), y + 22, BLUE, 3)
    return picture
