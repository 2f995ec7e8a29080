"""attention, and a drop-in for scaled_dot_product_attention."""

from __future__ import annotations

import math
from typing import Any

import torch

import nvdsl as nv
from nvdsl.torch.operators import Tensor, autocast, gradient, like, nothing, of_tensors, operator

_ARRAYS = "Tensor? bias, Tensor? cu_seqlens_q, Tensor? cu_seqlens_k"
_OPTIONS = "bool causal, SymInt? left, SymInt? right, float? scale, float softcap"


def _made(q: Tensor, k: Tensor, v: Tensor, *rest: Any) -> tuple[Tensor, Tensor]:
    *outer, queries, heads, _ = q.shape
    return like(q, (*outer, queries, heads, v.shape[-1])), like(q, (*outer, heads, queries), dtype=torch.float32)


@operator(f"(Tensor q, Tensor k, Tensor v, {_ARRAYS}, {_OPTIONS}) -> (Tensor, Tensor)", _made)
def attention_heads(
    q: Tensor, k: Tensor, v: Tensor, bias: Tensor | None, cu_seqlens_q: Tensor | None, cu_seqlens_k: Tensor | None,
    causal: bool, left: int | None, right: int | None, scale: float | None, softcap: float,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """The result, and the logarithms of the sums."""
    options = _options(bias, cu_seqlens_q, cu_seqlens_k, causal, left, right, scale, softcap)
    found: tuple[Tensor, Tensor] = nv.attention(q, k, v, return_lse=True, **options)
    return found


def _alone(q: Tensor, k: Tensor, v: Tensor, *rest: Any) -> tuple[Tensor, None]:
    return nv.attention(q, k, v, **_options(*rest)), None


def _options(
    bias: Tensor | None, cu_seqlens_q: Tensor | None, cu_seqlens_k: Tensor | None, causal: bool, left: int | None,
    right: int | None, scale: float | None, softcap: float,
) -> dict[str, Any]:  # fmt: skip
    """nvdsl's: those that say something. It finds a call by as many as are given."""
    found: dict[str, Any] = {"causal": True} if causal else {}
    if left is not None or right is not None:
        found["window"] = left, right
    if scale is not None:
        found["scale"] = scale
    if softcap:
        found["softcap"] = softcap
    arrays = ("bias", bias), ("cu_seqlens_q", cu_seqlens_q), ("cu_seqlens_k", cu_seqlens_k)
    return found | {name: array for name, array in arrays if array is not None}


def _gradients(dout: Tensor, q: Tensor, k: Tensor, v: Tensor, out: Tensor, lse: Tensor, *rest: Any) -> Any:
    bias, of_bias = rest[0], rest[-1]
    return like(q), like(k), like(v), like(bias) if of_bias else nothing(q)


@operator(
    f"(Tensor dout, Tensor q, Tensor k, Tensor v, Tensor out, Tensor lse, {_ARRAYS}, {_OPTIONS}, bool of_bias)"
    " -> (Tensor, Tensor, Tensor, Tensor)",
    _gradients,
)
def attention_heads_backward(
    dout: Tensor, q: Tensor, k: Tensor, v: Tensor, out: Tensor, lse: Tensor, bias: Tensor | None,
    cu_seqlens_q: Tensor | None, cu_seqlens_k: Tensor | None, causal: bool, left: int | None, right: int | None,
    scale: float | None, softcap: float, of_bias: bool,
) -> tuple[Tensor, Tensor, Tensor, Tensor | None]:  # fmt: skip
    """The last one is that of the bias, if it wants one. Where all are to be the same in every run, it is added up by
    torch."""
    deterministic, its = torch.are_deterministic_algorithms_enabled(), bias
    if of_bias and deterministic and bias is not None:
        its = bias.expand(q.shape[0], q.shape[2], q.shape[1], k.shape[1])
    options = _options(its, cu_seqlens_q, cu_seqlens_k, causal, left, right, scale, softcap)
    dq, dk, dv, *rest = nv.attention_backward(
        dout, q, k, v, out, lse, deterministic=deterministic, dbias=of_bias, **options
    )
    if bias is None or not rest:
        return dq, dk, dv, None
    return dq, dk, dv, rest[0].sum_to_size(bias.shape).to(bias.dtype)


def _keep(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    q, k, v, bias, q_starts, k_starts, *ctx.options = inputs
    ctx.save_for_backward(q, k, v, *output, bias, q_starts, k_starts)
    ctx.set_materialize_grads(False)  # else torch makes zeros for the logarithms, which nobody uses


def _backward(ctx: Any, dout: Tensor, *rest: Any) -> tuple[Any, ...]:
    of_bias = ctx.needs_input_grad[3]
    dq, dk, dv, dbias = attention_heads_backward(dout, *ctx.saved_tensors, *ctx.options, of_bias)
    return dq, dk, dv, dbias if of_bias else None, *[None] * 7


gradient(attention_heads, _backward, _keep, _alone, public=1)


@of_tensors
def attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    causal: bool = False,
    window: tuple[int | None, int | None] = (None, None),
    scale: float | None = None,
    softcap: float = 0.0,
    bias: Tensor | None = None,
    cu_seqlens_q: Tensor | None = None,
    cu_seqlens_k: Tensor | None = None,
) -> Tensor:
    """`nvdsl.attention` of f16 or bf16: ``q`` is (batch, queries, heads, size), ``k`` and ``v`` (batch, keys, kv_heads,
    size). For the options see there. The gradients of q and of ``bias`` are the same in every run where
    `torch.use_deterministic_algorithms` says so. In a region of `torch.autocast` q, k and v become its type. Raises
    ValueError for other types, for a ``window`` that is no pair, and for a ``bias`` that wants a gradient beside a
    softcap: it would get none.
    """
    if bias is not None and softcap and bias.requires_grad and torch.is_grad_enabled():
        raise ValueError("the gradient of a bias is not computed beside a softcap: pass bias.detach()")
    q, k, v = autocast(q, k, v)
    if q.dtype not in (torch.float16, torch.bfloat16):
        raise ValueError(f"q is of {q.dtype}: attention in torch is of float16 or bfloat16")
    if not isinstance(window, tuple | list) or len(window) != 2:
        raise ValueError(f"window={window!r}: it is (left, right), keys before and behind its own that a query sees")
    starts = cu_seqlens_q, cu_seqlens_k
    out: Tensor = attention_heads(q, k, v, bias, *starts, causal, *window, scale, softcap)[0]
    return out


@of_tensors
def scaled_dot_product_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Tensor:
    """`torch.nn.functional.scaled_dot_product_attention` of f16 or bf16, by `nvdsl.attention`.

    ``query`` is (..., heads, queries, size), or (queries, size); ``key`` and ``value`` likewise, with fewer heads if
    ``enable_gqa``. The axes before the heads broadcast. With ``is_causal``, query i sees the keys 0 to i, also where
    there are more keys than queries, or fewer. ``attn_mask`` is of bools, True where a key is seen, or of numbers that
    are added. Heads whose size is no multiple of 8 are filled up with zeros. Raises ValueError for dropout, for a mask
    beside ``is_causal``, and for one of another shape or type.
    """
    if dropout_p:
        raise ValueError(f"dropout_p={dropout_p}: nvdsl's attention has no dropout")
    if is_causal and attn_mask is not None:
        raise ValueError("is_causal beside attn_mask: the mask says what is seen")
    flat = min(x.dim() for x in (query, key, value)) == 2
    if flat:
        query, key, value = (x.unsqueeze(-3) for x in (query, key, value))
    heads, shared = query.shape[-3], key.shape[-3]
    if heads != shared and not enable_gqa:
        raise ValueError(f"{heads} heads of queries and {shared} of keys, without enable_gqa")
    size, value_size = query.shape[-1], value.shape[-1]
    batch = torch.broadcast_shapes(*(x.shape[:-3] for x in (query, key, value)))
    q, k, v = (_filled_up(_in_one_batch(x, batch)).transpose(1, 2) for x in (query, key, value))
    queries, keys = q.shape[1], k.shape[1]
    bias = None if attn_mask is None else _bias(attn_mask, batch, (*batch, heads, queries, keys))
    seen = min(queries, keys) if is_causal else keys  # keys behind the last query are seen by none
    window = (None, queries - seen if is_causal else None)
    scale = size**-0.5 if scale is None else scale
    out = attention(q, k[:, :seen], v[:, :seen], window=window, scale=scale, bias=bias)[..., :value_size]
    out = out.transpose(1, 2).reshape(*batch, heads, queries, value_size)
    return out.squeeze(-3) if flat else out


def _bias(mask: Tensor, batch: torch.Size, scores: tuple[int, ...]) -> Tensor:
    """What is added to scores of this shape."""
    try:
        fits = torch.broadcast_shapes(mask.shape, scores) == torch.Size(scores)
    except RuntimeError:
        fits = False
    if not fits:
        raise ValueError(f"attn_mask has the shape {tuple(mask.shape)}: it broadcasts to {tuple(scores)}")
    if mask.dtype == torch.bool:
        mask = torch.zeros_like(mask, dtype=torch.bfloat16).masked_fill(~mask, -math.inf)
    elif mask.dtype not in (torch.float16, torch.bfloat16, torch.float32):
        raise ValueError(f"attn_mask is of {mask.dtype}: it is of bool, float16, bfloat16 or float32")
    return _in_one_batch(mask, batch) if mask.dim() > 3 else mask


def _in_one_batch(x: Tensor, batch: torch.Size) -> Tensor:
    """With one axis before the heads, for all of ``batch``."""
    if x.shape[:-3] == batch and len(batch) == 1:
        return x
    return x.expand(*batch, *x.shape[-3:]).reshape(math.prod(batch), *x.shape[-3:])


def _filled_up(x: Tensor) -> Tensor:
    """With heads of a multiple of 8 elements."""
    missing = -x.shape[-1] % 8
    return torch.nn.functional.pad(x, (0, missing)) if missing else x
