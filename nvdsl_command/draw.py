"""``nvdsl draw``: layouts as SVG, as a page, or as text in the terminal; what a simulated script did, as SVG."""

from __future__ import annotations

import contextlib
import io
import os
import re
import sys
from argparse import Namespace
from pathlib import Path
from typing import Any

from nvdsl import layout
from nvdsl.errors import LayoutError, SimError
from nvdsl.layout.draw import fragment, swizzle
from nvdsl.layout.draw import layout as grid
from nvdsl_command import script
from nvdsl_command.arguments import PICTURES, SVG, Refused, check_file


def run(chosen: Namespace) -> int:
    if chosen.out:
        check_file(chosen.out, PICTURES if chosen.kind == "swizzle" else SVG)
    if chosen.kind in ("phases", "cluster"):
        _write(chosen, _simulated(chosen))
        return 0
    drawing: Any = {"swizzle": _swizzle, "fragment": _fragment, "layout": _layout}[chosen.kind](chosen)
    if not chosen.text:
        _write(chosen, _document(chosen, drawing))
    elif chosen.out:
        raise Refused("--text prints in the terminal; --out is for a file: give one of them")
    else:
        _print(drawing)
    return 0


def _write(chosen: Namespace, document: str) -> None:
    if not chosen.out:
        sys.stdout.write(document)
        return
    Path(chosen.out).write_text(document, encoding="utf-8")


def _simulated(chosen: Namespace) -> str:
    """The picture of the script's first launch that has one. The script's output is dropped; its error is said."""
    from nvdsl import sim
    from nvdsl.sim import cluster_picture, phase_picture

    os.environ["NVDSL_TARGET"] = "sim"
    with sim.record() as recording, contextlib.redirect_stdout(io.StringIO()):
        outcome = script.run(chosen.script, chosen.arguments)
    if outcome.report:
        print(f"nvdsl: the script stopped at {outcome.report}", file=sys.stderr)
    try:
        return (phase_picture if chosen.kind == "phases" else cluster_picture).picture(recording)
    except SimError as error:
        raise Refused(f"{chosen.script}: {error.message}") from None


def _document(chosen: Namespace, drawing: Any) -> str:
    return drawing.html() if Path(chosen.out or "").suffix.lower() == ".html" else drawing.svg()


def _print(drawing: Any) -> None:
    from rich.console import Console

    console = Console(highlight=False)
    with console.capture() as printed:  # rich would end the process where the reader has gone
        for line in drawing.text():
            console.print(line, soft_wrap=True)
    sys.stdout.write(printed.get())


def _swizzle(chosen: Namespace) -> swizzle.Drawing:
    rows, cols = _size("--shape", chosen.shape)
    try:
        tile = layout.TileLayout.of(rows, cols, swizzle.BYTES[chosen.dtype], chosen.swizzle)
    except ValueError as error:
        raise Refused(str(error)) from None
    if not 0 < tile.bytes <= swizzle.MOST or tile.bytes % 16:
        raise Refused(f"{rows}x{cols} {chosen.dtype} are {tile.bytes:,} bytes: a picture holds multiples of 16 up to "
                      f"{swizzle.MOST:,}")  # fmt: skip
    if cols * tile.itemsize % 16:
        raise Refused(f"a row of {cols} {chosen.dtype} is {cols * tile.itemsize} bytes, no multiple of 16")
    return swizzle.Drawing(tile, chosen.dtype)


def _fragment(chosen: Namespace) -> fragment.Drawing:
    dtype = chosen.dtype or ("f32" if chosen.operand == "d" else "f16")
    if chosen.operand == "a":
        if dtype in ("f32", "i32"):
            raise Refused(f"A has no {dtype} elements: f16, bf16, tf32, e4m3, e5m2, i8 or u8")
        return fragment.a(dtype, swizzle.BYTES[dtype])
    if dtype not in ("f32", "f16", "i32"):
        raise Refused(f"an accumulator is f32, f16 or i32, not {dtype}")
    if chosen.n % 8 or not 8 <= chosen.n <= 256:
        raise Refused(f"--n {chosen.n}: wgmma has multiples of 8 from 8 to 256")
    return fragment.accumulator(chosen.n, dtype)


def _layout(chosen: Namespace) -> grid.Drawing:
    drawn = _named(chosen.layout)
    if chosen.tile:
        size = _size("--tile", chosen.tile)
        if drawn.is_coordinates or drawn.has_bits:
            raise Refused(f"--tile is for a thread-value layout that counts through a tile; {drawn} does not")
        if drawn.cosize > size[0] * size[1]:
            raise Refused(f"{drawn} counts to {drawn.cosize - 1}, beyond a tile of {chosen.tile}")
        try:
            drawn = layout.composition(layout.identity(*size), drawn)
        except LayoutError as error:
            raise Refused(f"{error.message}: is {chosen.tile} its tile?") from None
    if not drawn.size <= grid.MOST:
        raise Refused(f"{drawn} has {drawn.size:,} elements: a picture holds {grid.MOST:,}")
    if drawn.is_coordinates:
        if drawn.axes != 2 or chosen.banks:
            raise Refused(f"{drawn} gives coordinates of {drawn.axes} axes: a picture has two, and no banks")
        corner = [max(drawn(i)[axis] for i in range(drawn.size)) + 1 for axis in (0, 1)]
        if min(drawn(i)[axis] for i in range(drawn.size) for axis in (0, 1)) < 0 or corner[0] * corner[1] > grid.MOST:
            raise Refused(f"{drawn} reaches over {corner[0]}x{corner[1]}: a picture holds {grid.MOST:,} from (0, 0) on")
        return grid.owners(drawn, chosen.colour)
    if min(drawn(i) for i in range(drawn.size)) < 0:
        raise Refused(f"{drawn} has negative addresses")
    return grid.addresses(drawn, chosen.banks)


def _named(text: str) -> layout.Layout:
    """A layout by its notation, or one of Hopper's by its name: wgmma_accumulator(64)."""
    call = re.fullmatch(r"(\w+?)(?:\((\d*)\))?", text)
    if call is None or text.isdigit():
        try:
            return layout.parse(text)
        except LayoutError as error:
            raise Refused(f"{error.message}; {error.rule}: {error.fix}") from None
    named = getattr(layout, call[1]) if call[1] in NAMED else None
    if isinstance(named, layout.Layout) and call[2] is None:
        return named
    if named is None or isinstance(named, layout.Layout) or not call[2] and named is not layout.matrix_values:
        raise Refused(f"{text} is none of Hopper's layouts: wgmma_accumulator(64), wgmma_a(2), mma_a(2), mma_b(2), "
                      "MMA_C, matrix_values(), FRAGMENT_ROWS (docs/layouts.md)")  # fmt: skip
    number = [int(call[2])] if call[2] else []
    if named is layout.wgmma_accumulator and number[0] > 256:
        raise Refused(f"{text}: wgmma has multiples of 8 from 8 to 256")
    try:
        return named(*number)
    except LayoutError as error:
        raise Refused(f"{text}: {error.rule}") from None


NAMED = ("wgmma_accumulator", "wgmma_a", "mma_a", "mma_b", "MMA_C", "matrix_values", "FRAGMENT_ROWS")


def _size(option: str, text: str) -> tuple[int, int]:
    size = re.fullmatch(r"(\d+)x(\d+)", text)
    if size is None:
        raise Refused(f"{option} {text}: two numbers with an x between, as 8x64")
    return int(size[1]), int(size[2])
