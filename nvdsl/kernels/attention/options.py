"""The options of a call of attention, checked."""

from __future__ import annotations

import numbers
from typing import Any, NamedTuple

import numpy as np

import nvdsl as nv
from nvdsl.driver import arrays
from nvdsl.errors import ArgumentError
from nvdsl.kernels.arguments import Argument
from nvdsl.kernels.attention.heads import Heads, Reshaped
from nvdsl.kernels.options import is_whole, switch, takes

MOST_PARTS = 1024
"""Parts of the keys; more than this are no faster for any number of keys."""


def window(given: Any, causal: bool, everything: int) -> tuple[int | None, int | None]:
    """Bounds on the left and on the right; None where there is none. More than ``everything`` is that."""
    pair = tuple(given) if isinstance(given, tuple | list) else ()
    fits = len(pair) == 2 and all(x is None or is_whole(x) and x >= 0 for x in pair)
    if not fits:
        raise ArgumentError(
            f"window={given!r}",
            rule="a window is (left, right): how many keys before and behind its own a query sees, or None for all",
            fix="window=(128, 0) shows each query 128 keys before its own, and that one; None is no bound",
        )
    left, right = (None if x is None else min(int(x), everything) for x in pair)
    return left, 0 if switch("causal", causal) else right


class Lengths(NamedTuple):
    """The arrays that say how long sequences are, and ``batch``: how many there are."""

    batch: int
    q_starts: Argument | None
    k_starts: Argument | None
    used: Argument | None
    table: Argument | None

    @property
    def packed(self) -> bool:
        """Whether sequences of q lie one behind the other."""
        return self.q_starts is not None

    @property
    def arguments(self) -> list[Argument]:
        return [x for x in self[1:] if x is not None]

    @property
    def views(self) -> list[Reshaped | None]:
        """What the kernel takes for them."""
        return [None if x is None else Reshaped(x, x.spec.shape, x.spec.strides) for x in self[1:]]

    @staticmethod
    def of(heads: Heads, cu_q: Any, cu_k: Any, used: Any, table: Any) -> Lengths:
        """Raises ArgumentError where they don't fit together."""
        q_starts = _starts("cu_seqlens_q", cu_q, heads.q.shape[1], "q")
        k_starts = _starts("cu_seqlens_k", cu_k, heads.k.shape[1], "k")
        lengths, pages = _whole_numbers("seqused_k", used, 1), _whole_numbers("page_table", table, 2)
        if pages is not None and k_starts is not None:
            raise ArgumentError(
                "page_table and cu_seqlens_k",
                rule="keys are paged or packed",
                fix="pass seqused_k beside page_table: how many keys each sequence has",
            )
        counts = {
            "q": heads.q.shape[0] if q_starts is None else None,
            "k": heads.k.shape[0] if k_starts is None and pages is None else None,
            "cu_seqlens_q": None if q_starts is None else q_starts.spec.shape[0] - 1,
            "cu_seqlens_k": None if k_starts is None else k_starts.spec.shape[0] - 1,
            "seqused_k": None if lengths is None else lengths.spec.shape[0],
            "page_table": None if pages is None else pages.spec.shape[0],
        }
        known = {name: count for name, count in counts.items() if count is not None}
        if len(set(known.values())) > 1:
            raise ArgumentError(
                "sequences: " + ", ".join(f"{count} in {name}" for name, count in known.items()),
                rule="all arrays are of as many sequences; cu_seqlens has one entry more",
            )
        _check_range("seqused_k", lengths, 0, None)
        _check_range("page_table", pages, None, heads.k.shape[0])
        if k_starts is None:
            _check_used(lengths, pages, heads.k.shape[1])
        return Lengths(next(iter(known.values())), q_starts, k_starts, lengths, pages)


def _starts(name: str, given: Any, rows: int, of: str) -> Argument | None:
    found = _whole_numbers(name, given, 1)
    if found is None:
        return None
    if found.spec.shape[0] < 1:
        raise ArgumentError(f"{name} is empty", rule="it has one entry more than there are sequences")
    values = found.host
    if values is not None and (values[0] < 0 or (np.diff(values) < 0).any() or values[-1] > rows):
        raise ArgumentError(
            f"{name} goes from {values[0]} to {values[-1]}, and {of} has {rows} rows",
            rule="sequence i has the rows from entry i to entry i + 1, in ascending order",
            fix=f"of lengths: {name} = np.cumsum([0, *lengths])",
        )
    return found


def _whole_numbers(name: str, given: Any, axes: int) -> Argument | None:
    """An array of i32; a host array of other integers is converted."""
    if given is None:
        return None
    if isinstance(given, np.ndarray) and given.dtype.kind in "iu" and given.dtype != np.int32:
        if given.size and not -(2**31) <= int(given.min()) <= int(given.max()) < 2**31:
            raise ArgumentError(f"{name} has entries from {given.min()} to {given.max()}", rule="entries are i32")
        given = given.astype(np.int32)
    found = Argument.of(name, given)
    if found.spec.dtype is not nv.i32 or len(found.spec.shape) != axes:
        raise ArgumentError(
            f"{name} is of {found.spec.dtype.name} and has the shape {found.spec.shape}",
            rule=f"{name} has {axes} {'axis' if axes == 1 else 'axes'} of i32",
            fix=f"convert it: {name}.to(torch.int32)",
        )
    return found


