"""Seeded operands of small integers, and products of groups of rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np


def integers(*shape: int, dtype: Any = np.float16) -> np.ndarray:
    return np.random.default_rng(shape).integers(-3, 4, shape).astype(dtype)


def parts(offsets: Any) -> list[tuple[int, int]]:
    """First row of each group, and the one behind its last."""
    ends = [int(end) for end in offsets]
    return list(zip([0, *ends], ends, strict=False))


def by_groups(a: Any, b: Any, offsets: Any, finish: Callable[..., Any] = lambda x, group, rows: x) -> np.ndarray:
    """``finish(a[rows] @ b[group], group, rows)`` for each group, zero behind the last one. In f64."""
    out = np.zeros((a.shape[0], b.shape[-1]))
    for group, (start, end) in enumerate(parts(offsets)):
        rows = slice(start, end)
        out[rows] = finish(a[rows].astype(float) @ b[group].astype(float), group, rows)
    return out
