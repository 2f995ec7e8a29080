"""Attention's gradients by the kernels, beside NumPy: small cases for the simulator, and for the device."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import ml_dtypes
import numpy as np

from nvdsl.kernels.attention import gradient_kernels
from nvdsl.kernels.attention.gradient_config import Config, apart, choose, narrow_size, wide
from nvdsl.kernels.attention.scores import ScoreKind


@dataclass(frozen=True)
class Case:
    """Lengths of q and of k; heads of q and of k. ``tile_m``: of `backward`; 0: `backward_wide` computes it, 96:
    `backward_apart`.
    ``packed``: lengths of q and k of each sequence, in place of the others. ``parts``: of dQ that a consumer of
    `backward` has; beside two there is one K. ``blocks``: of `backward`, which take several tiles of keys each.
    ``shares``, ``of_heads``: into how many parts the queries that see a tile of keys are cut, and its heads of q."""

    rows: int
    keys: int
    heads: int = 1
    kv_heads: int = 1
    size: int = 64
    tile_m: int = 128
    window: tuple[int | None, int | None] = (None, None)
    batch: int = 1
    value_size: int = 0
    dtype: type = ml_dtypes.bfloat16
    spread: float = 1.0
    softcap: float = 0.0
    ordered: bool = False
    packed: tuple[tuple[int, int], ...] = ()
    parts: int = 1
    blocks: int = 2
    shares: int = 1
    of_heads: int = 1

    def __str__(self) -> str:
        words = [f"{self.batch}x{self.rows}x{self.keys}x{self.heads}x{self.kv_heads}x{self.size}"]
        words += [f"values{self.value_size}"] * bool(self.value_size)
        words += [f"window{self.window}"] * (self.window != (None, None))
        words += [f"softcap{self.softcap}"] * bool(self.softcap) + ["ordered"] * self.ordered
        words += [f"packed{self.packed}"] * bool(self.packed) + [f"parts{self.parts}"] * (self.parts > 1)
        words += [f"shares{self.shares}"] * (self.shares > 1) + [f"of_heads{self.of_heads}"] * (self.of_heads > 1)
        return "-".join([*words, np.dtype(self.dtype).name, f"tile{self.tile_m}"])


CASES = (
    Case(100, 200, heads=2, window=(None, 0)),
    Case(300, 129, size=40, dtype=np.float16, spread=4.0),
    Case(70, 130, heads=2, kv_heads=2, size=128, tile_m=64, window=(None, 0)),
    Case(170, 20, size=104, value_size=72, tile_m=64, batch=2),
    Case(70, 140, size=80, value_size=128, tile_m=64, window=(None, 0), dtype=np.float16),
    Case(70, 260, heads=2, size=128, tile_m=64, window=(None, 0), parts=2),
    Case(200, 70, size=128, tile_m=64, window=(None, 0), dtype=np.float16),
    Case(300, 260, window=(70, 20), tile_m=64),
    Case(140, 70, size=200, value_size=64, tile_m=0, window=(None, 0)),
    Case(130, 300, size=104, value_size=96, tile_m=64, window=(60, 0), softcap=2.0, ordered=True, parts=2),
    Case(130, 300, heads=2, window=(100, 0), softcap=2.0, ordered=True),
    Case(150, 70, size=136, tile_m=0, window=(30, None)),
    Case(0, 0, size=96, tile_m=64, packed=((100, 300), (0, 50), (70, 0), (30, 129)), window=(None, 0), parts=2),
    Case(200, 150, size=136, tile_m=0, window=(20, 0), softcap=1.0, ordered=True, spread=3.0),
    Case(140, 130, size=256, value_size=160, tile_m=0, window=(20, 10)),
    Case(0, 0, size=40, value_size=136, tile_m=0, packed=((70, 30), (0, 5), (20, 70))),
    Case(140, 200, heads=2, size=192, tile_m=96, window=(None, 0)),
    Case(200, 130, size=136, value_size=72, tile_m=96, window=(30, 10), batch=2, dtype=np.float16),
    Case(70, 300, heads=2, size=192, value_size=128, tile_m=96, softcap=1.0, ordered=True),
    Case(0, 0, size=40, value_size=136, tile_m=96, packed=((70, 130), (0, 5), (20, 0), (130, 97)), window=(60, 0)),
    Case(140, 300, heads=2, tile_m=64, window=(None, 0), ordered=True),
    Case(140, 200, heads=2, kv_heads=2, tile_m=0, window=(None, 0), ordered=True),
    Case(0, 0, size=40, tile_m=96, packed=((70, 130), (0, 5), (20, 0), (130, 97)), window=(None, 3), ordered=True),
    Case(300, 200, heads=4, kv_heads=2, size=96, tile_m=64, batch=2, shares=3, blocks=4),
    Case(200, 150, heads=6, kv_heads=1, tile_m=64, window=(None, 0), ordered=True, shares=2, of_heads=3),
    Case(130, 100, heads=8, kv_heads=2, size=200, value_size=136, tile_m=0, of_heads=2),
    Case(300, 200, heads=2, size=72, value_size=56, tile_m=64, window=(None, 0), ordered=True, shares=2, parts=2),
    Case(200, 200, size=136, value_size=64, tile_m=96, window=(70, 10), shares=2, ordered=True),
    Case(270, 130, heads=2, size=200, value_size=136, tile_m=0, shares=3, dtype=np.float16),
    Case(0, 0, size=40, packed=((300, 130), (0, 5), (20, 0), (130, 97)), window=(None, 0), shares=2, dtype=np.float16),
)


def inputs(case: Case) -> list[Any]:
    """dout, q, k, v."""
    rng = np.random.default_rng(0)
    n, values = case.batch, case.value_size or case.size
    shapes = [(n, case.rows, case.heads, values), (n, case.rows, case.heads, case.size)]
    shapes += [(n, case.keys, case.kv_heads, case.size), (n, case.keys, case.kv_heads, values)]
    dout, q, k, v = (rng.standard_normal(shape, dtype=np.float32) for shape in shapes)
    return [x.astype(case.dtype) for x in (dout, q * case.spread, k, v)]


def expected(
    sees: Any, scale: float, dout: Any, q: Any, k: Any, v: Any, softcap: float = 0.0, bias: Any = 0.0
) -> list[Any]:  # fmt: skip
    """out, lse, dq, dk, dv in f64. ``sees``: which rows see which keys. The sums of O dO are those of the rounded O."""
    kind = q.dtype
    dout, q, k, v = (x.astype(np.float64) for x in (dout, q, k, v))
    group = q.shape[2] // k.shape[2]
    many_k, many_v = (np.repeat(x, group, axis=2) for x in (k, v))
    s = np.einsum("bihd,bjhd->bhij", q, many_k) * scale
    slope = np.float64(scale)
    if softcap:
        slope = scale * (1 - np.tanh(s / softcap) ** 2)
        s = softcap * np.tanh(s / softcap)
    s = np.where(sees, s + bias, -np.inf)
    highest = s.max(-1, keepdims=True, initial=-np.inf)
    p = np.exp(s - np.where(np.isinf(highest), 0.0, highest))
    total = p.sum(-1, keepdims=True)
    with np.errstate(divide="ignore"):
        lse = (highest + np.log(total))[..., 0]
    p = p / np.where(total == 0.0, 1.0, total)
    out = np.einsum("bhij,bjhd->bihd", p, many_v)
    dp = np.einsum("bihd,bjhd->bhij", dout, many_v)
    ds = p * (dp - (dout * out.astype(kind)).sum(-1).transpose(0, 2, 1)[..., None]) * slope
    dq = np.einsum("bhij,bjhd->bihd", ds, many_k)
    dk, dv = np.einsum("bhij,bihd->bjhd", ds, q), np.einsum("bhij,bihd->bjhd", p, dout)
    dk, dv = (x.reshape(*k.shape[:3], group, x.shape[3]).sum(3) for x in (dk, dv))
    return [out, lse, dq, dk, dv]


def seen(rows: int, keys: int, window: tuple[int | None, int | None]) -> Any:
    """Which rows see which keys."""
    i, j = np.indices((rows, keys))
    left, right = (rows + keys if bound is None else bound for bound in window)
    return (j <= i + keys - rows + right) & (j >= i + keys - rows - left)


def given_and_expected(case: Case, scale: float | None = None) -> tuple[list[Any], list[Any]]:
    """dout, q, k, v, out, lse; and dq, dk, dv. Of packed sequences one behind the other, in a single batch."""
    if case.packed:
        each = [given_and_expected(replace(case, rows=m, keys=n, packed=()), scale) for m, n in case.packed]
        given, gradients = ([list(x) for x in zip(*one, strict=True)] for one in zip(*each, strict=True))
        axes = (1, 1, 1, 1, 1, 2)
        return [np.concatenate(x, axis) for x, axis in zip(given, axes, strict=True)], [
            np.concatenate(x, 1) for x in gradients
        ]
    arrays = inputs(case)
    sees = seen(case.rows, case.keys, case.window)
    out, lse, *gradients = expected(sees, 1 / math.sqrt(case.size) if scale is None else scale, *arrays, case.softcap)
    return [*arrays, out.astype(case.dtype), lse.astype(np.float32)], gradients


def starts(case: Case) -> list[Any]:
    """Where the packed sequences' queries, and their keys, start."""
    return [np.cumsum([0, *n], dtype=np.int32) for n in zip(*case.packed, strict=True)] or [None, None]


