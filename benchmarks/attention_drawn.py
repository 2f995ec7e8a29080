"""Problems of attention drawn at random from a seed: sizes, lengths and options that nobody tuned for, as calls of
`nv.attention` and of FlashAttention-4."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any, NamedTuple

FLOPS = 4e10, 4e11
"""Of a problem: 0.1 to 1 ms, about."""
COMMON = (64, 128, 128, 256, 96, 80, 192)
"""Head sizes of every other problem; the others have any."""


class Problem(NamedTuple):
    """``kind``: full, causal, window, softcap, packed, pages, chunk (queries at the end of a cache), cross (other
    lengths of queries and keys). ``lengths``: those of packed sequences. ``left``, ``right``: of a window. ``page``:
    keys of a page."""

    kind: str
    batch: int
    heads: int
    kv_heads: int
    queries: int
    keys: int
    size: int
    value_size: int
    left: int | None = None
    right: int | None = None
    softcap: float = 0.0
    page: int = 0
    lengths: tuple[int, ...] = ()

    @property
    def causal(self) -> bool:
        return self.kind in ("causal", "softcap", "packed", "pages", "chunk")

    @property
    def work(self) -> float:
        """Floating-point operations on scores that are seen, about."""
        lengths = [(n, n) for n in self.lengths] or [(self.queries, self.keys)] * self.batch
        seen = 0.0
        for queries, keys in lengths:
            if self.kind == "window":
                seen += queries * min(keys, (self.left or 0) + (self.right or 0) + 1)
            else:
                seen += queries * (keys - queries / 2 if self.causal else keys)
        return 2.0 * self.heads * seen * (self.size + self.value_size)


KINDS = "full", "causal", "window", "softcap", "packed", "pages", "chunk", "cross"


def drawn(seed: int, count: int) -> list[Problem]:
    draw = random.Random(seed)
    return [_problem(draw, KINDS[i % len(KINDS)]) for i in range(count)]


def _extent(draw: random.Random, least: float, most: float) -> int:
    return round(least * (most / least) ** draw.random())


def _problem(draw: random.Random, kind: str) -> Problem:
    """Sizes first; then as many sequences as make the work that was drawn."""
    size = draw.choice(COMMON) if draw.random() < 0.5 else 8 * draw.randint(2, 32)
    value_size = 128 if size == 192 and draw.random() < 0.5 else size
    kv_heads, group = draw.choice((2, 4, 8, 16)), draw.choice((1, 1, 1, 2, 4, 8, 3))
    keys = _extent(draw, 256, 16384)
    queries = keys
    if kind == "chunk":
        queries = min(keys, _extent(draw, 16, 1024))
    if kind == "cross":
        queries, keys = _extent(draw, 256, 8192), _extent(draw, 32, 512)
    window = (_extent(draw, 64, 2048), draw.choice((0, 0, 100))) if kind == "window" else (None, None)
    page = 128 if kind == "pages" else 0
    if page:
        queries, keys = min(queries, 512), max(keys // page, 4) * page
    one = Problem(kind, 1, kv_heads * group, kv_heads, queries, keys, size, value_size, *window,
                  30.0 if kind == "softcap" else 0.0, page)  # fmt: skip
    batch = max(1, round(_extent(draw, *FLOPS) / one.work))
    if kind == "packed":
        lengths = tuple(max(1, round(keys * draw.uniform(0.05, 1.95))) for _ in range(max(batch, 3)))
        return one._replace(batch=1, queries=sum(lengths), keys=sum(lengths), lengths=lengths)
    most = max(1, 2**27 // (keys * kv_heads * (size + value_size)))  # elements of keys and values
    return one._replace(batch=min(batch, most, 512))


def calls(
    problem: Problem, ours: Callable[..., Any], theirs: Callable[..., Any]
) -> dict[str, Callable[[], Any]]:  # fmt: skip
    """``kernel``, and ``fa4``, on new arrays. ``theirs``: gives FlashAttention-4's function, of packed sequences or
    not."""
    import torch

    p = problem

    def normal(*shape: int) -> Any:
        return torch.randn(shape, device="cuda", dtype=torch.bfloat16)

    more: dict[str, Any] = {}
    if p.lengths:
        q = normal(p.queries, p.heads, p.size)
        k, v = (normal(p.keys, p.kv_heads, n) for n in (p.size, p.value_size))
        starts = torch.tensor([0, *p.lengths], device="cuda").cumsum(0).to(torch.int32)
        more = {"cu_seqlens_q": starts, "cu_seqlens_k": starts}
    else:
        q = normal(p.batch, p.queries, p.heads, p.size)
        rows = (p.batch * p.keys // p.page, p.page) if p.page else (p.batch, p.keys)
        k, v = (normal(*rows, p.kv_heads, n) for n in (p.size, p.value_size))
    if p.page:
        table = torch.randperm(rows[0], device="cuda", dtype=torch.int32).view(p.batch, -1)
        more = {"page_table": table, "seqused_k": torch.full((p.batch,), p.keys, device="cuda", dtype=torch.int32)}
    out = torch.full((*q.shape[:-1], p.value_size), float("nan"), device="cuda", dtype=q.dtype)
    window = (p.left, p.right)
    found = {"kernel": lambda: ours(q, k, v, out, causal=p.causal, window=window, softcap=p.softcap, **more)}
    function = theirs(bool(more))
    most = {"max_seqlen_q": max(p.lengths), "max_seqlen_k": max(p.lengths)} if p.lengths else {}
    found["fa4"] = lambda: function(q, k, v, causal=p.causal, window_size=window, softcap=p.softcap, **more, **most)
    return found
