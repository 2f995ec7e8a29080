"""Plots of results as SVG: ratios to cuBLAS and TFLOPS over sizes, and bars."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from benchmarks.problems import Workload
from nvdsl.layout.draw.svg import BLUE, GREEN, GREY, INK, ORANGE, RED, Svg, text_width

COLOURS = (BLUE, ORANGE, GREEN, RED, "#56B4E9", "#CC79A7", "#8C6D31", "#5B4E9F", "#222222")
WIDTH, LEFT, RIGHT = 920, 70, 24
PANEL = 250
BETTER = "#eef7ee"
"""Behind the part of a plot where nvdsl is the faster one."""

Row = dict[str, Any]
Points = list[tuple[float, float]]


def sweep(title: str, rows: Sequence[Row]) -> Svg:
    """The result of one set: over n for squares, over M for few rows, else a bar for each problem."""
    timed = [r for r in rows if "ratio" in r]
    if all(r["m"] == r["n"] == r["k"] for r in timed):
        return over_sizes(title, "n = M = N = K", timed, lambda r: r["kind"].removesuffix("."))
    if len({(r["n"], r["k"]) for r in timed}) < len(timed) / 3:
        return over_sizes(title, "M", timed, lambda r: f"N {r['n']}, K {r['k']}", memory=True)
    return bars(
        title, [(r["size"], r["ratio"], f"{r['tflops']:.0f} TFLOPS, cuBLAS {r['library_tflops']:.0f}") for r in timed]
    )


def over_sizes(
    title: str,
    what: str,
    rows: Sequence[Row],
    name: Callable[[Row], str],
    memory: bool = False,
    band: tuple[float, float, str] | None = None,
) -> Svg:
    """Two panels: the ratio with its middle 80 %, and TFLOPS of both (cuBLAS dashed), or with ``memory`` TB/s: the
    bytes of A, B and the result over the time. ``band``: other ratios, from, to, and whose they are."""
    picture = Svg(WIDTH, 2 * PANEL + 190, title)
    picture.text(LEFT, 28, title, size=17, bold=True)
    groups: dict[str, list[Row]] = {}
    for r in sorted(rows, key=lambda r: r["m"]):
        groups.setdefault(name(r), []).append(r)
    _legend(picture, list(groups), 52)
    if not rows:
        picture.text(LEFT, 120, "nothing was timed")
        return picture
    xs = [r["m"] for r in rows]
    across = _Across(min(xs), max(xs), log=max(xs) / min(xs) > 20)
    ratios = [r[key] for r in rows for key in ("ratio", "ratio_low", "ratio_high")]
    ratios += band[:2] if band else ()
    low, high = _around(min(*ratios, 0.95), max(*ratios, 1.05), 0.05)
    ratio = _Panel(picture, 80, across, low, high, "cuBLAS's time / nvdsl's (above 1: nvdsl is faster)")
    ratio.better(1.0)
    if band:
        ratio.band(*band)
    speeds = {(r["m"], name(r)): _speeds(r, memory) for r in rows}
    fastest = max(max(pair) for pair in speeds.values())
    unit = "TB/s (A, B and the result once each)" if memory else "TFLOPS"
    speed = _Panel(picture, 80 + PANEL + 60, across, 0, _around(0, fastest, _step(fastest))[1], unit)
    for colour, mine in zip(_cycle(len(groups)), groups.values(), strict=True):
        for r in mine:
            ratio.span(r["m"], r["ratio_low"], r["ratio_high"], colour)
        ratio.curve([(r["m"], r["ratio"]) for r in mine], colour, [_tip(r) for r in mine])
        speed.curve(
            [(r["m"], speeds[r["m"], name(r)][1]) for r in mine], colour if len(groups) > 1 else GREY, dashed=True
        )
        speed.curve([(r["m"], speeds[r["m"], name(r)][0]) for r in mine], colour, [_tip(r) for r in mine])
    ratio.frame(what)
    speed.frame(what)
    mean = math.exp(sum(math.log(r["ratio"]) for r in rows) / len(rows))
    picture.text(WIDTH - RIGHT, 72, f"geometric mean of all {mean:.3f}", anchor="end", bold=True)
    return picture


def bars(
    title: str, entries: Sequence[tuple[str, float, str]], what: str = "ratio to cuBLAS (above 1: nvdsl is faster)",
    one: str = "cuBLAS",
) -> Svg:  # fmt: skip
    """Horizontal bars, (name, ratio, words), from 0; the line at 1 is ``one``."""
    row, top = 26, 70
    left = 30 + max([text_width(name) for name, _, _ in entries], default=0)
    room = 30 + max([text_width(words) for _, _, words in entries], default=0)
    picture = Svg(WIDTH, top + row * len(entries) + 40, title)
    picture.text(20, 28, title, size=17, bold=True)
    picture.text(20, 50, what, colour=GREY)
    scale = (WIDTH - left - room - 60) / max([1.05, *(ratio for _, ratio, _ in entries)])
    for i, (name, ratio, words) in enumerate(entries):
        y = top + i * row
        picture.text(left - 8, y + 15, name, anchor="end")
        picture.rect(left, y + 3, max(1.0, ratio * scale), row - 8, BLUE if ratio >= 1 else "#9ad0f3", tip=words)
        picture.text(left + max(ratio, 1.0 if ratio > 0.6 else ratio) * scale + 8, y + 16, f"{ratio:.3f}   {words}")
    picture.line(left + scale, top - 6, left + scale, top + row * len(entries), INK, 1.5)
    picture.text(left + scale, top + row * len(entries) + 18, one, anchor="middle", colour=GREY)
    return picture


def seconds(title: str, rows: Sequence[Row]) -> Svg:
    """Stacked bars: import, then the first call; ``rows`` of `bench_compile`."""
    picture = Svg(WIDTH, 90 + 30 * len(rows), title)
    picture.text(20, 28, title, size=17, bold=True)
    picture.legend(20, 52, [(GREY, "none", "import"), (BLUE, "none", "first call, until its result is there")])
    scale = (WIDTH - 330) / max([1e-9, *(r["import_s"] + r["first_call_s"] for r in rows)])
    for i, r in enumerate(rows):
        y, x = 70 + 30 * i, 160.0
        picture.text(x - 8, y + 15, f"{r['what']}, {r['cache']}", anchor="end")
        for key, colour in (("import_s", GREY), ("first_call_s", BLUE)):
            picture.rect(x, y, r[key] * scale, 20, colour, tip=f"{r[key]:.3f} s")
            x += r[key] * scale
        picture.text(x + 8, y + 15, f"{r['import_s']:.2f} + {r['first_call_s']:.2f} s")
    return picture


def bounds(title: str, curves: Sequence[tuple[str, Sequence[Row]]]) -> Svg:
    """Three panels over n, of curves (name, rows of `bench_bound`): the ratio in turn with cuBLAS, the ratio alone, and
    the SM clock alone."""
    picture = Svg(WIDTH, 3 * PANEL + 250, title)
    picture.text(LEFT, 28, title, size=17, bold=True)
    picture.legend(LEFT, 52, [(c, "none", name) for c, (name, _) in zip(_cycle(len(curves)), curves, strict=True)])
    timed = [r for _, rows in curves for r in rows]
    if not timed:
        picture.text(LEFT, 120, "nothing was timed")
        return picture
    across = _Across(min(r["n"] for r in timed), max(r["n"] for r in timed), log=True)
    ratios = [r[key] for r in timed for key in ("ratio", "alone_ratio")]
    range_ = _around(min(*ratios, 0.95), max(ratios), 0.05)
    turns = _Panel(picture, 80, across, *range_, "calls in turn: cuBLAS's time / nvdsl's")
    alone = _Panel(picture, 80 + PANEL + 60, across, *range_, "alone, call after call: cuBLAS's time / nvdsl's")
    highest = timed[0]["highest_ghz"]
    clocks = _around(min(r["alone_ghz"] for r in timed), highest, 0.1)
    clock = _Panel(picture, 80 + 2 * (PANEL + 60), across, *clocks, f"alone: SM clock, GHz (at most {highest:.2f})")
    for panel in (turns, alone):
        panel.better(1.0)
    for colour, (name, rows) in zip(_cycle(len(curves)), curves, strict=True):
        for panel, key in ((turns, "ratio"), (alone, "alone_ratio"), (clock, "alone_ghz")):
            tips = [f"{name}, {r['n']}: {r[key]:.3f}; {r['alone_tflops']:.0f} TFLOPS alone" for r in rows]
            panel.curve([(r["n"], r[key]) for r in rows], colour, tips)
    for panel in (turns, alone, clock):
        panel.frame("n = M = N = K")
    return picture


def over_columns(title: str, rows: Sequence[Row]) -> Svg:
    """Two panels over the columns of a row, of `bench_rows`: the part of a copy's bandwidth, and the speed over QuACK's
    where that was timed."""
    panels = [("ratio_to_copy", "GB/s / those of a copy"), ("ratio_to_quack", "nvdsl's speed / QuACK's")]
    panels = [(key, what) for key, what in panels if any(key in r for r in rows)]
    picture = Svg(WIDTH, len(panels) * (PANEL + 60) + 90, title)
    picture.text(LEFT, 28, title, size=17, bold=True)
    names = list(dict.fromkeys(r["kernel"] for r in rows))
    colours = dict(zip(names, _cycle(len(names)), strict=True))
    picture.legend(LEFT, 52, [(colour, "none", name) for name, colour in colours.items()])
    columns = [r["columns"] for r in rows]
    across = _Across(min(columns), max(columns), log=True)
    for i, (key, what) in enumerate(panels):
        values = [r[key] for r in rows if key in r]
        low, high = _around(min(*values, 0.95), max(*values, 1.05), 0.05)
        panel = _Panel(picture, 90 + i * (PANEL + 60), across, low, high, what)
        panel.better(1.0)
        for name, colour in colours.items():
            points = sorted((r["columns"], r[key]) for r in rows if r["kernel"] == name and key in r)
            panel.curve(points, colour, [f"{name}, {x} columns: {y:.3f}" for x, y in points])
        panel.frame("columns")
    return picture


class _Across:
    """From sizes to pixels; ``log``: equal steps are equal ratios."""

    def __init__(self, low: float, high: float, log: bool) -> None:
        self._f: Callable[[float], float] = math.log2 if log else float
        self.log, self.low, self.high = log, low, high
        self._first, self._width = self._f(low), max(self._f(high) - self._f(low), 1e-9)

    def __call__(self, x: float) -> float:
        return LEFT + 12 + (self._f(x) - self._first) / self._width * (WIDTH - LEFT - RIGHT - 24)

    def ticks(self) -> list[int]:
        if self.log:
            return [2**e for e in range(math.ceil(math.log2(self.low)), math.floor(math.log2(self.high)) + 1)]
        step = next((s for s in (1, 16, 256, 512, 1024, 2048, 4096) if (self.high - self.low) / s <= 16), 8192)
        return list(range(math.ceil(self.low / step) * step, math.floor(self.high) + 1, step))


class _Panel:
    """One pair of axes; ``top``: its upper edge."""

    def __init__(self, picture: Svg, top: float, across: _Across, low: float, high: float, title: str) -> None:
        self._picture, self._top, self._across = picture, top, across
        self._low, self._high = low, high
        picture.text(LEFT, top - 8, title, colour=GREY)
        for value in _ticks(low, high):
            picture.line(LEFT, self._y(value), WIDTH - RIGHT, self._y(value))
            picture.text(LEFT - 8, self._y(value) + 4, f"{value:g}", anchor="end", colour=GREY)

    def _y(self, value: float) -> float:
        return self._top + (self._high - value) / (self._high - self._low) * PANEL

    def better(self, value: float) -> None:
        """Mark all above ``value``, and draw its line."""
        self._picture.rect(LEFT, self._top, WIDTH - LEFT - RIGHT, self._y(value) - self._top, BETTER, radius=0)
        for tick in _ticks(self._low, self._high):
            self._picture.line(LEFT, self._y(tick), WIDTH - RIGHT, self._y(tick))
        self._picture.line(LEFT, self._y(value), WIDTH - RIGHT, self._y(value), INK, 1.5)

    def band(self, low: float, high: float, words: str) -> None:
        """Between two dashed lines: the range of others."""
        for value in (low, high):
            self.curve([(self._across.low, value), (self._across.high, value)], GREY, dashed=True)
        self._picture.text(WIDTH - RIGHT - 8, self._y(high) + 14, words, anchor="end", colour=GREY, size=11)

    def span(self, x: float, low: float, high: float, colour: str) -> None:
        self._picture.line(self._across(x), self._y(low), self._across(x), self._y(high), colour, 0.7)

    def curve(self, points: Points, colour: str, tips: Sequence[str] = (), dashed: bool = False) -> None:
        places = [(self._across(x), self._y(y)) for x, y in points]
        for (x1, y1), (x2, y2) in zip(places, places[1:], strict=False):
            for a, b in _dashes(math.hypot(x2 - x1, y2 - y1)) if dashed else [(0.0, 1.0)]:
                self._picture.line(
                    x1 + a * (x2 - x1), y1 + a * (y2 - y1), x1 + b * (x2 - x1), y1 + b * (y2 - y1), colour, 1.8
                )
        for (x, y), tip in zip(places, tips, strict=False):
            self._picture.rect(x - 3, y - 3, 6, 6, colour, tip=tip, radius=3)

    def frame(self, what: str) -> None:
        """The axis of sizes; drawn last, over the curves."""
        bottom = self._top + PANEL
        self._picture.line(LEFT, bottom, WIDTH - RIGHT, bottom, INK)
        for tick in self._across.ticks():
            x = self._across(tick)
            self._picture.line(x, bottom, x, bottom + 5, INK)
            self._picture.text(x, bottom + 18, str(tick), anchor="middle", size=11, colour=GREY)
        self._picture.text(WIDTH - RIGHT, bottom + 34, what, anchor="end", colour=GREY)


def _legend(picture: Svg, names: list[str], y: float) -> None:
    if len(names) == 1:
        picture.legend(LEFT, y, [(COLOURS[0], "none", "nvdsl"), (GREY, "none", "cuBLAS (dashed)")])
        return
    rows: list[list[tuple[str, str, str]]] = [[]]
    for colour, name in zip(_cycle(len(names)), [*names], strict=True):
        if sum(48 + text_width(one) for *_, one in rows[-1]) + 48 + text_width(name) > WIDTH - LEFT - RIGHT:
            rows.append([])
        rows[-1].append((colour, "none", name))
    for number, row in enumerate(rows):
        picture.legend(LEFT, y + 16 * (number + 1 - len(rows)) + 6 * (len(rows) > 1), row)
    last = rows[-1]
    at = LEFT + sum(48 + text_width(name) for *_, name in last)
    picture.text(at, y + 6 * (len(rows) > 1), "(cuBLAS dashed)", colour=GREY)


def _speeds(r: Row, memory: bool) -> tuple[float, float]:
    """Of nvdsl and of cuBLAS: TFLOPS, or TB/s."""
    if not memory:
        return r["tflops"], r["library_tflops"]
    moved = Workload(*(r[name] for name in ("m", "n", "k", "dtype", "acc", "out"))).bytes
    return moved / r["ms"] / 1e9, moved / r["library_ms"] / 1e9


def _tip(r: Row) -> str:
    return (
        f"{r['kind']} {r['size']}: {r['tflops']:.0f} TFLOPS, cuBLAS {r['library_tflops']:.0f}, ratio {r['ratio']:.3f}"
    )


def _cycle(count: int) -> list[str]:
    return [COLOURS[i % len(COLOURS)] for i in range(count)]


def _dashes(length: float, dash: float = 5.0) -> list[tuple[float, float]]:
    """Parts of a line that are drawn, as fractions of it."""
    count = max(1, round(length / (2 * dash)))
    return [(i / count, (i + 0.55) / count) for i in range(count)]


def _around(low: float, high: float, step: float) -> tuple[float, float]:
    """Multiples of ``step`` that enclose both."""
    return math.floor(low / step + 1e-9) * step, math.ceil(high / step - 1e-9) * step


def _step(span: float) -> float:
    """A round number about a fifth of ``span``."""
    power = 10.0 ** math.floor(math.log10(span / 5))
    return next(m * power for m in (1, 2, 2.5, 5, 10) if m * power >= span / 5)


def _ticks(low: float, high: float) -> list[float]:
    step = _step(high - low)
    first = math.ceil(low / step - 1e-9)
    return [round((first + i) * step, 10) for i in range(int((high - low) / step + 1e-6) + 1)]
