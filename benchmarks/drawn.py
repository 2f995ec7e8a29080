"""Problems drawn at random from a seed: shapes that nobody tuned for."""

from __future__ import annotations

import random
from collections.abc import Callable

from benchmarks.problems import Workload

KIND = "bf16.f32.bf16.NT"
"""What is drawn unless something else is asked for."""
KINDS = (
    "f16.f32.f16.NN", "f16.f32.f16.NT", "f16.f32.f16.TN", "f16.f32.f16.TT", "bf16.f32.bf16.NN", "bf16.f32.bf16.TN",
    "bf16.f32.bf16.TT", "f16.f16.f16.NN", "f16.f16.f16.NT", "e4m3.f32.bf16.NT.tensor", "e4m3.f32.bf16.NT.rows",
    "i8.i32.i32.NT", "tf32.f32.f32.NT",
)  # fmt: skip
"""Each of "random-types", in turn."""
MOST = 32768
MULTIPLES = (8, 2, 1)
"""Of each extent of "random", one as often as the other."""

Sizes = tuple[int, int, int]


def _extent(draw: random.Random, least: float, most: float, multiple: int = 8) -> int:
    """Log-uniform, rounded to a multiple."""
    return max(multiple, round(least * (most / least) ** draw.random() / multiple) * multiple)


def _any(draw: random.Random) -> Sizes:
    m, n, k = (_extent(draw, 1, MOST, draw.choice(MULTIPLES)) for _ in range(3))
    return m, n, k


def _square(draw: random.Random) -> Sizes:
    return (_extent(draw, 1024, 16384),) * 3


def _large(draw: random.Random) -> Sizes:
    m, n, k = (_extent(draw, 512, 8192) for _ in range(3))
    return m, n, k


def _layer(draw: random.Random) -> Sizes:
    width = draw.choice((2048, 2560, 3072, 3584, 4096, 5120, 6144, 7168, 8192, 12288, 16384))
    up = round(width * draw.choice((2, 8 / 3, 3.5, 4)) / 64) * 64
    n, k = draw.choice(((width, width), (width * 5 // 4, width), (width * 3, width), (up, width), (width, up)))
    return _extent(draw, 1, MOST // 2, 1), n, k


def _any_type(draw: random.Random) -> Sizes:
    """What cuBLAS takes of all types."""
    m, n, k = (_extent(draw, 512, 8192, 16) for _ in range(3))
    return m, n, k


def _long(draw: random.Random) -> Sizes:
    return _extent(draw, 64, 512), _extent(draw, 64, 512), 65536


def _long_odd(draw: random.Random) -> Sizes:
    """Off the grid of 16 bytes, so that TMA can't read what has K contiguous."""
    return _extent(draw, 64, 512), _extent(draw, 64, 512), 65536 + draw.choice((-6, -3, -1, 1, 2, 5))


def _few_cols(draw: random.Random) -> Sizes:
    m, n, k = _few_rows(draw)
    return n, m, k


def _few_rows(draw: random.Random) -> Sizes:
    return _extent(draw, 1, 250, 1), _extent(draw, 1024, 16384), _extent(draw, 1024, 16384)


def _vector(draw: random.Random) -> Sizes:
    m, n, k = _any(draw)
    return (m, 1, k) if draw.random() < 0.5 else (1, n, k)


DRAWN: dict[str, tuple[str, Callable[[random.Random], Sizes]]] = {
    "random": ("M, N, K log-uniform from 1 to 32,768, each a multiple of 8, of 2, or any, as often", _any),
    "random-large": ("M, N, K log-uniform from 512 to 8,192, multiples of 8", _large),
    "random-types": ("M, N, K log-uniform from 512 to 8,192, multiples of 16, 13 types and layouts in turn", _any_type),
    "random-squares": ("squares, log-uniform from 1,024 to 16,384, multiples of 8", _square),
    "layers": ("attention projections and MLPs of widths 2,048 to 16,384, 1 to 16,384 rows", _layer),
    "long-k": ("K of 65,536, M and N log-uniform from 64 to 512, multiples of 8", _long),
    "long-odd-k": ("K of 65,530 to 65,541, no multiple of 8, M and N as for long-k", _long_odd),
    "vectors": ("one row or one column, the other extents as of random", _vector),
    "few-cols": ("1 to 250 columns, M and K log-uniform from 1,024 to 16,384, multiples of 8", _few_cols),
    "few-rows": ("1 to 250 rows, N and K log-uniform from 1,024 to 16,384, multiples of 8", _few_rows),
}
"""name -> what it is, and how one is drawn."""


def drawn(name: str, seed: int, count: int, kind: str = KIND) -> list[Workload]:
    """The first ``count`` problems of a seed, each another. ``kind``: as `Workload.kind`. Raises KeyError for a name
    that isn't known."""
    draw = random.Random(f"{name} {seed}")
    found: dict[Workload, None] = {}
    while len(found) < count:
        each = KINDS[len(found) % len(KINDS)] if name == "random-types" else kind
        dtype, acc, out, layout, *scales = each.split(".")
        found[Workload(*DRAWN[name][1](draw), dtype, acc, out, layout, "".join(scales))] = None
    return list(found)
