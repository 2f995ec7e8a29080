"""``nv.attention``: softmax(scale * q k^T) v, for heads of any size up to 256."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any, TypeVar, cast

import nvdsl as nv
from nvdsl.driver.stream import Stream
from nvdsl.errors import ArgumentError, NvdslError
from nvdsl.errors.tracebacks import at_call, for_user
from nvdsl.kernels.arguments import Argument
from nvdsl.kernels.arraylike import ArrayLike
from nvdsl.kernels.attention import combine, copies, forward, options, tuned
from nvdsl.kernels.attention.choose import choose
from nvdsl.kernels.attention.heads import Grouped, Heads, Operand, Reshaped
from nvdsl.kernels.attention.options import Lengths
from nvdsl.kernels.attention.scores import ScoreKind
from nvdsl.kernels.gemm.launch import sms
from nvdsl.kernels.options import finite, switch
from nvdsl.kernels.repeated import Repeated
from nvdsl.trace import decorated
from nvdsl.trace.tokens import token

F = TypeVar("F", bound=Callable[..., Any])


def _plain_first(function: F) -> F:
    """Look first for a call like one before that has no options but ``causal``. To fill in the defaults of all others,
    and to look at them, is a tenth of what such a call takes Python."""

    @functools.wraps(function)
    def attention(q: Any, k: Any, v: Any, out: Any = None, *, causal: Any = False, **options: Any) -> Any:
        if not options:
            rest = _CAUSAL if causal is True else _FULL if causal is False else None
            if rest is not None:
                try:
                    found = _CALLS.launch((q, k, v, out), rest, None)
                except NvdslError as error:
                    raise for_user(error) from error.__cause__
                if found is not None:
                    return found if out is None else out
        return function(q, k, v, out, causal=causal, **options)

    return cast(F, attention)


@_plain_first
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
    ``cu_seqlens_k`` says the same of k and v. Rows of no sequence, before the first entry or behind the last one, are
    left in a given ``out``, and zeros in a new one; their logarithms are -infinity. With ``seqused_k``, an i32 for
    each sequence, only so many of its keys count. With ``page_table``, (sequences, pages) of i32, k and v are (pages,
    keys of a page, kv_heads, size), and page ``page_table[i, p]`` has the keys of sequence i from ``p * keys of a
    page`` on; a page has a multiple of 8 keys.

    Elements of e4m3 stand for themselves times a scale: ``q_scale``, ``k_scale`` and ``v_scale`` are arrays of f32 that
    broadcast to (batch, kv_heads), above 0, or numbers. The heads of q that share a head of keys have one. Weights are
    rounded to e4m3, too.

    ``splits`` is the number of parts of the keys that are worked on side by side, and added up in f32; None chooses it.

    ``out`` is (batch, queries, heads, value size), or (all queries, heads, value size); None makes a new array. It is
    of the type of q; beside e4m3 it is of bf16, or an array of f16. The logarithms are the natural ones of the sums of
    exponentials, (batch, heads, queries) or (heads, all queries) in f32: ``log(sum(exp(scores)))``. A query that sees
    no key gets zeros, and the logarithm -infinity. Scores and sums are f32, the weights of v are rounded to its type.

    Raises ArgumentError for arrays and options that don't fit. (Dao et al., "FlashAttention", arXiv 2205.14135; Shah et
    al., "FlashAttention-3", arXiv 2407.08608.)
    """
    try:
        if return_lse is not False:
            return_lse = switch("return_lse", return_lse)
        arrays: tuple[Any, ...] = q, k, v, out
        if operands.__class__ is not tuple:
            operands = options.operands(operands)
        told = (token(score), len(operands)) if operands or score is not None else None
        rest = causal, window, scale, softcap, told, splits, target
        alone = bias is cu_seqlens_q is cu_seqlens_k is seqused_k is page_table is q_scale is k_scale is v_scale is None
        if alone and not return_lse:
            found = _CALLS.launch(arrays, rest, stream)
            if found is not None:
                return found if out is None else out
        else:
            lse = True if return_lse else None
            arrays += lse, bias, cu_seqlens_q, cu_seqlens_k, seqused_k, page_table, q_scale, k_scale, v_scale
            found = _CALLS.again(arrays, rest, stream)
            if found is not None:
                return found
        decorated.no_call("attention")
        call = _Call(
            q, k, v, out, causal=causal, window=window, scale=scale, softcap=softcap, bias=bias, score=score,
            operands=operands, cu_seqlens_q=cu_seqlens_q, cu_seqlens_k=cu_seqlens_k, seqused_k=seqused_k,
            page_table=page_table, q_scale=q_scale, k_scale=k_scale, v_scale=v_scale, splits=splits,
            return_lse=return_lse, target=target,
        )  # fmt: skip
        if call.as_they_lie:
            _CALLS.run(call.kernel, call.given(call.heads, call.result), call.constants, arrays, rest, stream, target,
                       call.apart)  # fmt: skip
        else:
            call.run({"stream": stream, "target": target})
        result, logarithms = call.result.argument.result(), call.lse
        return result if logarithms is None else (result, logarithms.argument.result())
    except NvdslError as error:
        raise for_user(error) from error.__cause__  # as `at_call` does, which each repeated call would pay for


