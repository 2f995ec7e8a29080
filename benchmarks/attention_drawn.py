"""Problems of attention drawn at random from a seed: sizes, lengths and options that nobody tuned for, as calls of
`nv.attention`, of `nv.attention_backward`, and of FlashAttention-4."""

from __future__ import annotations

import functools
import math
import random
from collections.abc import Callable
from typing import Any, NamedTuple

FLOPS = 4e10, 4e11
"""Of a problem: 0.1 to 1 ms, about. (Few heads have less, packed sequences more.)"""
MOST = 2e12
"""Where one sequence has more, other sizes are drawn."""
COMMON = (64, 128, 128, 256, 96, 80, 192)
"""Head sizes of every other problem; the others have any."""
SHARED = (1, 1, 1, 2, 4, 8, 3, 5, 16)
"""Heads of q on one of k and v."""

Calls = dict[str, Callable[[], Any]]


class Problem(NamedTuple):
    """``kind``: see ``KINDS``. ``lengths``: those of packed sequences, or of documents. ``left``, ``right``: of a
    window. ``page``: keys of a page. ``ordered``: whether gradients are added up in order."""

    kind: str
    batch: int
    heads: int
    kv_heads: int
    queries: int
    keys: int
    size: int
    value_size: int
    causal: bool
    left: int | None = None
    right: int | None = None
    softcap: float = 0.0
    page: int = 0
    lengths: tuple[int, ...] = ()
    ordered: bool = False

    @property
    def work(self) -> float:
        """Floating-point operations on scores that are seen, about; all of documents, whose tiles are all computed."""
        lengths = [(n, n) for n in self.lengths if self.kind == "packed"]
        seen = 0.0
        for queries, keys in lengths or [(self.queries, self.keys)] * self.batch:
            if self.kind == "window":
                seen += queries * min(keys, (self.left or 0) + (self.right or 0) + 1)
            else:
                seen += queries * (keys - queries / 2 if self.causal and queries <= keys else keys)
        return 2.0 * self.heads * seen * (self.size + self.value_size)


KINDS = {
    "full": "all keys", "causal": "those up to the query's own", "window": "those near it",
    "softcap": "with a softcap", "packed": "sequences of very unequal lengths, one behind the other",
    "pages": "keys in pages", "chunk": "queries at the end of many keys",
    "cross": "other lengths of queries and keys", "few": "few heads: less tiles than SMs, or a little more",
    "documents": "a function of scores that keeps documents apart",
}  # fmt: skip


def _ordered(batch: int, heads: int, kv_heads: int, rows: int, size: int, causal: bool) -> tuple[Problem, str]:
    kind = "causal" if causal else "full"
    return Problem(kind, batch, heads, kv_heads, rows, rows, size, size, causal, ordered=True), "gradients"


def _documents(batch: int, heads: int, rows: int, size: int, *lengths: int) -> tuple[Problem, str]:
    return Problem("documents", batch, heads, heads, rows, rows, size, size, False, lengths=lengths), "forward"


SETS = {
    "ordered": [
        _ordered(2, 16, 16, 8192, 128, False), _ordered(8, 16, 16, 2048, 64, False),
        _ordered(8, 16, 16, 2048, 128, True), _ordered(2, 16, 16, 8192, 64, True),
        _ordered(2, 16, 16, 8192, 192, True), _ordered(4, 16, 16, 4096, 256, True),
        _ordered(4, 32, 8, 4096, 128, True), _ordered(2, 16, 2, 4096, 128, True), _ordered(9, 32, 8, 1790, 128, True),
        (Problem("packed", 1, 128, 8, 2362, 2362, 128, 128, True, lengths=(1956, 300, 106), ordered=True), "gradients"),
    ],
    "documents": [
        _documents(2, 16, 8192, 64, 1000, 5000, 2192), _documents(2, 16, 8192, 128, 1000, 5000, 2192),
        _documents(8, 16, 2048, 128, 300, 700, 1048), _documents(4, 16, 4096, 192, 1000, 2000, 1096),
        _documents(4, 16, 4096, 256, 1000, 2000, 1096),
    ],
}  # fmt: skip
"""Problems that are not drawn, and their passes: gradients that are added up in order, and functions of scores that do
nothing but hide."""


def drawn(seed: int, count: int, kinds: tuple[str, ...] = tuple(KINDS)) -> list[Problem]:
    draw = random.Random(seed)
    return [_problem(draw, kinds[i % len(kinds)]) for i in range(count)]


def _extent(draw: random.Random, least: float, most: float) -> int:
    return round(least * (most / least) ** draw.random())


