"""The arrays of a call of attention: q, k and v, and what their shapes say."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import nvdsl as nv
from nvdsl.errors import ArgumentError
from nvdsl.kernels.arguments import Argument

MOST = 256
"""Elements of a head."""
WHOLE = 8
"""Sizes of heads are multiples of so many: TMA takes rows at multiples of 16 bytes."""


@dataclass(frozen=True)
class Heads:
    """q: (batch, queries, heads, size), k: (batch, keys, kv_heads, size), v: (batch, keys, kv_heads, value size)."""

    q: Argument
    k: Argument
    v: Argument

    @staticmethod
    def of(q: Any, k: Any, v: Any) -> Heads:
        """Raises ArgumentError for arrays that don't fit together."""
        heads = Heads(*(Argument.of(name, x) for name, x in (("q", q), ("k", k), ("v", v))))
        heads._check_types()
        heads._check_shapes()
        return heads

    @property
    def dtype(self) -> nv.DType:
        return self.q.spec.dtype

    @property
    def batch(self) -> int:
        return self.q.spec.shape[0]

    @property
    def queries(self) -> int:
        return self.q.spec.shape[1]

    @property
    def keys(self) -> int:
        return self.k.spec.shape[1]

    @property
    def heads(self) -> int:
        return self.q.spec.shape[2]

    @property
    def kv_heads(self) -> int:
        return self.k.spec.shape[2]

    @property
    def group(self) -> int:
        """Heads of q that share one of k and v."""
        return self.heads // max(self.kv_heads, 1)

    @property
    def size(self) -> int:
        return self.q.spec.shape[3]

    @property
    def value_size(self) -> int:
        return self.v.spec.shape[3]

    def grouped(self, x: Argument) -> Any:
        """q, or the result, as (batch, queries, kv_heads, group, size)."""
        (batch, queries, _, size), (b, n, h, d) = x.spec.shape, x.spec.strides
        return x.view((batch, queries, self.kv_heads, self.group, size), (b, n, h * self.group, h, d))

    def _check_types(self) -> None:
        if self.dtype not in (nv.f16, nv.bf16):
            raise ArgumentError(
                f"q is of {self.dtype.name}", rule="q, k and v are of f16 or bf16", fix="convert them first"
            )
        for x in (self.k, self.v):
            if x.spec.dtype is not self.dtype:
                raise ArgumentError(
                    f"{x.name} is of {x.spec.dtype.name}, and q of {self.dtype.name}",
                    rule="q, k and v are of one type",
                    fix="convert them first",
                )

    def _check_shapes(self) -> None:
        shapes = [x.spec.shape for x in (self.q, self.k, self.v)]
        shown = "q {}, k {}, v {}".format(*shapes)
        if any(len(shape) != 4 for shape in shapes):
            raise ArgumentError(
                shown, rule="q is (batch, queries, heads, size), k and v are (batch, keys, kv_heads, size)"
            )
        q, k, v = shapes
        if q[0] != k[0] or k[:3] != v[:3] or q[3] != k[3]:
            raise ArgumentError(
                shown,
                rule="q, k and v have one batch; k and v as many keys and heads; q and k heads of one size",
                fix="axes are (batch, length, heads, size)",
            )
        if q[2] % max(k[2], 1) or (k[2] == 0) != (q[2] == 0):
            raise ArgumentError(
                f"{q[2]} heads of q and {k[2]} of k", rule="the heads of q are a multiple of those of k and v"
            )
        for x in (self.q, self.v):
            size = x.spec.shape[3]
            if not 0 < size <= MOST or size % WHOLE:
                raise ArgumentError(
                    f"{x.name} has heads of size {size}",
                    rule=f"sizes of heads are multiples of {WHOLE}, up to {MOST}",
                    fix="pad the heads with zeros, and pass scale=1 / sqrt(size) of the size before",
                )