_CALLS = Repeated(
    "q k v out lse bias cu_seqlens_q cu_seqlens_k seqused_k page_table q_scale k_scale v_scale", outputs="out lse",
    settled=True,
)  # fmt: skip
_FULL, _CAUSAL = ((causal, (None, None), None, 0.0, None, None, None) for causal in (False, True))
"""What else decides a call of arrays alone: ``rest`` of `attention`."""


@at_call
def tune(
    q: ArrayLike, k: ArrayLike, v: ArrayLike, out: ArrayLike, *, budget: float = 60.0, force: bool = False,
    progress: Any = None, **options: Any,
) -> nv.Tuning:  # fmt: skip
    """Search for the fastest configuration of ``attention(q, k, v, out, **options)``, and keep it (docs/tuning.md).

    The arrays' contents are left alone. ``budget``: seconds, about. ``force``: search although the answer is known.
    Returns an `nvdsl.Tuning`. Raises ArgumentError for a call for which there is nothing to choose.
    """
    call = _Call(q, k, v, out, **options)
    if call.kernel is not tuned.attention or not call.as_they_lie:
        raise ArgumentError(
            "a call with nothing to tune", rule="what is tuned is one kernel on arrays that TMA can read",
            fix="leave out splits=, and pass aligned arrays with some keys",
        )  # fmt: skip
    given = [x if x is None or isinstance(x, int | float) else x.view() for x in call.given(call.heads, call.result)]
    return tuned.attention.tune(*given, **call.constants, budget=budget, force=force, progress=progress)


setattr(attention, "tune", tune)  # noqa: B010  (a function has no such attribute, says mypy)


