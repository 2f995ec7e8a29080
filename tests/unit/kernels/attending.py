"""Attention beside NumPy in float64: cases for the simulator, the same and larger ones for the device."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import ml_dtypes
import numpy as np

import nvdsl as nv
from nvdsl.kernels.attention.config import Config, padded
from nvdsl.kernels.attention.forward import attention


def expected(
    q: Any, k: Any, v: Any, *, causal: bool = False, window: Any = (None, None), scale: float | None = None,
    softcap: float = 0.0, bias: Any = None,
) -> tuple[Any, Any]:  # fmt: skip
    """What `nv.attention` gives, and the logarithms, in float64."""
    (_, queries, heads, size), (_, keys, kv_heads, _) = q.shape, k.shape
    q, k, v = (x.astype(np.float64) for x in (q, k, v))
    k, v = (np.repeat(x, heads // max(kv_heads, 1), axis=2) for x in (k, v))
    s = np.einsum("bihd,bjhd->bhij", q, k) * (size**-0.5 if scale is None else scale)
    s = softcap * np.tanh(s / softcap) if softcap else s
    s = s if bias is None else s + bias.astype(np.float64)
    i, j = np.indices((queries, keys))
    i, (left, right) = i + keys - queries, window
    right = 0 if causal else right
    seen = (j <= (np.inf if right is None else i + right)) & (j >= (-np.inf if left is None else i - left))
    s = np.where(seen, s, -np.inf)
    highest = s.max(-1, keepdims=True, initial=-np.inf)
    p = np.exp(s - np.where(highest == -np.inf, 0, highest))
    total = p.sum(-1, keepdims=True)
    weights = p / np.where(total == 0, 1, total)
    with np.errstate(divide="ignore"):
        logs = np.where(total == 0, -np.inf, highest + np.log(total))[..., 0]
    return np.einsum("bhij,bjhd->bihd", weights, v), logs


def compare(
    found: tuple[Any, Any], wanted: tuple[Any, Any], spread: float = 1.0, tolerance: float | None = None
) -> None:
    """``spread``: a bound of the scores, whose rounding the logarithms show. ``tolerance``: of the result."""
    (o, lse), (weighted, logs) = found, wanted
    size = max(float(np.linalg.norm(weighted)), 1e-30)
    error = np.linalg.norm(o.astype(np.float64) - weighted) / size
    assert error < (tolerance or (1e-3 if o.dtype == np.float16 else 6e-3)), error
    assert np.isfinite(o.astype(np.float32)).all()
    np.testing.assert_array_equal(np.isinf(lse), np.isinf(logs))
    np.testing.assert_allclose(lse, logs, atol=1e-5 * max(spread, 1))


@dataclass(frozen=True)
class Case:
    """``group``: heads of q for each of ``kv_heads``. ``spread``: a factor of q, by which the maxima of rows grow from
    tile to tile."""

    queries: int
    keys: int
    batch: int = 1
    kv_heads: int = 1
    group: int = 1
    size: int = 64
    value_size: int = 64
    window: tuple[int | None, int | None] = (None, None)
    dtype: type = ml_dtypes.bfloat16
    spread: float = 1.0
    config: dict[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        words = [f"{self.batch}x{self.queries}x{self.keys}x{self.kv_heads}x{self.group}x{self.size}"]
        words += [np.dtype(self.dtype).name, *map(str, self.window), *(f"{k}{v}" for k, v in self.config.items())]
        return "-".join(words)


CASES = (
    Case(128, 256, dtype=np.float16),
    Case(192, 320, group=2, window=(None, 0), config={"tile_n": 128}),
    Case(256, 256, kv_heads=2, window=(None, 0), spread=8.0, config={"blocks": 3}),
    Case(100, 200, size=72, value_size=40, spread=8.0, config={"tile_n": 80, "pingpong": False}),
    Case(100, 150, size=192, value_size=128, window=(None, 0), config={"pingpong": False}),
    Case(192, 192, window=(None, 0), config={"consumers": 3}),
    Case(128, 128, size=128, value_size=128, config={"stages": 3, "q_stages": 2, "blocks": 1}),
    Case(200, 200, group=2, window=(None, 7), size=128, config={"lazy": True, "q_columns": 128, "k_stages": 3}),
    Case(150, 200, size=128, spread=8.0, window=(None, 0), config={"lazy": True, "q_columns": 64, "pingpong": False}),
    Case(200, 300, kv_heads=2, group=2, window=(None, 0), config={"blocks": 3, "queue": True}),
    Case(200, 150, kv_heads=2, window=(None, 0), config={"blocks": 2, "queue": True, "o_columns": 32}),
    Case(300, 100, kv_heads=2, size=128, config={"blocks": 3, "queue": True, "q_columns": 64, "pingpong": False}),
    Case(128, 512, spread=30.0, dtype=np.float16, config={"lazy": True}),
    Case(70, 30, batch=2, group=3, window=(None, 0), config={"pack": 4}),
    Case(200, 230, window=(20, 10), value_size=96),
    Case(3, 90, group=8, window=(50, None), config={"pack": 8, "consumers": 1, "pingpong": False}),
    Case(1, 400, group=8, config={"pack": 8, "consumers": 1, "pingpong": False, "cluster": 4, "lazy": True}),
    Case(
        3,
        300,
        batch=2,
        kv_heads=2,
        group=6,
        size=72,
        value_size=40,
        window=(None, 0),
        config={"pack": 8, "consumers": 1, "pingpong": False, "cluster": 2, "blocks_per_sm": 2},
    ),
    Case(100, 300, window=(None, 0), config={"cluster": 2}),
)


def arrays(case: Case) -> list[Any]:
    """q, k, v, o, lse."""
    rng = np.random.default_rng(0)
    heads = case.kv_heads * case.group
    shapes = [(case.queries, heads, case.size), *((case.keys, case.kv_heads, n) for n in (case.size, case.value_size))]
    q, k, v = (rng.standard_normal((case.batch, *shape), dtype=np.float32) for shape in shapes)
    o = np.full((*q.shape[:3], case.value_size), np.nan, np.float32)
    lse = np.full((case.batch, heads, case.queries), np.nan, np.float32)
    return [*(x.astype(case.dtype) for x in (q * case.spread, k, v, o)), lse]


def call(run: Any, case: Case, given: Sequence[Any]) -> None:
    """``run(attention, *arguments, **constants)`` of the kernel, for the arrays ``given``."""
    q, k, v, o, lse = given
    grouped = (x.reshape(*x.shape[:2], case.kv_heads, case.group, -1) for x in (q, o))
    left, right = case.window
    run(
        attention, next(grouped), k, v, next(grouped), None, lse[None], case.size**-0.5, left or 0, right or 0, 1, 0.0,
        0, *[None] * 8,
        config=Config((padded(case.size), padded(case.value_size)), **{"tile_n": 64, **case.config}),
        bounded=(left is not None, right is not None),
    )  # fmt: skip


def check(run: Any, case: Case) -> None:
    """The same, and the results compared."""
    q, k, v, o, lse = given = arrays(case)
    call(run, case, given)
    compare((o, lse), expected(q, k, v, window=case.window), case.spread)


def signature(sizes: tuple[int, int], dtype: nv.DType = nv.bf16, lse: bool = True) -> list[Any]:
    """Of the kernel, for any lengths."""
    queries, keys = ("q_batch", "queries", "kv_heads", "group"), ("k_batch", "keys", "kv_heads")
    q, o = (nv.ShapeDtype((*queries, n), dtype) for n in sizes)
    k, v = (nv.ShapeDtype((*keys, n), dtype) for n in sizes)
    logs = nv.ShapeDtype(("parts", "q_batch", "heads", "queries"), nv.f32) if lse else None
    return [q, k, v, o, None, logs, 1.0, 0, 0, 1, 0.0, 0, *[None] * 8]