def _problem(draw: random.Random, kind: str) -> Problem:
    """Sizes first; then as many sequences as make the work that was drawn."""
    size = draw.choice(COMMON) if draw.random() < 0.5 else 8 * draw.randint(4, 32)
    value_size = 128 if size == 192 and draw.random() < 0.5 else size
    kv_heads, group = draw.choice((1, 2, 4, 8, 16)), draw.choice(SHARED)
    keys = _extent(draw, 256, 16384)
    queries = keys
    if kind == "chunk":
        queries = min(keys, _extent(draw, 16, 1024))
    if kind == "cross":
        queries, keys = _extent(draw, 77, 8192), _extent(draw, 32, 1024)
    if kind == "few":
        kv_heads, group = draw.choice((1, 2)), draw.choice((1, 2, 3))
    causal = kind in ("causal", "softcap", "pages", "chunk") or kind in ("packed", "few") and draw.random() < 0.5
    window = (_extent(draw, 64, 2048), draw.choice((0, 0, 77))) if kind == "window" else (None, None)
    page = 128 if kind == "pages" else 0
    if page:
        queries, keys = min(queries, 512), max(keys // page, 4) * page
    one = Problem(kind, 1, kv_heads * group, kv_heads, queries, keys, size, value_size, causal, *window,
                  30.0 if kind == "softcap" else 0.0, page, ordered=draw.random() < 0.3)  # fmt: skip
    if one.work > MOST:
        return _problem(draw, kind)
    batch = 1 if kind == "few" else max(1, round(_extent(draw, *FLOPS) / one.work))
    if kind == "packed":
        lengths = tuple(_extent(draw, keys / 30, 2 * keys) for _ in range(min(max(batch, 3), 64)))
        return one._replace(queries=sum(lengths), keys=sum(lengths), lengths=lengths)
    if kind == "documents":
        cuts = sorted(draw.sample(range(1, keys), 3))
        one = one._replace(lengths=tuple(b - a for a, b in zip([0, *cuts], [*cuts, keys], strict=True)))
    most = max(1, 2**27 // (max(keys, queries) * kv_heads * group * (size + value_size)))  # elements of an array
    return one._replace(batch=min(batch, most, 512))


def same_document(s: Any, batch: Any, head: Any, query: Any, key: Any, document: Any) -> Any:
    """A function of scores."""
    import nvdsl as nv

    return nv.where(document[query] == document[key], s, -math.inf)


@functools.cache
def _same_document_of_theirs() -> Any:
    """The same for FlashAttention-4."""
    import cutlass
    import cutlass.cute as cute
    from flash_attn.cute import utils

    @cute.jit
    def same(batch, head, query, key, lengths, arrays):  # type: ignore[no-untyped-def]
        document = arrays[0]
        of_query = utils.scalar_to_ssa(document[query[0]], cutlass.Int32)
        of_key = utils.scalar_to_ssa(document[key[0]], cutlass.Int32)
        return of_query == of_key

    return same


class Arrays:
    """Of a problem, bf16, on the GPU."""

    def __init__(self, problem: Problem) -> None:
        import torch

        p = self.problem = problem

        def normal(*shape: int) -> Any:
            return torch.randn(shape, device="cuda", dtype=torch.bfloat16)

        packed, self.lengths, self.longest = p.kind == "packed", {}, {}
        self.q = normal(*(() if packed else (p.batch,)), p.queries, p.heads, p.size)
        rows = (p.keys,) if packed else (p.batch * p.keys // p.page, p.page) if p.page else (p.batch, p.keys)
        self.k, self.v = (normal(*rows, p.kv_heads, n) for n in (p.size, p.value_size))
        if packed:
            starts = torch.tensor([0, *p.lengths], device="cuda").cumsum(0).to(torch.int32)
            self.lengths = {"cu_seqlens_q": starts, "cu_seqlens_k": starts}
            self.longest = {"max_seqlen_q": max(p.lengths), "max_seqlen_k": max(p.lengths)}
        if p.page:
            table = torch.randperm(rows[0], device="cuda", dtype=torch.int32).view(p.batch, -1)
            used = torch.full((p.batch,), p.keys, device="cuda", dtype=torch.int32)
            self.lengths = {"page_table": table, "seqused_k": used}
        self.score: dict[str, Any] = {}
        self.documents: Any = None
        if p.kind == "documents":
            counts = torch.tensor(p.lengths)
            self.documents = torch.repeat_interleave(torch.arange(len(counts)), counts).to("cuda", torch.int32)
            self.score = {"score": same_document, "operands": (self.documents,)}
        self.shape = (*self.q.shape[:-1], p.value_size)
        self.options = {"causal": p.causal, "softcap": p.softcap, **self.lengths}

    def empty(self, like: Any = None) -> Any:
        import torch

        shape = self.shape if like is None else like.shape
        return torch.full(shape, float("nan"), device="cuda", dtype=self.q.dtype)

    @property
    def theirs(self) -> dict[str, Any]:
        masks = {} if self.documents is None else {
            "mask_mod": _same_document_of_theirs(), "aux_tensors": [self.documents]
        }  # fmt: skip
        return {**self.options, **self.longest, **masks}


def in_f32(a: Arrays, dout: Any = None) -> list[Any]:
    """The result of the first sequence of a batch; or with ``dout`` its gradients."""
    import torch

    p = a.problem
    q, k, v = (x[:1].float().requires_grad_() for x in (a.q, a.k, a.v))
    many_k, many_v = (x.repeat_interleave(p.heads // p.kv_heads, 2) for x in (k, v))
    s = torch.einsum("bqhd,bkhd->bhqk", q, many_k) * p.size**-0.5
    s = p.softcap * torch.tanh(s / p.softcap) if p.softcap else s
    at = torch.arange(p.queries, device="cuda")[:, None] + (p.keys - p.queries)
    key = torch.arange(p.keys, device="cuda")[None]
    hidden = (key > at + (0 if p.causal else p.queries + p.keys if p.right is None else p.right)) | (
        key < at - (p.queries + p.keys if p.left is None else p.left)
    )
    if a.documents is not None:
        hidden = hidden | (a.documents[:, None] != a.documents[None])
    weights = s.masked_fill(hidden, -math.inf).softmax(-1).nan_to_num(0)
    out = torch.einsum("bhqk,bkhd->bqhd", weights, many_v)
    return [out] if dout is None else list(torch.autograd.grad(out, (q, k, v), dout[:1].float()))


def forward(a: Arrays) -> tuple[Calls, Callable[[], Any]]:
    """``kernel``, and ``fa4``; and `in_f32`."""
    from flash_attn.cute.interface import flash_attn_func, flash_attn_varlen_func

    import nvdsl as nv

    out, window = a.empty(), (a.problem.left, a.problem.right)
    ours = {**a.options, **a.score, "window": window}
    function = flash_attn_varlen_func if a.lengths else flash_attn_func

    def theirs() -> Any:
        found = function(a.q, a.k, a.v, window_size=window, **a.theirs)
        return found[0] if isinstance(found, tuple) else found

    return {"kernel": lambda: nv.attention(a.q, a.k, a.v, out, **ours), "fa4": theirs}, lambda: in_f32(a)


def gradients(a: Arrays) -> tuple[Calls, Callable[[], Any]]:
    """The same of the gradients; FlashAttention-4's without autograd. ``unordered``: nvdsl's, added up as blocks are
    done, beside those in order, which need no FlashAttention-4."""
    import torch

    import nvdsl as nv

    p, dout = a.problem, torch.randn(a.shape, device="cuda", dtype=a.q.dtype)
    ours = {**a.options, **a.score, "window": (p.left, p.right)}
    out, lse = nv.attention(a.q, a.k, a.v, **ours, return_lse=True)

    def kernel(ordered: bool) -> Callable[[], Any]:
        into = {"d" + name: a.empty(x) for name, x in (("q", a.q), ("k", a.k), ("v", a.v))}
        return lambda: nv.attention_backward(
            dout, a.q, a.k, a.v, out, lse, **ours, **into, deterministic=ordered
        )  # fmt: skip

    calls = {"kernel": kernel(p.ordered)} | ({"unordered": kernel(False)} if p.ordered else {})
    try:
        from flash_attn.cute.interface import _flash_attn_bwd
    except ImportError:
        if not p.ordered:
            raise
    else:
        sides = {"window_size_left": p.left, "window_size_right": p.right, "deterministic": p.ordered}
        calls["fa4"] = lambda: _flash_attn_bwd(a.q, a.k, a.v, out, dout, lse, **sides, **a.theirs)[:3]
    return calls, lambda: in_f32(a, dout)


PASSES: dict[str, Callable[[Arrays], tuple[Calls, Callable[[], Any]]]] = {"forward": forward, "gradients": gradients}


def differences(found: Any, expected: Any) -> list[float]:
    """Of each result, relative, as norms."""
    pairs = zip(found, expected, strict=True) if isinstance(expected, tuple | list) else [(found, expected)]
    return [((x.float() - y.float()).norm() / y.float().norm()).item() for x, y in pairs]