class _Call:
    """A call that was checked: which kernel runs it, and with what. ``kernel`` is None where there are no keys."""

    def __init__(
        self, q: Any, k: Any, v: Any, out: Any, *, causal: bool = False, window: Any = (None, None),
        scale: float | None = None, softcap: float = 0.0, bias: Any = None, score: Any = None,
        operands: Sequence[Any] = (), cu_seqlens_q: Any = None, cu_seqlens_k: Any = None, seqused_k: Any = None,
        page_table: Any = None, q_scale: Any = None, k_scale: Any = None, v_scale: Any = None,
        splits: int | None = None, return_lse: bool = False, target: str | None = None,
    ) -> None:  # fmt: skip
        packed = cu_seqlens_q is not None, cu_seqlens_k is not None
        self.heads = heads = Heads.of(q, k, v, *packed, page_table is not None, types=(nv.f16, nv.bf16, nv.e4m3))
        self.lengths = lengths = Lengths.of(heads, cu_seqlens_q, cu_seqlens_k, seqused_k, page_table)
        page = heads.k.shape[1] if page_table is not None else 0
        most = page * lengths.table.spec.shape[1] if lengths.table is not None else heads.k.shape[1]
        left, right = options.window(window, causal, heads.q.shape[1] + most)
        factor = finite("scale", heads.size**-0.5 if scale is None else scale, fix="leave it out")
        cap = finite("softcap", softcap, 0.0, "0 is no softcap")
        scales = {"q_scale": q_scale, "k_scale": k_scale, "v_scale": v_scale}
        self.added = [options.bias(bias, heads, lengths)]
        self.added += [options.head_scale(name, x, heads, lengths) for name, x in scales.items()]
        options.check_score(score, operands)
        splits = options.splits(splits)
        self.operands = operands
        self.result, self.lse = _results(heads, lengths, out, return_lse)
        read = [*heads.arguments, *lengths.arguments, *[x.argument for x in self.added if x is not None]]
        self.apart = [(self.result.argument, x, False) for x in read]
        for one, other, _ in self.apart:
            one.check_apart(other)
        self.nothing, self.new = not math.prod(self.result.shape), out is None
        self.kernel: Any = None
        if self.nothing or not (heads.k.shape[1] and most and lengths.batch):
            return
        batch, count = lengths.batch, heads.q.shape[2]
        queries = -(-heads.q.shape[1] // batch) if lengths.packed else heads.q.shape[1]  # of a sequence, in the mean
        keys = -(-most // batch) if lengths.k_starts is not None else most
        config, self.parts = choose(
            heads.size, heads.value_size, batch, queries, count, heads.kv_heads, keys,
            bounded=right is not None, packed=lengths.packed, page=page,
            told=bias is not None or score is not None or factor <= 0, splits=splits, sms=sms(target),
            itemsize=heads.dtype.bytes, seen=None if left is None or right is None else left + right + 1,
            left=left is not None, ragged=lengths.k_starts is not None or lengths.used is not None,
            function=score is not None and bias is None and factor > 0,
        )  # fmt: skip
        alone: Any = tuned.attention if splits is None else forward.attention
        self.kernel = combine.attention if self.parts > 1 else alone
        self.constants = {
            "config": config,
            "bounded": (left is not None, right is not None),
            "scores": ScoreKind(cap > 0, bias is not None, score, factor <= 0),
        }
        shares = Reshaped(self.heads.q.argument, (self.parts,), (0,)) if self.parts > 1 else self.parts
        self._numbers = factor, left or 0, right or 0, shares, cap, int(self.new)  # shares: see combine.attention

    @property
    def as_they_lie(self) -> bool:
        """Whether the kernel takes all arrays as they are given."""
        return self.kernel is not None and not self.operands and all(x.fits_tma for x in (*self.heads, self.result))

    def given(self, heads: Sequence[Operand], result: Operand) -> list[Any]:
        """What the kernel takes, in its order, with these for q, k and v, and for the result."""
        q, o = (Grouped(x, self.heads.kv_heads) for x in (heads[0], result))
        parts = [] if self.parts > 1 else [None]
        return [q, *heads[1:], o, *parts, self.lse, *self._numbers, *self.lengths.views, *self.added]

    def run(self, run: dict[str, Any]) -> None:
        """Run it, between copies of what TMA can't read or write."""
        lse = None if self.lse is None else self.lse.view()
        if self.kernel is not None:
            there = self.result if self.result.fits_tma else self.result.beside()
            if there is not self.result and self.lengths.packed:  # for rows of no sequence
                copies.copy(self.result.view(), there.view(), **run)
            given = self.given([x.readable(run) for x in self.heads], there)
            views = [x if x is None or isinstance(x, int | float) else x.view() for x in given]
            self.kernel(*views, *self.operands, **self.constants, **run)
            if there is not self.result:
                copies.copy(there.view(), self.result.view(), **run)
        elif not self.nothing:
            there = self.result if self.lengths.batch or self.new else self.result.beside()  # no sequences: left
            copies.nothing_seen(there.view(), lse, **run)


def _results(heads: Heads, lengths: Lengths, out: Any, return_lse: bool) -> tuple[Operand, Reshaped | None]:
    """The result, and the logarithms as (1, batch, heads, queries)."""
    of_q = heads.q.argument
    *leading, _ = of_q.spec.shape
    types = (nv.bf16, nv.f16) if heads.dtype is nv.e4m3 else (heads.dtype,)
    result = Argument.output("out", out, of_q, (*leading, heads.value_size), types[0])
    if result.spec.dtype not in types:
        wanted = " or ".join(t.name for t in types)
        raise ArgumentError(
            f"out is of {result.spec.dtype.name}", rule=f"beside q of {heads.dtype.name} it is of {wanted}",
            fix="pass none: out=None makes one",
        )  # fmt: skip
    if not return_lse:
        return Operand(result), None
    batch, queries, count, _ = heads.q.shape
    shape = (count, queries) if lengths.packed else (batch, count, queries)
    return Operand(result), Reshaped(Argument.output("lse", None, of_q, shape, nv.f32), (1, batch, count, queries))
