"""``nv.attention``: softmax(scale * q k^T) v, for heads of any size up to 256."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import nvdsl as nv
from nvdsl.driver.stream import Stream
from nvdsl.errors import ArgumentError
from nvdsl.errors.tracebacks import at_call
from nvdsl.kernels.arguments import Argument
from nvdsl.kernels.arraylike import ArrayLike
from nvdsl.kernels.attention import combine, copies, forward, options
from nvdsl.kernels.attention.config import choose
from nvdsl.kernels.attention.heads import Grouped, Heads, Operand, Reshaped
from nvdsl.kernels.attention.options import Lengths
from nvdsl.kernels.attention.scores import ScoreKind
from nvdsl.kernels.gemm.launch import sms
from nvdsl.kernels.repeated import Repeated
from nvdsl.trace import decorated
from nvdsl.trace.tokens import token


@at_call
def attention(
    q: ArrayLike,
    k: ArrayLike,
    v: ArrayLike,
    out: ArrayLike | None = None,
    *,
    causal: bool = False,
    window: tuple[int | None, int | None] = (None, None),
    scale: float | None = None,
    softcap: float = 0.0,
    bias: ArrayLike | None = None,
    score: Callable[..., Any] | None = None,
    operands: Sequence[ArrayLike] = (),
    cu_seqlens_q: ArrayLike | None = None,
    cu_seqlens_k: ArrayLike | None = None,
    seqused_k: ArrayLike | None = None,
    page_table: ArrayLike | None = None,
    q_scale: ArrayLike | float | None = None,
    k_scale: ArrayLike | float | None = None,
    v_scale: ArrayLike | float | None = None,
    splits: int | None = None,
    return_lse: bool = False,
    stream: Stream | None = None,
    target: str | None = None,
) -> Any:
    """``softmax(scale * q k^T) v`` for each head; returns ``out``, or with ``return_lse`` also the logarithms.

    ``q`` is (batch, queries, heads, size), ``k`` (batch, keys, kv_heads, size) and ``v`` (batch, keys, kv_heads, value
    size). ``heads`` is a multiple of ``kv_heads``: head h of q attends to head ``h // (heads // kv_heads)``. All three
    are NumPy, torch, CuPy or JAX arrays of f16, or all of bf16, or all of e4m3; sizes are multiples of 16 bytes, up to
    256 elements. Arrays whose last axis is contiguous and whose other strides are multiples of 16 bytes are read as
    they lie; others are copied first.

    The last query stands at the last key: query i at key ``i + keys - queries``. With ``causal`` it sees no keys behind
    that one. ``window=(left, right)`` shows it ``left`` keys before and ``right`` keys behind it, and that one; None is
    no bound.

    A score is ``scale * q k^T``, where ``scale`` is ``1 / sqrt(size)`` by default; with a ``softcap`` above 0
    ``softcap * tanh(score / softcap)`` (tanh.approx). ``bias``, of f16, bf16 or f32, is added; it broadcasts to (batch,
    heads, queries, keys). ``score(s, batch, head, query, key, *operands)`` is a function of the caller's that is traced
    into the kernel: it takes the score as an f32 and four i32, and returns what it becomes, -infinity for a key that
    shall not be seen. ``operands`` are arrays that it reads.

    Packed sequences lie one behind the other, without padding: with ``cu_seqlens_q``, an i32 array of one entry more
    than there are sequences, q is (all queries, heads, size), and sequence i has its rows from entry i to entry i + 1;
    ``cu_seqlens_k`` says the same of k and v. With ``seqused_k``, an i32 for each sequence, only so many of its keys
    count. With ``page_table``, (sequences, pages) of i32, k and v are (pages, keys of a page, kv_heads, size), and page
    ``page_table[i, p]`` has the keys of sequence i from ``p * keys of a page`` on; a page has a multiple of 8 keys.

    Elements of e4m3 stand for themselves times a scale: ``q_scale``, ``k_scale`` and ``v_scale`` are arrays of f32 that
    broadcast to (batch, kv_heads), above 0, or numbers. The heads of q that share a head of keys have one. Weights are
    rounded to e4m3, too, 32 times as large as they are.

    ``splits`` is the number of parts of the keys that are worked on side by side, and added up in f32; None chooses it.

    ``out`` is (batch, queries, heads, value size), or (all queries, heads, value size); None makes a new array. It is
    of the type of q; beside e4m3 it is of bf16, or an array of f16. The logarithms are the natural ones of the sums of
    exponentials, (batch, heads, queries) or (heads, all queries) in f32: ``log(sum(exp(scores)))``. A query that sees
    no key gets zeros, and the logarithm -infinity. Scores and sums are f32, the weights of v are rounded to its type.

    Raises ArgumentError for arrays and options that don't fit. (Dao et al., "FlashAttention", arXiv 2205.14135; Shah et
    al., "FlashAttention-3", arXiv 2407.08608.)
    """
    arrays = (
        q, k, v, out, return_lse or None, bias, cu_seqlens_q, cu_seqlens_k, seqused_k, page_table, q_scale, k_scale,
        v_scale,
    )  # fmt: skip
    rest = (causal, window, scale, softcap, token(score), len(operands), splits, target)
    found = _CALLS.again(arrays, rest, stream)
    if found is not None:
        return found
    decorated.no_call("attention")
    packed = cu_seqlens_q is not None, cu_seqlens_k is not None
    heads = Heads.of(q, k, v, *packed, page_table is not None, types=(nv.f16, nv.bf16, nv.e4m3))
    lengths = Lengths.of(heads, cu_seqlens_q, cu_seqlens_k, seqused_k, page_table)
    page = heads.k.shape[1] if page_table is not None else 0
    most = page * lengths.table.spec.shape[1] if lengths.table is not None else heads.k.shape[1]
    left, right = options.window(window, causal, heads.q.shape[1] + most)
    factor = options.number("scale", heads.size**-0.5 if scale is None else scale, -math.inf, "leave it out")
    cap = options.number("softcap", softcap, 0.0, "0 is no softcap")
    added = options.bias(bias, heads, lengths)
    scales = [
        options.head_scale(name, x, heads, lengths)
        for name, x in (("q_scale", q_scale), ("k_scale", k_scale), ("v_scale", v_scale))
    ]
    options.check_score(score, operands)
    options.check_splits(splits)
    result, lse = _results(heads, lengths, out, return_lse)
    read = [*heads.arguments, *lengths.arguments, *[x.argument for x in (added, *scales) if x is not None]]
    apart = [(result.argument, x, False) for x in read]
    for one, other, _ in apart:
        one.check_apart(other)
    run: dict[str, Any] = {"stream": stream, "target": target}
    if not math.prod(result.shape):
        pass
    elif heads.k.shape[1] and most and lengths.batch:
        batch, queries, count, _ = heads.q.shape
        config, parts = choose(
            heads.size, heads.value_size, batch, queries, count, heads.kv_heads, most,
            bounded=right is not None, packed=lengths.packed, page=page, told=bias is not None or score is not None,
            splits=splits, sms=sms(target), itemsize=heads.dtype.bytes,
        )  # fmt: skip
        kernel = (combine if parts > 1 else forward).attention
        constants = {
            "config": config,
            "bounded": (left is not None, right is not None),
            "scores": ScoreKind(cap > 0, bias is not None, score, factor <= 0),
        }
        numbers = factor, left or 0, right or 0, parts, cap
        seen, there = [x.readable(run) for x in heads], result if result.fits_tma else result.beside()
        given: list[Any] = [Grouped(seen[0], heads.kv_heads), *seen[1:], Grouped(there, heads.kv_heads)]
        given += [*([] if parts > 1 else [None]), lse, *numbers, *lengths.views, added, *scales]
        if there is result and seen == list(heads) and not operands:
            _CALLS.run(kernel, given, constants, arrays, rest, stream, target, apart)
        else:
            views = [x if x is None or isinstance(x, int | float) else x.view() for x in given]
            kernel(*views, *operands, **constants, **run)
        if there is not result:
            copies.copy(there.view(), result.view(), **run)
    else:
        copies.nothing_seen(result.view(), None if lse is None else lse.view(), **run)
    return result.argument.result() if lse is None else (result.argument.result(), lse.argument.result())


_CALLS = Repeated(
    "q k v out lse bias cu_seqlens_q cu_seqlens_k seqused_k page_table q_scale k_scale v_scale", outputs="out lse"
)


def _results(heads: Heads, lengths: Lengths, out: Any, return_lse: bool) -> tuple[Operand, Reshaped | None]:
    """The result, and the logarithms as (1, batch, heads, queries)."""
    of_q = heads.q.argument
    *leading, _ = of_q.spec.shape
    types = (nv.bf16, nv.f16) if heads.dtype is nv.e4m3 else (heads.dtype,)
    result = Argument.output("out", out, of_q, (*leading, heads.value_size), types[0])
    if result.spec.dtype not in types:
        wanted = " or ".join(t.name for t in types)
        raise ArgumentError(
            f"out is of {result.spec.dtype.name}", rule=f"beside q of {heads.dtype.name} it is of {wanted}"
        )
    if not return_lse:
        return Operand(result), None
    batch, queries, count, _ = heads.q.shape
    shape = (count, queries) if lengths.packed else (batch, count, queries)
    return Operand(result), Reshaped(Argument.output("lse", None, of_q, shape, nv.f32), (1, batch, count, queries))
