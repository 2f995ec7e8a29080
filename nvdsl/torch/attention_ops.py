"""attention, and a drop-in for scaled_dot_product_attention."""

from __future__ import annotations

import math
from typing import Any

import torch

import nvdsl as nv
from nvdsl.torch.operators import Tensor, gradient, like, operator

_OPTIONS = "bool causal, int? left, int? right, float? scale, float softcap"


def _made(q: Tensor, k: Tensor, v: Tensor, *options: Any) -> tuple[Tensor, Tensor]:
    batch, queries, heads, _ = q.shape
    out = like(q, (batch, queries, heads, v.shape[-1]))
    return out, like(q, (batch, heads, queries), dtype=torch.float32)


@operator(f"(Tensor q, Tensor k, Tensor v, {_OPTIONS}) -> (Tensor, Tensor)", _made)
def attention_heads(
    q: Tensor, k: Tensor, v: Tensor, causal: bool, left: int | None, right: int | None, scale: float | None,
    softcap: float,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """The result, and the logarithms of the sums."""
    found: tuple[Tensor, Tensor] = nv.attention(
        q, k, v, causal=causal, window=(left, right), scale=scale, softcap=softcap, return_lse=True
    )
    return found


@operator(
    f"(Tensor dout, Tensor q, Tensor k, Tensor v, Tensor out, Tensor lse, {_OPTIONS}) -> (Tensor, Tensor, Tensor)",
    lambda dout, q, k, v, *rest: (like(q), like(k), like(v)),
)
def attention_heads_backward(
    dout: Tensor, q: Tensor, k: Tensor, v: Tensor, out: Tensor, lse: Tensor, causal: bool, left: int | None,
    right: int | None, scale: float | None, softcap: float,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    deterministic = torch.are_deterministic_algorithms_enabled()
    return nv.attention_backward(
        dout, q, k, v, out, lse, causal=causal, window=(left, right), scale=scale, softcap=softcap,
        deterministic=deterministic,
    )  # fmt: skip


def _keep(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    q, k, v, *ctx.options = inputs
    ctx.save_for_backward(q, k, v, *output)


def _backward(ctx: Any, dout: Tensor, dlse: Tensor) -> tuple[Any, ...]:
    return *attention_heads_backward(dout, *ctx.saved_tensors, *ctx.options), *[None] * 5


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
) -> Tensor:
    """`nvdsl.attention` of f16 or bf16: ``q`` is (batch, queries, heads, size), ``k`` and ``v`` (batch, keys, kv_heads,
    size). For the options see there. The gradient of q is the same in every run where
    `torch.use_deterministic_algorithms` says so."""
    out: Tensor = attention_heads(q, k, v, causal, *window, scale, softcap)[0]
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
    queries, or fewer. ``attn_mask``, of bools or of numbers that are added, has no gradient, and with it there are no
    others either. Raises ValueError for dropout, and where a gradient is wanted beside a mask.
    """
    if dropout_p:
        raise ValueError(f"dropout_p={dropout_p}: nvdsl's attention has no dropout")
    heads, shared = query.shape[-3], key.shape[-3]
    if heads != shared and not enable_gqa:
        raise ValueError(f"{heads} heads of queries and {shared} of keys, without enable_gqa")
    flat = query.dim() == 3
    q, k, v = ((x[None] if flat else x).transpose(1, 2) for x in (query, key, value))
    if attn_mask is not None:
        out = _masked(q, k, v, attn_mask, is_causal, scale)
    else:
        queries, keys = q.shape[1], k.shape[1]
        seen = min(queries, keys) if is_causal else keys  # keys behind the last query are seen by none
        window = (None, queries - seen if is_causal else None)
        out = attention(q, k[:, :seen], v[:, :seen], window=window, scale=scale)
    out = out.transpose(1, 2)
    return out[0] if flat else out


def _masked(q: Tensor, k: Tensor, v: Tensor, mask: Tensor, causal: bool, scale: float | None) -> Tensor:
    if causal:
        raise ValueError("is_causal beside attn_mask: the mask says what is seen")
    if torch.is_grad_enabled() and any(x.requires_grad for x in (q, k, v, mask)):
        raise ValueError("nvdsl's attention has no gradient where attn_mask is given")
    if mask.dtype == torch.bool:
        mask = torch.zeros_like(mask, dtype=q.dtype).masked_fill(~mask, -math.inf)
    out: Tensor = masked_attention(q, k, v, mask, scale)
    return out


@operator(
    "(Tensor q, Tensor k, Tensor v, Tensor bias, float? scale) -> Tensor", lambda q, k, v, *rest: _made(q, k, v)[0]
)
def masked_attention(q: Tensor, k: Tensor, v: Tensor, bias: Tensor, scale: float | None) -> Tensor:
    found: Tensor = nv.attention(q, k, v, bias=bias, scale=scale)
    return found
