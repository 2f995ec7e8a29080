"""Attention by the kernel, beside NumPy: small cases for the simulator, the same and larger ones for the device."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import ml_dtypes
import numpy as np

from nvdsl.kernels.attention.forward import Config, attention


@dataclass(frozen=True)
class Case:
    """``spread``: a factor of q, by which the maxima of rows grow from tile to tile."""

    heads: int
    rows: int
    keys: int
    head_size: int = 64
    kv_heads: int = 0
    causal: bool = False
    dtype: type = ml_dtypes.bfloat16
    spread: float = 1.0
    config: Config = field(default_factory=lambda: Config(tile_n=64))

    def __str__(self) -> str:
        words = [f"{self.heads}x{self.rows}x{self.keys}x{self.head_size}", np.dtype(self.dtype).name]
        config = self.config
        words += ["causal"] * self.causal + [f"tile{config.tile_n}", f"consumers{config.consumers}"]
        words += [f"blocks{config.blocks}"] * bool(config.blocks) + ["no-pingpong"] * (not config.pingpong)
        return "-".join(words)


CASES = (
    Case(1, 128, 256, dtype=np.float16),
    Case(2, 192, 320, kv_heads=1, causal=True, config=Config(tile_n=128)),
    Case(2, 256, 256, causal=True, spread=8.0, config=Config(tile_n=64, blocks=3)),
    Case(1, 100, 200, spread=8.0, config=Config(tile_n=80, pingpong=False)),
    Case(1, 192, 192, causal=True, config=Config(tile_n=64, consumers=3)),
    Case(1, 128, 128, head_size=128, config=Config(tile_n=64, stages=3)),
)


def arrays(case: Case) -> list[Any]:
    """q, k, v, o, lse."""
    rng = np.random.default_rng(0)
    shapes = [(case.heads, case.rows), *[(case.kv_heads or case.heads, case.keys)] * 2]
    q, k, v = (rng.standard_normal((*shape, case.head_size), dtype=np.float32) for shape in shapes)
    q = q * case.spread
    o, lse = np.full(q.shape, np.nan, np.float32), np.full(q.shape[:2], np.nan, np.float32)
    return [*(x.astype(case.dtype) for x in (q, k, v, o)), lse]


def expected(case: Case, q: Any, k: Any, v: Any) -> tuple[Any, Any]:
    q, k, v = (x.astype(np.float64) for x in (q, k, v))
    k, v = (np.repeat(x, case.heads // len(x), axis=0) for x in (k, v))
    s = np.einsum("hid,hjd->hij", q, k) / math.sqrt(case.head_size)
    if case.causal:
        i, j = np.indices(s.shape[1:])
        s = np.where(j <= i + case.keys - case.rows, s, -np.inf)
    highest = s.max(-1, keepdims=True)
    p = np.exp(s - highest)
    total = p.sum(-1, keepdims=True)
    return np.einsum("hij,hjd->hid", p / total, v), (highest + np.log(total))[..., 0]


def check(call: Any, case: Case) -> None:
    """``call(attention, *arrays, **constants)``, and the results compared."""
    q, k, v, o, lse = arrays(case)
    call(attention, q, k, v, o, lse, causal=case.causal, config=case.config)
    weighted, logs = expected(case, q, k, v)
    error = np.linalg.norm(o.astype(np.float64) - weighted) / np.linalg.norm(weighted)
    assert error < (1e-3 if case.dtype is np.float16 else 6e-3)
    np.testing.assert_allclose(lse, logs, atol=1e-5 * case.spread)
