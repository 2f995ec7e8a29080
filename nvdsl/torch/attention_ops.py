"""attention, and a drop-in for scaled_dot_product_attention."""

from __future__ import annotations

import math
from typing import Any

import torch

import nvdsl as nv
from nvdsl.torch.operators import Tensor, gradient, like, operator

_OPTIONS = "bool causal, int? left, int? right, float? scale, float softcap"


def _made(q: Tensor, k: Tensor, v: Tensor, *rest: Any) -> tuple[Tensor, Tensor]:
    batch, queries, heads, _ = q.shape
    out = like(q, (batch, queries, heads, v.shape[-1]))
    return out, like(q, (batch, heads, queries), dtype=torch.float32)


@operator(f"(Tensor q, Tensor k, Tensor v, Tensor? bias, {_OPTIONS}) -> (Tensor, Tensor)", _made)
def attention_heads(
    q: Tensor, k: Tensor, v: Tensor, bias: Tensor | None, causal: bool, left: int | None, right: int | None,
    scale: float | None, softcap: float,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """The result, and the logarithms of the sums."""
    found: tuple[Tensor, Tensor] = nv.attention(
        q, k, v, causal=causal, window=(left, right), scale=scale, softcap=softcap, bias=bias, return_lse=True
    )
    return found


@operator(
    f"(Tensor dout, Tensor q, Tensor k, Tensor v, Tensor out, Tensor lse, Tensor? bias, {_OPTIONS})"
    " -> (Tensor, Tensor, Tensor)",
    lambda dout, q, k, v, *rest: (like(q), like(k), like(v)),
)
def attention_heads_backward(
    dout: Tensor, q: Tensor, k: Tensor, v: Tensor, out: Tensor, lse: Tensor, bias: Tensor | None, causal: bool,
    left: int | None, right: int | None, scale: float | None, softcap: float,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    deterministic = torch.are_deterministic_algorithms_enabled()
    return nv.attention_backward(
        dout, q, k, v, out, lse, causal=causal, window=(left, right), scale=scale, softcap=softcap,
        bias=bias, deterministic=deterministic,
    )  # fmt: skip


def _keep(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    q, k, v, bias, *ctx.options = inputs
    ctx.save_for_backward(q, k, v, *output, bias)


def _backward(ctx: Any, dout: Tensor, dlse: Tensor) -> tuple[Any, ...]:
    return *attention_heads_backward(dout, *ctx.saved_tensors, *ctx.options), *[None] * 6


gradient(attention_heads, _backward, _keep)


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
) -> Tensor:
    """`nvdsl.attention` of f16 or bf16: ``q`` is (batch, queries, heads, size), ``k`` and ``v`` (batch, keys, kv_heads,
    size). For the options see there. The gradient of q is the same in every run where
    `torch.use_deterministic_algorithms` says so. Raises ValueError for a ``bias`` that wants a gradient: it gets none.
    """
    if bias is not None and bias.requires_grad and torch.is_grad_enabled():
        raise ValueError("nvdsl's attention has no gradient of a bias or of attn_mask: pass bias.detach()")
    out: Tensor = attention_heads(q, k, v, bias, causal, *window, scale, softcap)[0]
    return out


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

    ``query`` is (batch, heads, queries, size), or (heads, queries, size); ``key`` and ``value`` likewise, with fewer
    heads if ``enable_gqa``. With ``is_causal``, query i sees the keys 0 to i, also where there are more keys than
    queries, or fewer. ``attn_mask``, of bools or of numbers that are added, gets no gradient itself. Raises ValueError
    for dropout, for a mask that wants a gradient, and for a mask beside ``is_causal``.
    """
    if dropout_p:
        raise ValueError(f"dropout_p={dropout_p}: nvdsl's attention has no dropout")
    if is_causal and attn_mask is not None:
        raise ValueError("is_causal beside attn_mask: the mask says what is seen")
    heads, shared = query.shape[-3], key.shape[-3]
    if heads != shared and not enable_gqa:
        raise ValueError(f"{heads} heads of queries and {shared} of keys, without enable_gqa")
    flat = query.dim() == 3
    q, k, v = ((x[None] if flat else x).transpose(1, 2) for x in (query, key, value))
    bias, queries, keys = attn_mask, q.shape[1], k.shape[1]
    if bias is not None and bias.dtype == torch.bool:
        bias = torch.zeros_like(bias, dtype=q.dtype).masked_fill(~bias, -math.inf)
    seen = min(queries, keys) if is_causal else keys  # keys behind the last query are seen by none
    window = (None, queries - seen if is_causal else None)
    out = attention(q, k[:, :seen], v[:, :seen], window=window, scale=scale, bias=bias).transpose(1, 2)
    return out[0] if flat else out