def _check_range(name: str, found: Argument | None, least: int | None, most: int | None) -> None:
    """Of a host array, which can be looked at."""
    if found is None or found.host is None or not found.host.size:
        return
    low, high = found.host.min(), found.host.max()
    if least is not None and low < least or most is not None and high >= most:
        bound = f"{least} or more" if most is None else f"less than {most}, the number of pages"
        raise ArgumentError(f"{name} has entries from {low} to {high}", rule=f"entries are {bound}")


def _check_used(lengths: Argument | None, pages: Argument | None, keys: int) -> None:
    """Of host arrays: that all keys of a sequence have a place. ``keys``: of a sequence, or of a page."""
    most = keys * (1 if pages is None else pages.spec.shape[1])
    used = None if lengths is None else lengths.host
    if used is not None and used.size and used.max() > most:
        raise ArgumentError(
            f"seqused_k has {used.max()} keys for a sequence", rule=f"a sequence has {most} keys at most here"
        )
    if pages is None or pages.host is None or lengths is not None and used is None:
        return
    table = pages.host
    taken = np.full(len(table), table.shape[1]) if used is None else -(-used // keys)
    for i, count in enumerate(taken):
        if (table[i, :count] < 0).any():
            raise ArgumentError(
                f"page_table[{i}, :{count}] has entries below 0", rule="the pages of all keys in use are known"
            )


def operands(given: Any) -> tuple[Any, ...]:
    """Raises ArgumentError for what is neither a tuple nor a list."""
    if not isinstance(given, tuple | list):
        kind = type(given).__qualname__
        raise ArgumentError(f"operands is a {kind}", rule="operands are a tuple of arrays that score reads",
                            fix="operands=(x,), of one array")  # fmt: skip
    return tuple(given)


def check_score(score: Any, operands: Any) -> None:
    """Raises ArgumentError for what is no function, and for operands of none."""
    if score is not None and not callable(score):
        raise ArgumentError(f"score={score!r}", rule="score is a function score(s, batch, head, query, key, *operands)")
    if len(operands) and score is None:
        raise ArgumentError("operands without score", rule="they are read by score(s, batch, head, query, key, ...)",
                            fix="pass score=, or leave operands out")  # fmt: skip
    if score is None:
        return
    for x in operands:
        if not isinstance(x, int | float | np.generic) and arrays.describe(x) is None:
            kind = type(x).__qualname__
            raise ArgumentError(f"{kind} among the operands", rule="an operand is an array, or a number")
    takes("score", score, ["s", "batch", "head", "query", "key", *(f"operand{i}" for i in range(len(operands)))])


def splits(given: Any) -> int | None:
    """A count, or None. Raises ArgumentError for what is none."""
    if given is not None and not (is_whole(given) and 1 <= given <= MOST_PARTS):
        raise ArgumentError(f"splits={given!r}", rule=f"splits is 1 to {MOST_PARTS}, or None")
    return None if given is None else int(given)


def bias(given: Any, heads: Heads, lengths: Lengths) -> Reshaped | None:
    """As four axes, of which those of one element are for all."""
    if given is None:
        return None
    found = Argument.of("bias", given)
    spec = found.spec
    if lengths.packed or lengths.k_starts is not None or lengths.table is not None:
        raise ArgumentError(
            "bias of packed or paged sequences",
            rule="bias has an axis for queries and one for keys, counted from the start of the sequence",
            fix="pass score=, a function of each score, its query and its key",
        )
    whole = (heads.q.shape[0], heads.heads, heads.q.shape[1], heads.k.shape[1])
    shape = (1,) * (4 - len(spec.shape)) + spec.shape
    fits = len(shape) == 4 and all(n in (1, all_of) for n, all_of in zip(shape, whole, strict=True))
    if spec.dtype not in (nv.f16, nv.bf16, nv.f32) or not fits:
        raise ArgumentError(
            f"bias is of {spec.dtype.name} and has the shape {spec.shape}",
            rule=f"it is of f16, bf16 or f32, and broadcasts to (batch, heads, queries, keys), here {whole}",
        )
    return with_four_axes(found)


def with_four_axes(bias: Argument) -> Reshaped:
    """A bias as (batch, heads, queries, keys)."""
    spec = bias.spec
    missing = 4 - len(spec.shape)
    return Reshaped(bias, (1,) * missing + spec.shape, (0,) * missing + spec.strides)


def head_scale(name: str, given: Any, heads: Heads, lengths: Lengths) -> Reshaped | None:
    """As (batch, heads of keys), of which axes of one element are for all."""
    if given is None:
        return None
    if isinstance(given, numbers.Real):
        given = np.full((1, 1), given, np.float32)
    found = Argument.of(name, given)
    spec, whole = found.spec, (lengths.batch, heads.kv_heads)
    shape = (1,) * (2 - len(spec.shape)) + spec.shape
    fits = len(shape) == 2 and all(n in (1, all_of) for n, all_of in zip(shape, whole, strict=True))
    if heads.dtype is not nv.e4m3:
        raise ArgumentError(
            f"{name} of {heads.dtype.name}", rule="q, k and v of 8 bits have scales", fix="pass scale=, of all scores"
        )
    if spec.dtype is not nv.f32 or not fits:
        raise ArgumentError(
            f"{name} is of {spec.dtype.name} and has the shape {spec.shape}",
            rule=f"it is of f32, and broadcasts to (batch, heads of keys), here {whole}",
            fix="one scale for each head of k and v, and for the heads of q that share it",
        )
    if found.host is not None and (found.host < 0).any():
        raise ArgumentError(f"{name} has entries below 0", rule="scales are 0 or more")
    return Reshaped(found, shape, (0,) * (2 - len(spec.shape)) + spec.strides)
