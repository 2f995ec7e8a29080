"""``nv.attention``: softmax(scale * q k^T) v, for heads of any size up to 256."""

from __future__ import annotations

import math
import numbers
from typing import Any

import numpy as np

import nvdsl as nv
from nvdsl.driver.stream import Stream
from nvdsl.errors import ArgumentError
from nvdsl.errors.tracebacks import at_call
from nvdsl.kernels.arguments import Argument
from nvdsl.kernels.arraylike import ArrayLike
from nvdsl.kernels.attention import config as configs
from nvdsl.kernels.attention import copies, forward
from nvdsl.kernels.attention.heads import Heads
from nvdsl.kernels.attention.scores import ScoreKind
from nvdsl.kernels.gemm.launch import sms
from nvdsl.trace import decorated


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
    return_lse: bool = False,
    stream: Stream | None = None,
    target: str | None = None,
) -> Any:
    """``softmax(scale * q k^T) v`` for each head; returns ``out``, or with ``return_lse`` also the logarithms.

    ``q`` is (batch, queries, heads, size), ``k`` (batch, keys, kv_heads, size) and ``v`` (batch, keys, kv_heads, value
    size). ``heads`` is a multiple of ``kv_heads``: head h of q attends to head ``h // (heads // kv_heads)``. All three
    are NumPy, torch, CuPy or JAX arrays of f16 or all of bf16; sizes are multiples of 8, up to 256. Arrays whose last
    axis is contiguous and whose other strides are multiples of 16 bytes are read as they lie; others are copied first.

    The last query stands at the last key: query i at key ``i + keys - queries``. With ``causal`` it sees no keys behind
    that one. ``window=(left, right)`` shows it ``left`` keys before and ``right`` keys behind it, and that one; None is
    no bound. ``scale`` is ``1 / sqrt(size)`` by default.

    ``out`` is (batch, queries, heads, value size); None makes a new array, of the type of q. The logarithms are the
    natural ones of the sums of exponentials, (batch, heads, queries) in f32: ``log(sum(exp(scale * q k^T)))``. A query
    that sees no key gets zeros, and the logarithm -infinity. Scores and sums are f32, the weights of v are rounded to
    its type.

    Raises ArgumentError for arrays and options that don't fit. (Dao et al., "FlashAttention", arXiv 2205.14135; Shah et
    al., "FlashAttention-3", arXiv 2407.08608.)
    """
    decorated.no_call("attention")
    heads = Heads.of(q, k, v)
    left, right = _window(window, causal, heads.queries + heads.keys)
    scale = _scale(scale, heads.size)
    result = Argument.output("out", out, heads.q, (*heads.q.spec.shape[:3], heads.value_size), heads.dtype)
    if result.spec.dtype is not heads.dtype:
        raise ArgumentError(f"out is of {result.spec.dtype.name}", rule=f"it is of the type of q, {heads.dtype.name}")
    for one in (heads.q, heads.k, heads.v):
        result.check_apart(one)
    lse = None
    if return_lse:
        lse = Argument.output("lse", None, heads.q, (heads.batch, heads.heads, heads.queries), nv.f32)
    run: dict[str, Any] = {"stream": stream, "target": target}
    if heads.keys and math.prod(result.spec.shape):
        shape = heads.size, heads.value_size, heads.queries, heads.group
        chosen = configs.choose(*shape, right is not None, sms(target))
        given = [_readable(x, run) for x in (heads.q, heads.k, heads.v)]
        there = result if _fits_tma(result) else _beside(result)
        q, k, v, o = (heads.grouped(x) if x in (given[0], there) else x.view() for x in (*given, there))
        logs = None if lse is None else lse.view((1, *lse.spec.shape))
        forward.attention(
            q, k, v, o, None, logs, scale, left or 0, right or 0, 1, 0.0, None, None, None, None, None,
            config=chosen, bounded=(left is not None, right is not None), scores=ScoreKind(signed=scale <= 0), **run,
        )  # fmt: skip
        if there is not result:
            copies.copy(there.view(), result.view(), **run)
    elif math.prod(result.spec.shape):
        copies.nothing_seen(result.view(), None if lse is None else lse.view(), **run)
    return result.result() if lse is None else (result.result(), lse.result())


def _window(window: Any, causal: bool, everything: int) -> tuple[int | None, int | None]:
    """Bounds on the left and on the right; None where there is none. More than ``everything`` is that."""
    pair = tuple(window) if isinstance(window, tuple | list) else ()
    fits = len(pair) == 2 and all(x is None or isinstance(x, int | np.integer) and x >= 0 for x in pair)
    if not fits:
        raise ArgumentError(
            f"window={window!r}",
            rule="a window is (left, right): how many keys before and behind its own a query sees, or None for all",
            fix="window=(128, 0) shows each query 128 keys before its own, and that one",
        )
    left, right = (None if x is None else min(int(x), everything) for x in pair)
    return left, 0 if causal else right


def _scale(scale: Any, size: int) -> float:
    if scale is None:
        return 1 / math.sqrt(size)
    if not isinstance(scale, numbers.Real) or not math.isfinite(scale):
        raise ArgumentError(f"scale={scale!r}", rule="scale is a finite number", fix="leave it out: 1 / sqrt(size)")
    return float(scale)


def _fits_tma(x: Argument) -> bool:
    """Whether TMA can read or write an array: aligned, rows contiguous, strides of whole 16 bytes."""
    *steps, last = x.spec.strides
    whole = 16 // x.spec.dtype.bytes
    return x.aligned and last == 1 and all(step > 0 and step % whole == 0 for step in steps)


def _readable(x: Argument, run: dict[str, Any]) -> Argument:
    if _fits_tma(x):
        return x
    copied = _beside(x)
    copies.copy(x.view(), copied.view(), **run)
    return copied


def _beside(x: Argument) -> Argument:
    return Argument.output(x.name, None, x, x.spec.shape, x.spec.dtype)
