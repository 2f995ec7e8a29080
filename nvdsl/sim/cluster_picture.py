"""The TMA loads of a cluster's blocks, as SVG: who asks for them, and into whose shared memory they go."""

from __future__ import annotations

from nvdsl.errors import SimError
from nvdsl.errors.records import dataclass
from nvdsl.layout.draw.svg import GREY, INK, LIGHT, PALETTE, PAPER, Svg
from nvdsl.sim.recording import LaunchRecord, Recording, Span

MOST = 8
"""Loads of each block that a picture shows: the first ones."""

BOX, GAP, LEFT, TOP, ROW = 330, 60, 24, 92, 30


@dataclass(frozen=True)
class Load:
    """One TMA load. ``issuer``: the index of the block that asked for it. ``landed``: its copy in each target block."""

    issuer: int
    landed: dict[int, Span]

    @property
    def bytes(self) -> int:
        return next(iter(self.landed.values())).args["bytes"]


def loads(launch: LaunchRecord) -> list[Load]:
    """The loads of a launch's recorded blocks, in the order in which they were issued."""
    issuer = {id(span): i for i, block in enumerate(launch.blocks) for span in block.spans if span.kind == "op"}
    landed: dict[int, dict[int, Span]] = {}
    for i, block in enumerate(launch.blocks):
        for span in block.spans:
            if span.kind == "load" and span.cause is not None:
                landed.setdefault(id(span.cause), {})[i] = span
    found = [Load(issuer[cause], where) for cause, where in landed.items()]
    return sorted(found, key=lambda load: min(span.start for span in load.landed.values()))


def picture(recording: Recording, launch: int = 0) -> str:
    """The SVG of the first cluster whose blocks load for each other. Raises SimError where there is none."""
    for candidate in recording.launches[launch:]:
        found = loads(candidate)
        shared = next((load for load in found if len(load.landed) > 1), None)
        if shared is not None:
            return str(_draw(candidate, sorted(shared.landed), found))
    raise SimError("there is no cluster to draw: no load went to several blocks (multicast_mask)", kind="picture")


def _draw(launch: LaunchRecord, blocks: list[int], found: list[Load]) -> Svg:
    mine = {i: [load for load in found if load.issuer == i][:MOST] for i in blocks}
    rows = [load for i in blocks for load in mine[i]]
    colours = {i: PALETTE[n % len(PALETTE)] for n, i in enumerate(blocks)}
    shown = {i: [load for load in rows if i in load.landed] for i in blocks}
    deep = max(len(v) for v in shown.values())
    width = LEFT * 2 + len(blocks) * BOX + (len(blocks) - 1) * GAP
    asks = 28 + 18 * max(len(v) for v in mine.values())
    height = TOP + asks + 70 + 34 + ROW * deep + 28
    title = f"{launch.kernel}: loads of a cluster of {len(blocks)} blocks"
    svg = Svg(max(width, 640), height, title)
    svg.text(16, 28, title, size=17, bold=True)
    svg.text(16, 48, f"Simulated. The first {MOST} loads of each block at most; the colour is the block that asks.",
             colour=GREY)  # fmt: skip
    svg.legend(16, 74, [(colours[i], GREY, f"asked for by {launch.blocks[i].name}") for i in blocks])
    left = {i: LEFT + n * (BOX + GAP) for n, i in enumerate(blocks)}
    lower = TOP + asks + 70
    for i in blocks:
        for target in sorted({target for load in mine[i] for target in load.landed}):
            svg.line(left[i] + BOX / 2, TOP + asks, left[target] + BOX / 2, lower, GREY, 1.5)
            _arrow_head(svg, left[i] + BOX / 2, TOP + asks, left[target] + BOX / 2, lower)
    for i in blocks:
        name = launch.blocks[i].name
        svg.rect(left[i], TOP, BOX, asks, colours[i], stroke=GREY)
        svg.text(left[i] + 10, TOP + 18, f"{name} asks TMA", bold=True)
        for n, load in enumerate(mine[i]):
            to = " and ".join(launch.blocks[t].name for t in sorted(load.landed))
            words = f"load {_number(rows, load)}: {load.bytes:,} bytes, for {to}"
            svg.text(left[i] + 10, TOP + 36 + 18 * n, words, size=11)
        svg.rect(left[i], lower, BOX, 34 + ROW * deep + 8, PAPER, stroke=GREY)
        svg.text(left[i] + 10, lower + 20, f"shared memory of {name}", bold=True)
        for n, load in enumerate(sorted(shown[i], key=lambda load: load.landed[i].args["to"])):
            span = load.landed[i]
            y = lower + 34 + ROW * n
            svg.rect(left[i] + 8, y, BOX - 16, ROW - 4, colours[load.issuer], stroke=LIGHT)
            words = f"load {_number(rows, load)}: byte {span.args['to']:,}, completes on {span.args['mbarrier']}"
            svg.text(left[i] + 16, y + 17, words, size=11, colour=INK)
    return svg


def _number(rows: list[Load], load: Load) -> int:
    return next(n for n, one in enumerate(rows) if one is load)


def _arrow_head(svg: Svg, x1: float, y1: float, x2: float, y2: float) -> None:
    """Two short strokes at the end of a line."""
    length = ((x2 - x1) ** 2 + (y2 - y1) ** 2) ** 0.5
    ux, uy = (x2 - x1) / length, (y2 - y1) / length
    for side in (-1, 1):
        svg.line(x2, y2, x2 - 9 * ux + side * 4 * uy, y2 - 9 * uy - side * 4 * ux, GREY, 1.5)