def called(call: Any, case: Case) -> tuple[list[Any], list[Any]]:
    """``call(gradients, *arrays, **constants)``; the arrays of its results, and what they should hold."""
    arrays, gradients = given_and_expected(case)
    found = [np.full(x.shape, np.nan, np.float32).astype(case.dtype) for x in arrays[1:4]]
    left, right = case.window
    sizes = case.size, case.value_size or case.size
    config = Config(tuple(map(narrow_size, sizes)), case.tile_m, keys=3 - case.parts, parts=case.parts)
    if case.tile_m == 128:
        config = choose(64, 64, False, False)
    if not case.tile_m:
        config = wide(*sizes, False)
    if case.tile_m == 96:
        config = apart(*sizes)
    config = replace(config, blocks=case.blocks)
    numbers = 1 / math.sqrt(case.size), left or 0, right or 0, case.softcap
    bounded, scores = (left is not None, right is not None), ScoreKind(case.softcap > 0.0)
    constants = {"config": config, "bounded": bounded, "scores": scores, "ordered": case.ordered}
    shares = np.zeros((case.shares, case.of_heads), np.float32) if case.shares * case.of_heads > 1 else None
    call(gradient_kernels.gradients, *arrays, *found, *starts(case), None, None, shares, 0, *numbers, **constants)
    return found, gradients


def check(call: Any, case: Case) -> None:
    """`called`, and the results compared."""
    compare(*called(call, case), case.dtype)


def compare(found: Any, gradients: Any, dtype: Any) -> None:
    for name, one, its in zip(("dq", "dk", "dv"), found, gradients, strict=True):
        least = 1e-3 * np.linalg.norm(gradients[2])  # beside one key dq and dk are zero but for rounding
        error = np.linalg.norm(one.astype(np.float64) - its) / max(np.linalg.norm(its), least, 1e-3)
        assert error < (1e-3 if dtype is np.float16 else 6e-3), (name, error)
