"""Attention in parts of the keys, for few queries: each part has tiles of its own, and their results are added up."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any

import nvdsl as nv
from nvdsl.kernels.attention import forward, sequences
from nvdsl.kernels.attention.config import Config
from nvdsl.kernels.attention.scores import LOG2_E, ScoreKind
from nvdsl.kernels.attention.sequences import Sequences
from nvdsl.kernels.blocks.divisor import Divisor

WARPS, UNIT, AHEAD = 8, 4, 4
"""Of a block, which adds up one row; elements that a thread reads at once; parts whose loads are on their way."""

Shares = nv.Shaped[nv.Array, "splits"]


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
    shares: Shares,
    softcap: float,
    new: int,
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
    """As `forward.attention`, in as many parts of the keys as ``shares`` has elements, which nobody reads: extents say
    what memory a call needs, and one whose extents are known is launched without asking again."""
    (splits,) = shares.shape
    batches, queries, kv_heads, group, size = o.shape
    parts = nv.empty((splits, batches, queries, kv_heads, group, size), nv.f32)
    logs = nv.empty((splits, batches, kv_heads * group, queries), nv.f32)
    forward.attention.__wrapped__(
        q, k, v, None, parts, logs, scale, left, right, splits, softcap, 0, q_starts, k_starts, used, table, bias,
        q_scale, k_scale, v_scale, *operands, config=config, bounded=bounded, scores=scores,
    )  # fmt: skip
    combine(parts, logs, o, lse, Sequences(q, k, q_starts, k_starts, used, table), new == 1)


def combine(
    parts: nv.Array, logs: nv.Array, o: nv.Array, lse: nv.Array | None, ways: Sequences | None = None, new: Any = True
) -> None:  # fmt: skip
    """``o``: the mean of ``parts``, of which each counts as the sum of its exponentials says; ``lse``: the logarithm of
    all of them; of rows of no sequence in ``ways`` zeros, if ``o`` is ``new``, and -infinity. In a host function.

    A block adds up one row. Each of its warps takes every eighth part, ``AHEAD`` of them at a time, so that a row waits
    for memory once or twice.
    """
    batches, queries, kv_heads, group, size = o.shape
    splits = parts.shape[0]
    of_kv, of_query, of_batch = (Divisor.of(n) for n in (group, kv_heads, queries))
    width = 32 * UNIT

    @nv.kernel(grid=batches * queries * kv_heads * group, block=(32, WARPS), programmatic=True)
    def combine_parts() -> None:
        rest, shared = of_kv.divmod(nv.block_id.x)
        rest, kv_head = of_query.divmod(rest)
        batch, query = of_batch.divmod(rest)
        lane, warp = nv.thread_id.x, nv.thread_id.y
        at, head = (batch, query, kv_head, shared), kv_head * group + shared
        firsts = range(0, size, width)
        zeros = nv.vector([nv.f32(0.0)] * UNIT)
        nv.griddep_wait()
        nv.griddep_launch_dependents()

        outside = False if ways is None else ways.outside(query)
        count = splits if outside is False else nv.select(outside, 0, splits)
        mine: Any = nv.f32(-math.inf), nv.f32(0.0), [zeros for _ in firsts]
        for start in nv.range(warp, count, WARPS * AHEAD, unroll=False):
            found = []
            for ahead in range(AHEAD):
                number = start + ahead * WARPS
                there, part = number < splits, nv.min(number, splits - 1)
                values = [parts.vector((part, *at, nv.min(col + lane * UNIT, size - UNIT)), UNIT) for col in firsts]
                log = nv.select(there, logs[part, batch, head, query], -math.inf)
                found.append((log, 1.0, [nv.select(there, x, zeros) for x in values]))
            mine = _added(mine, found)

        sums, scales = nv.smem((WARPS, len(firsts) * width), nv.f32), nv.smem((WARPS, 2), nv.f32)
        for col, x in zip(firsts, mine[2], strict=True):
            sums.store_vector(x, (warp, col + lane * UNIT))
        scales.store_vector(nv.vector(mine[:2]), (warp, 0))
        nv.sync_threads()
        if warp < len(firsts):
            place = warp * width + lane * UNIT
            each = [(*scales.vector((i, 0), 2), [sums.vector((i, place), UNIT)]) for i in range(WARPS)]
            highest, total, (whole,) = _added(each[0], each[1:])
            written = place < size if outside is False else (place < size) & (new | ~outside)
            o.store((*at, place), whole * nv.select(total == 0.0, 0.0, 1.0 / total), predicate=written)
            if lse is not None:
                logarithm = highest + nv.math.log2_approx(total) * (1 / LOG2_E)
                lse.store((0, batch, head, query), logarithm, predicate=(warp == 0) & (lane == 0))

    combine_parts()


def _added(mean: Any, others: Sequence[Any]) -> Any:
    """The sum of several: the logarithm that is the scale of each, its sum of weights, and its weighted sums."""
    logs = [log for log, _, _ in (mean, *others)]
    highest = functools.reduce(nv.max, logs)
    base = nv.select(highest == -math.inf, 0.0, highest)
    factors = [nv.math.exp2_approx((log - base) * LOG2_E) for log in logs]
    total, sums = mean[1] * factors[0], [x * factors[0] for x in mean[2]]
    for factor, (_, weight, values) in zip(factors[1:], others, strict=True):
        total = total + weight * factor
        sums = [x + y * factor for x, y in zip(sums, values, strict=True)]
    return highest, total, sums
