"""Attention in parts of the keys, for few queries: each part has tiles of its own, and their results are added up."""

from __future__ import annotations

import math
from typing import Any

import nvdsl as nv
from nvdsl.kernels.attention import forward, sequences
from nvdsl.kernels.attention.config import Config
from nvdsl.kernels.attention.scores import LOG2_E, ScoreKind
from nvdsl.kernels.blocks.divisor import Divisor

WARPS, UNIT = 8, 4
"""Of a block, which adds up one row; elements that a thread reads at once."""


@nv.jit
def attention(
    q: forward.Queries,
    k: forward.Keys,
    v: forward.Keys,
    o: forward.Queries,
    lse: forward.Logarithms | None,
    scale: float,
    left: int,
    right: int,
    splits: int,
    softcap: float,
    q_starts: sequences.Starts | None,
    k_starts: sequences.KeyStarts | None,
    used: sequences.Lengths | None,
    table: sequences.Pages | None,
    bias: forward.Bias | None,
    q_scale: forward.OfQueries | None,
    k_scale: forward.OfKeys | None,
    v_scale: forward.OfValues | None,
    *operands: Any,
    config: Config,
    bounded: tuple[bool, bool],
    scores: ScoreKind,
) -> None:
    """As `forward.attention`, in ``splits`` parts of the keys."""
    batches, queries, kv_heads, group, size = o.shape
    parts = nv.empty((splits, batches, queries, kv_heads, group, size), nv.f32)
    logs = nv.empty((splits, batches, kv_heads * group, queries), nv.f32)
    forward.attention.__wrapped__(
        q, k, v, None, parts, logs, scale, left, right, splits, softcap, q_starts, k_starts, used, table, bias,
        q_scale, k_scale, v_scale, *operands, config=config, bounded=bounded, scores=scores,
    )  # fmt: skip
    combine(parts, logs, o, lse)


def combine(parts: nv.Array, logs: nv.Array, o: nv.Array, lse: nv.Array | None) -> None:
    """``o``: the mean of ``parts``, of which each counts as the sum of its exponentials says; ``lse``: the logarithm of
    all of them. In a host function."""
    batches, queries, kv_heads, group, size = o.shape
    splits = parts.shape[0]
    of_kv, of_query, of_batch = (Divisor.of(n) for n in (group, kv_heads, queries))

    @nv.kernel(grid=batches * queries * kv_heads * group, block=(32, WARPS), programmatic=True)
    def combine_parts() -> None:
        rest, shared = of_kv.divmod(nv.block_id.x)
        rest, kv_head = of_query.divmod(rest)
        batch, query = of_batch.divmod(rest)
        lane, warp = nv.thread_id.x, nv.thread_id.y
        at, head = (batch, query, kv_head, shared), kv_head * group + shared
        nv.griddep_wait()
        nv.griddep_launch_dependents()

        highest = nv.f32(-math.inf)
        for i in nv.range(lane, splits, 32):
            highest = nv.max(highest, logs[i, batch, head, query])
        highest = nv.warp.max(highest)
        base = nv.select(highest == -math.inf, 0.0, highest)
        total = nv.f32(0.0)
        for i in nv.range(lane, splits, 32):
            total += nv.math.exp2_approx((logs[i, batch, head, query] - base) * LOG2_E)
        total = nv.warp.sum(total)

        sums = nv.smem((WARPS, 32 * UNIT), nv.f32)
        inverse = nv.select(total == 0.0, 0.0, 1.0 / total)
        for start in range(0, size, 32 * UNIT):
            col = nv.min(start + lane * UNIT, size - UNIT)
            mine = nv.vector([nv.f32(0.0)] * UNIT)
            for i in nv.range(warp, splits, WARPS, unroll=4):  # so many loads are in flight
                weight = nv.math.exp2_approx((logs[i, batch, head, query] - base) * LOG2_E)
                mine = mine + parts.vector((i, *at, col), UNIT) * weight
            sums.store_vector(mine, (warp, lane * UNIT))
            nv.sync_threads()
            if (warp == 0) & (start + lane * UNIT < size):
                whole = sums.vector((0, lane * UNIT), UNIT)
                for other in range(1, WARPS):
                    whole = whole + sums.vector((other, lane * UNIT), UNIT)
                o.store_vector(whole * inverse, (*at, col))
            if start + 32 * UNIT < size:
                nv.sync_threads()
        if lse is not None:
            logarithm = base + nv.math.log2_approx(total) * (1 / LOG2_E)
            lse.store((0, batch, head, query), logarithm, predicate=(warp == 0) & (lane == 0))

    combine_parts()
