"""``nv.attention_backward``: the gradients of ``nv.attention``."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

import nvdsl as nv
from nvdsl.driver.stream import Stream
from nvdsl.errors import ArgumentError
from nvdsl.errors.tracebacks import at_call
from nvdsl.kernels.arguments import Argument
from nvdsl.kernels.arraylike import ArrayLike
from nvdsl.kernels.attention import copies, options
from nvdsl.kernels.attention.gradient_bias import clear
from nvdsl.kernels.attention.gradient_config import (
    MOST_DESCENDING,
    MOST_SHARES,
    Config,
    choose,
    rows_seen,
    shares,
)
from nvdsl.kernels.attention.gradient_kernels import gradients
from nvdsl.kernels.attention.heads import Heads, Operand, Reshaped
from nvdsl.kernels.attention.scores import ScoreFunction, ScoreKind
from nvdsl.kernels.gemm.launch import sms
from nvdsl.kernels.options import finite, switch
from nvdsl.kernels.repeated import Repeated
from nvdsl.trace import decorated
from nvdsl.trace.tokens import token


@at_call
def attention_backward(
    dout: ArrayLike,
    q: ArrayLike,
    k: ArrayLike,
    v: ArrayLike,
    out: ArrayLike,
    lse: ArrayLike,
    *,
    causal: bool = False,
    window: tuple[int | None, int | None] = (None, None),
    scale: float | None = None,
    softcap: float = 0.0,
    bias: ArrayLike | None = None,
    score: ScoreFunction | None = None,
    operands: Sequence[ArrayLike] = (),
    deterministic: bool = False,
    cu_seqlens_q: ArrayLike | None = None,
    cu_seqlens_k: ArrayLike | None = None,
    seqused_k: None = None,
    page_table: None = None,
    dq: ArrayLike | None = None,
    dk: ArrayLike | None = None,
    dv: ArrayLike | None = None,
    dbias: ArrayLike | bool | None = None,
    stream: Stream | None = None,
    target: str | None = None,
) -> tuple[Any, ...]:
    """The gradients ``(dq, dk, dv)`` of a loss of which ``dout`` is the gradient at the result of `attention`.

    ``q``, ``k``, ``v``, ``causal``, ``window``, ``scale``, ``softcap``, ``bias``, ``score`` and ``operands`` are what
    `attention` was called with; ``out`` and ``lse`` are what it returned, with ``return_lse=True``. ``dout`` has the
    shape and the type of ``out``. ``score`` returns the score, plus or minus what does not depend on it, or -infinity:
    the gradients of other functions of scores are refused.

    ``dq``, ``dk`` and ``dv`` have the shapes and the type of q, k and v; None makes a new array. Heads of q that share
    a head of k and v add up in ``dk`` and ``dv``. A query that sees no key, and a key that no query sees, get zeros.
    Products are summed in f32; the weights, and the gradients of the scores, are rounded to the type of q before they
    are multiplied. ``dk`` and ``dv`` are the same bits each time; ``dq`` is added up in the order in which blocks are
    done, or with ``deterministic`` in that of the keys: it is the same bits each time, too, and blocks wait for each
    other.

    ``dbias``: an array of f32 of bias's shape for its gradient, or True for a new one; the gradients are four then.
    What a bias is added to for several batches, heads or queries adds up in it, in the order in which blocks are done.
    A softcap beside it is refused.

    With ``cu_seqlens_q`` and ``cu_seqlens_k`` sequences are packed as `attention` takes them: the arrays have no axis
    of batches, and ``lse`` is (heads, queries). Rows of no sequence are left in given arrays, and zeros in new ones.
    ``seqused_k`` and ``page_table`` are refused: caches of keys have no gradients.

    It takes memory for ``dq`` in f32, and for two f32 each query and head, for the time of the call.

    Raises ArgumentError for arrays and options that don't fit. (Dao, "FlashAttention-2", arXiv 2307.08691.)
    """
    others = (True if x is None else x for x in (dk, dv))
    arrays = (dout, q, k, v, out, lse, dq, *others, bias, cu_seqlens_q, cu_seqlens_k)
    operands = options.operands(operands)
    rest = (causal, window, scale, softcap, token(score), len(operands), deterministic, target)
    alone = dbias is None or isinstance(dbias, bool | np.bool_) and not dbias
    found = _CALLS.again(arrays, rest, stream) if alone else None
    if found is not None:
        return found
    decorated.no_call("attention_backward")
    _check_caches(seqused_k=seqused_k, page_table=page_table)
    heads = Heads.of(q, k, v, cu_seqlens_q is not None, cu_seqlens_k is not None)
    lengths = options.Lengths.of(heads, cu_seqlens_q, cu_seqlens_k, None, None)
    left, right = options.window(window, causal, heads.q.shape[1] + heads.k.shape[1])
    factor = finite("scale", heads.size**-0.5 if scale is None else scale, fix="leave it out")
    cap = finite("softcap", softcap, 0.0, "0 is no softcap")
    added = options.bias(bias, heads, lengths)
    options.check_score(score, operands)
    ordered = switch("deterministic", deterministic)
    of_q = heads.q.argument
    *outer, queries, many, _ = of_q.spec.shape
    shape = (*of_q.spec.shape[:-1], heads.value_size)
    of_out = [Operand(_like(name, x, shape, heads.dtype)) for name, x in (("dout", dout), ("out", out))]
    logarithms = _like("lse", lse, (*outer, many, queries), nv.f32)
    given = [of_out[0], *heads, of_out[1]]
    read = [*(x.argument for x in given), logarithms, *lengths.arguments, *([] if added is None else [added.argument])]
    wanted = [_output(*each) for each in zip(("dq", "dk", "dv"), (dq, dk, dv), heads, strict=True)]
    of_bias = None if alone else _of_bias(dbias, added, cap, ordered, heads)
    results = [x.argument for x in wanted] + ([] if of_bias is None else [of_bias.argument])
    apart = [(x, other, False) for i, x in enumerate(results) for other in (*read, *results[:i])]
    for one, other, _ in apart:
        one.check_apart(other)
    run: dict[str, Any] = {"stream": stream, "target": target}
    if of_bias is not None and 0 not in of_bias.shape:
        clear(of_bias.view(), **run)
    if all(math.prod(x.shape) for x in wanted) and lengths.batch:
        seen, there = [x.readable(run) for x in given], [x if x.fits_tma else x.beside() for x in wanted]
        bounded, starts = (left is not None, right is not None), lengths.views[:2]
        kind = ScoreKind(cap > 0.0, bias is not None, score)
        config, cut = _chosen(heads, lengths, kind, left, right, ordered, sms(target))
        shared = Reshaped(of_q, cut, (0, 0)) if math.prod(cut) > 1 else None
        interleaved = ordered and bounded == (False, True) and heads.group > 1
        constants: dict[str, Any] = {
            "config": config, "bounded": bounded, "scores": kind, "ordered": ordered, "interleaved": interleaved,
        }  # fmt: skip
        new = sum((x is None) << i for i, x in enumerate((dq, dk, dv)))
        numbers = factor, left or 0, right or 0, cap
        arguments: list[Any] = [*seen, _batched(logarithms), *there, *starts, added, of_bias, shared, new, *numbers]
        if seen == given and there == wanted and not operands and of_bias is None:
            _CALLS.run(gradients, arguments, constants, arrays, rest, stream, target, apart)
        else:
            for x, source in zip(wanted, there, strict=True):
                if x is not source and any(y is not None for y in starts):  # for rows of no sequence
                    copies.copy(x.view(), source.view(), **run)
            views = [x.view() if hasattr(x, "view") else x for x in arguments]
            gradients(*views, *operands, **constants, **run)
        for x, source in zip(wanted, there, strict=True):
            if x is not source:
                copies.copy(source.view(), x.view(), **run)
    else:
        for x, array in zip(wanted, (dq, dk, dv), strict=True):
            if math.prod(x.shape) and (lengths.batch or array is None):
                copies.nothing_seen(x.view(), None, **run)
    return tuple(x.result() for x in results)


_CALLS = Repeated("dout q k v out lse dq dk dv bias cu_seqlens_q cu_seqlens_k", outputs="dq dk dv", settled=True)


def _chosen(
    heads: Heads, lengths: options.Lengths, kind: ScoreKind, left: int | None, right: int | None, ordered: bool,
    sms: int,
) -> tuple[Config, tuple[int, int]]:  # fmt: skip
    """The configuration, and into how many parts the queries of a tile of keys, and the heads of q that share it, are
    cut."""
    two, capped = left is not None and right is not None, kind.softcap
    packed = lengths.packed or lengths.k_starts is not None
    each = -(-heads.q.shape[1] // (max(lengths.batch, 1) if lengths.packed else 1))
    rows = rows_seen(each, left, right)
    more, most = two or capped or packed, kind.told or packed and capped
    tight = two and capped or kind.told and (left is not None or right is not None)

    def configured(parts: int) -> Config:
        sizes = heads.size, heads.value_size
        return choose(*sizes, more, most, heads.group * rows / parts, tight, shared=parts > 1)

    config = configured(1)
    if kind.told and config.wide or packed and two and config.apart:  # no registers are left for parts
        return config, (1, 1)
    columns = -(-heads.k.shape[1] // config.tile_n) + (lengths.batch if lengths.k_starts is not None else 0)
    tiles = columns * heads.kv_heads * heads.k.shape[0]
    most_shares = MOST_DESCENDING if ordered and left is None and right is not None else MOST_SHARES
    cut = shares(config, tiles, heads.group, rows, rows if two else each, sms, most_shares)
    return configured(math.prod(cut)), cut


def _batched(lse: Argument) -> Reshaped:
    """The logarithms as (batch, heads, queries)."""
    shape, strides = lse.spec.shape, lse.spec.strides
    if len(shape) == 2:
        shape, strides = (1, *shape), (shape[0] * strides[0], *strides)
    return Reshaped(lse, shape, strides)


def _output(name: str, array: Any, of: Operand) -> Operand:
    found = Argument.output(name, array, of.argument, of.argument.spec.shape, of.dtype)
    if found.spec.dtype is not of.dtype:
        raise ArgumentError(f"{name} is of {found.spec.dtype.name}", rule=f"it is of the type of q, {of.dtype.name}")
    return Operand(found)


def _check_caches(**given: Any) -> None:
    for name, x in given.items():
        if x is not None:
            raise ArgumentError(
                f"{name}=...",
                rule="attention beside a cache of keys has no gradients",
                fix="pass the keys that are in use as k and v, packed with cu_seqlens_k where their numbers differ",
            )


def _of_bias(given: Any, bias: Reshaped | None, cap: float, ordered: bool, heads: Heads) -> Reshaped:
    """Where the gradient of ``bias`` goes. Raises ArgumentError where it has none."""
    if bias is None:
        raise ArgumentError("dbias without bias", rule="it is the gradient of bias", fix="pass the forward call's bias")
    if cap > 0.0:
        raise ArgumentError(
            f"dbias with softcap={cap}",
            rule="the gradient of a bias is computed without a softcap",
            fix="leave one of them out",
        )
    shape = bias.argument.spec.shape
    every = heads.q.shape[0], heads.heads, heads.q.shape[1], heads.k.shape[1]
    if ordered and bias.shape != every:
        raise ArgumentError(
            f"dbias of a bias of the shape {shape} with deterministic=True",
            rule="sums over what a bias is added to are the same bits each time where none are taken",
            fix=f"broadcast the bias to {every}, and add its gradient up yourself",
        )
    array = None if isinstance(given, bool | np.bool_) else given
    found = Argument.output("dbias", array, bias.argument, shape, nv.f32)
    if found.spec.dtype is not nv.f32:
        raise ArgumentError(f"dbias is of {found.spec.dtype.name}", rule="the gradient of a bias is of f32")
    return options.with_four_axes(found)


def _like(name: str, array: Any, shape: tuple[int, ...], dtype: nv.DType) -> Argument:
    found = Argument.of(name, array)
    if found.spec.shape != shape or found.spec.dtype is not dtype:
        raise ArgumentError(
            f"{name} has the shape {found.spec.shape} and is of {found.spec.dtype.name}",
            rule=f"its shape is {shape}, and it is of {dtype.name}",
            fix="out and lse are what nv.attention(q, k, v, return_lse=True) returns",
        )
    return found
