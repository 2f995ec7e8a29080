"""The arrays of a call of attention: q, k and v, and what their shapes say."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import nvdsl as nv
from nvdsl.errors import ArgumentError
from nvdsl.kernels.arguments import ALIGNMENT, Argument
from nvdsl.kernels.attention import copies

MOST = 256
"""Elements of a head."""


class Operand:
    """An array as (batch, rows, heads, size); one of packed sequences has no axis of batches, and gets one of 1."""

    def __init__(self, argument: Argument) -> None:
        self.argument, self.dtype, self.name = argument, argument.spec.dtype, argument.name
        spec = argument.spec
        packed = len(spec.shape) == 3
        self.shape = (1, *spec.shape) if packed else spec.shape
        self.strides = (spec.shape[0] * spec.strides[0], *spec.strides) if packed else spec.strides

    @property
    def fits_tma(self) -> bool:
        """Whether TMA can read or write it: aligned, rows contiguous, strides of whole 16 bytes."""
        *steps, last = self.strides
        whole = ALIGNMENT // self.dtype.bytes
        fits = all(step > 0 and step % whole == 0 for n, step in zip(self.shape, steps, strict=False) if n > 1)
        return self.argument.aligned and last == 1 and fits

    def beside(self) -> Operand:
        """A new array like it."""
        spec = self.argument.spec
        return Operand(Argument.output(self.name, None, self.argument, spec.shape, spec.dtype))

    def readable(self, run: dict[str, Any]) -> Operand:
        """It, or a copy that TMA can read."""
        if self.fits_tma:
            return self
        copied = self.beside()
        copies.copy(self.view(), copied.view(), **run)
        return copied

    def view(self) -> Any:
        return self.argument.view(self.shape, self.strides)


class Grouped:
    """The same as (batch, rows, kv_heads, heads that share one, size)."""

    def __init__(self, operand: Operand, kv_heads: int) -> None:
        self.argument, self._operand, self._kv_heads = operand.argument, operand, kv_heads

    def view(self) -> Any:
        (batch, rows, heads, size), (b, n, h, d) = self._operand.shape, self._operand.strides
        group = heads // self._kv_heads
        return self.argument.view((batch, rows, self._kv_heads, group, size), (b, n, h * group, h, d))


class Reshaped:
    """An array with another shape: the strides are ``strides``, or those of a C-contiguous array."""

    def __init__(self, argument: Argument, shape: tuple[int, ...], strides: tuple[int, ...] | None = None) -> None:
        self.argument, self.shape, self._strides = argument, shape, strides

    def view(self) -> Any:
        return self.argument.view(self.shape, self._strides)


class Heads(NamedTuple):
    """q: (batch, queries, heads, size), k: (batch, keys, kv_heads, size), v: (batch, keys, kv_heads, value size); of
    packed sequences without batch, of paged keys (pages, keys of a page, ...)."""

    q: Operand
    k: Operand
    v: Operand

    @staticmethod
    def of(
        q: Any, k: Any, v: Any, q_packed: bool = False, k_packed: bool = False, paged: bool = False,
        types: Sequence[nv.DType] = (nv.f16, nv.bf16),
    ) -> Heads:  # fmt: skip
        """Raises ArgumentError for arrays that don't fit together, or are of none of these types."""
        given = [Argument.of(name, x) for name, x in (("q", q), ("k", k), ("v", v))]
        shown = "q {}, k {}, v {}".format(*(x.spec.shape for x in given))
        for x, packed, axes in zip(
            given, (q_packed, k_packed, k_packed),
            (("queries", "heads", "size"), ("keys", "kv_heads", "size"), ("keys", "kv_heads", "size")), strict=True,
        ):  # fmt: skip
            wanted = axes if packed else ("pages", "keys of a page", *axes[1:]) if paged and x.name != "q" else (
                "batch", *axes)  # fmt: skip
            if len(x.spec.shape) != len(wanted):
                starts = f"cu_seqlens_{'q' if x.name == 'q' else 'k'}"
                raise ArgumentError(
                    shown,
                    rule=f"{x.name} is ({', '.join(wanted)})" + (f" beside {starts}" if packed else ""),
                    fix=f"without {starts} it has an axis of batches" if packed else "",
                )
        heads = Heads(*map(Operand, given))
        heads._check_types(types)
        heads._check_shapes(shown, q_packed or k_packed or paged)
        return heads

    @property
    def arguments(self) -> list[Argument]:
        return [x.argument for x in self]

    @property
    def dtype(self) -> nv.DType:
        return self.q.dtype

    @property
    def heads(self) -> int:
        return self.q.shape[2]

    @property
    def kv_heads(self) -> int:
        return self.k.shape[2]

    @property
    def group(self) -> int:
        """Heads of q that share one of k and v."""
        return self.heads // max(self.kv_heads, 1)

    @property
    def size(self) -> int:
        return self.q.shape[3]

    @property
    def value_size(self) -> int:
        return self.v.shape[3]

    def _check_types(self, types: Sequence[nv.DType]) -> None:
        if self.dtype not in types:
            names = " or ".join(dtype.name for dtype in types)
            raise ArgumentError(
                f"q is of {self.dtype.name}", rule=f"q, k and v are of {names}", fix="convert them first"
            )
        for x in (self.k, self.v):
            if x.dtype is not self.dtype:
                raise ArgumentError(
                    f"{x.name} is of {x.dtype.name}, and q of {self.dtype.name}",
                    rule="q, k and v are of one type",
                    fix="convert them first",
                )

    def _check_shapes(self, shown: str, own_batches: bool) -> None:
        q, k, v = self.q.shape, self.k.shape, self.v.shape
        if not own_batches and q[0] != k[0] or k[:3] != v[:3] or q[3] != k[3]:
            raise ArgumentError(
                shown,
                rule="q, k and v have one batch; k and v as many keys and heads; q and k heads of one size",
                fix="axes are (batch, length, heads, size)",
            )
        if q[2] % max(k[2], 1) or (k[2] == 0) != (q[2] == 0):
            raise ArgumentError(
                f"{q[2]} heads of q and {k[2]} of k", rule="the heads of q are a multiple of those of k and v"
            )
        whole = ALIGNMENT // self.dtype.bytes  # TMA takes rows at multiples of 16 bytes
        for x in (self.q, self.v):
            size = x.shape[3]
            if not 0 < size <= MOST or size % whole:
                raise ArgumentError(
                    f"{x.name} has heads of size {size}",
                    rule=f"sizes of heads of {self.dtype.name} are multiples of {whole}, up to {MOST}",
                    fix="pad the heads with zeros, and pass scale=1 / sqrt(size) of the size before",
                )
