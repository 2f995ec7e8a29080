"""``nvdsl draw``: layouts as SVG, or as text in the terminal."""

from __future__ import annotations

import re
import sys
from argparse import Namespace
from pathlib import Path
from typing import Any

from nvdsl import layout
from nvdsl.cli import Refused
from nvdsl.draw import fragment, swizzle

_BYTES = {"f32": 4, "tf32": 4, "i32": 4, "f16": 2, "bf16": 2, "e4m3": 1, "e5m2": 1, "i8": 1, "u8": 1}


def run(chosen: Namespace) -> int:
    drawing = _swizzle(chosen) if chosen.kind == "swizzle" else _fragment(chosen)
    if chosen.text:
        if chosen.out:
            raise Refused("--text prints in the terminal; --out is for the SVG: give one of them")
        _print(drawing)
    elif chosen.out:
        if not Path(chosen.out).parent.is_dir():
            raise Refused(f"{chosen.out} can't be written: there is no folder {Path(chosen.out).parent}")
        Path(chosen.out).write_text(drawing.svg(), encoding="utf-8")
    else:
        sys.stdout.write(drawing.svg())
    return 0


def _print(drawing: Any) -> None:
    from rich.console import Console

    console = Console(highlight=False)
    for line in drawing.text():
        console.print(line, soft_wrap=True)


def _swizzle(chosen: Namespace) -> swizzle.Drawing:
    size = re.fullmatch(r"(\d+)x(\d+)", chosen.shape)
    if size is None:
        raise Refused(f"--shape {chosen.shape}: two numbers with an x between, as 8x64")
    rows, cols = int(size[1]), int(size[2])
    try:
        tile = layout.TileLayout.of(rows, cols, _BYTES[chosen.dtype], chosen.swizzle)
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
        return fragment.a(dtype, _BYTES[dtype])
    if dtype not in ("f32", "f16", "i32"):
        raise Refused(f"an accumulator is f32, f16 or i32, not {dtype}")
    if chosen.n % 8 or not 8 <= chosen.n <= 256:
        raise Refused(f"--n {chosen.n}: wgmma has multiples of 8 from 8 to 256")
    return fragment.accumulator(chosen.n, dtype)
