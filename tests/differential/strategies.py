"""Hypothesis strategies for every kind of case, and a reproducible sample of each."""

from __future__ import annotations

import math
from typing import Any

import hypothesis
from hypothesis import strategies as st

from nvdsl.hopper import arch
from tests.differential.case import Case, dtype
from tests.differential.copies import Copy
from tests.differential.elementwise import ARITHMETIC, TYPES, Conversions, Functions, Operators
from tests.differential.lanes import ATOMICS, Atomics, Matrices, Shuffles
from tests.differential.products import Product
from tests.differential.program_text import programs

seeds = st.integers(0, 2**31)


def operators() -> st.SearchStrategy[Operators]:
    return st.builds(Operators, st.sampled_from(ARITHMETIC), st.sampled_from(ARITHMETIC), seeds, st.booleans())


def conversions() -> st.SearchStrategy[Conversions]:
    return st.builds(Conversions, st.sampled_from(TYPES), seeds, st.booleans())


def functions() -> st.SearchStrategy[Functions]:
    return st.builds(Functions, st.sampled_from(["f32", "f32", "f16", "bf16", "f64"]), seeds, st.booleans())


@st.composite
def copies(draw: Any) -> Copy:
    element = draw(st.sampled_from(["f32", "f16", "bf16", "i32", "u8", "e4m3", "f64", "i64", "i16"]))
    size = dtype(element).bytes
    unit = 16 // size  # elements of 16 bytes, the step of everything along the last axis
    rank = draw(st.integers(1, 4))
    swizzle = draw(st.sampled_from([0, 32, 64, 128] if rank > 1 else [0]))
    rows = [draw(st.integers(1, 12)) for _ in range(rank - 1)]
    panels = draw(st.integers(1, 3))
    columns = panels * swizzle // size if swizzle else unit * draw(st.integers(1, 8 if rank > 1 else 16))
    box = [draw(st.integers(1, max(r, 1) + 2)) for r in rows]
    if swizzle and panels > 1:  # a panel takes whole patterns of 8 rows
        box[-1] = 8 * draw(st.integers(1, 2))
        box[:-1] = [1] * (rank - 2)
    while math.prod(box) * columns * size > 32768:
        box = [max(1, b // 2) if not (swizzle and panels > 1) else b for b in box[:-1]] + [box[-1]]
        if not swizzle and math.prod(box) * columns * size > 32768:
            columns = max(unit, columns // 2 // unit * unit)
    width = unit * draw(st.integers(1, 24))
    covered = width - draw(st.sampled_from([0, 0, 1, 2, 3])) if width > 4 else width
    inner = st.integers(-(columns // unit), width // unit)
    load_at = (*(draw(st.integers(-b, r + 1)) for b, r in zip(box, rows, strict=True)), unit * draw(inner))
    store_at = (*(draw(st.integers(0, r + 1)) for r in rows), unit * draw(st.integers(0, width // unit)))
    how = draw(st.sampled_from(["store", "store", *arch.TMA_REDUCTIONS.get(_mlir(element), ())]))
    fill = draw(st.sampled_from(["zero", "nan"] if dtype(element).is_float and size > 1 else ["zero"]))
    return Copy(
        element, (*rows, width), covered, (*box, columns), swizzle, fill, load_at, store_at, how, draw(seeds)
    )  # fmt: skip


def _mlir(element: str) -> str:
    return element.replace("u", "i") if element[0] == "u" else element


_FLOAT8 = ("e4m3", "e5m2")
PRODUCTS = (
    *[("f16", "f16", s) for s in ("f32", "f16")], ("bf16", "bf16", "f32"), ("f32", "f32", "f32"),
    *[(a, b, s) for a in _FLOAT8 for b in _FLOAT8 for s in ("f32", "f16")],
    *[(a, b, "i32") for a in ("i8", "u8") for b in ("i8", "u8")],
)  # fmt: skip


@st.composite
def products(draw: Any) -> Product:
    a, b, sums = draw(st.sampled_from(PRODUCTS + PRODUCTS[:4] * 3))
    size, sixteen = dtype(a).bytes, dtype(a).bytes == 2
    step = 32 // size
    a_from = draw(st.sampled_from(["k", "mn", "registers"] if sixteen else ["k", "k", "registers"]))
    b_major = draw(st.sampled_from(["k", "mn"] if sixteen else ["k"]))
    a_swizzle, b_swizzle = draw(st.sampled_from([16, 32, 64, 128])), draw(st.sampled_from([16, 32, 64, 128]))
    # K-major rows hold K: whole panels of the swizzle. MN-major ones hold M or N.
    wide = max([s for s, major in ((a_swizzle, a_from), (b_swizzle, b_major)) if major == "k"] + [32]) // size
    k = wide * draw(st.integers(1, max(1, 128 // size // wide)))
    m = draw(st.sampled_from([64, 64, 128]))
    n = 8 * draw(st.integers(1, 32 if m == 64 else 24))
    if b_major == "mn":
        panel = max(b_swizzle // size, 8)
        n = max(panel, n // panel * panel)
    if sums == "i32" and n > 24:
        n = n // 16 * 16
    while n * k * size > 49152 or m * k * size > 49152:
        k = max(wide, k // 2 // wide * wide)
    assert k % step == 0
    signs = (1, 1) if sums == "i32" else draw(st.sampled_from([(1, 1), (1, 1), (-1, 1), (1, -1), (-1, -1)]))
    then = draw(st.sampled_from(["", "", "add", "map", "keep", "drop"]))
    out = {"i32": ["i32"], "f16": ["f16", "f32"], "f32": ["f32", "f32", "f16", "bf16"]}[sums]
    style = draw(st.sampled_from(["integers", "normal", "normal", "bits", "corners"]))
    return Product(
        a, b, sums, m, n, k, a_from, b_major, a_swizzle, b_swizzle, signs, then, draw(st.sampled_from(out)), style,
        draw(seeds),
    )  # fmt: skip


def shuffles() -> st.SearchStrategy[Shuffles]:
    elements, threads = st.sampled_from(["i32", "u32", "f32"]), st.sampled_from([32, 96])
    return st.builds(Shuffles, elements, st.integers(0, 31), st.booleans(), threads, seeds)


def matrices() -> st.SearchStrategy[Matrices]:
    return st.builds(Matrices, st.sampled_from([1, 2, 4]), st.booleans(), st.booleans(), seeds)


def atomics() -> st.SearchStrategy[Atomics]:
    pairs = st.sampled_from([(element, how) for element, kinds in ATOMICS.items() for how in kinds])
    return st.builds(lambda pair, bins, seed: Atomics(*pair, bins, seed), pairs, st.integers(1, 9), seeds)


ALL: dict[str, Any] = {
    "operators": operators, "conversions": conversions, "functions": functions, "copy": copies, "product": products,
    "shuffles": shuffles, "matrices": matrices, "atomics": atomics, "program": programs,
}  # fmt: skip


def draw(kind: str, count: int, seed: int) -> list[Case]:
    """``count`` cases; the same ones for the same seed and version of Hypothesis."""
    found: list[Case] = []

    @hypothesis.seed(seed)
    @hypothesis.settings(
        max_examples=count, database=None, deadline=None, phases=[hypothesis.Phase.generate], derandomize=False,
        suppress_health_check=list(hypothesis.HealthCheck),
    )  # fmt: skip
    @hypothesis.given(ALL[kind]())
    def collect(case: Case) -> None:
        found.append(case)

    collect()
    return found
