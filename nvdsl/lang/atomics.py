"""Atomics on the elements of arrays and tiles: ``y.atomic_add(i, x)``, or ``nv.atomic_add(y, i, x)``.

Each combines one element with a value in one step that no other atomic comes between, and returns what was there
before. The functions are methods of `Array` and `Tile`, too. `nvdsl.ops.atomics` has the types and the instructions.

A vector in the place of the value (`nv.vector`, ``x.vector(i, 4)``) is added to neighbouring elements by one
instruction, each a step of its own: 2 or 4 f32, or 2, 4 or 8 f16 or bf16 (whose minimum and maximum there are, too) in
global memory, and 2 f16 or bf16 in shared memory.

All take what `atomic_add` says, and raise what it raises.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from nvdsl.errors import trace_error
from nvdsl.mlir.dialects import vector
from nvdsl.ops import atomics
from nvdsl.ops.atomic_vectors import atomic_vector
from nvdsl.ops.pointer import under
from nvdsl.values.traced import Value, stored, wrap
from nvdsl.values.typing import Bool, Index, Number, Pointer

if TYPE_CHECKING:
    from nvdsl.values.dtypes import DType


class HasElements(Protocol):
    """An array or a tile."""

    @property
    def dtype(self) -> DType: ...

    def _element_place(self, key: Any, count: int = 1) -> Pointer:
        """Where the element ``key`` is, from which on ``count`` are meant."""


def atomic_add(
    target: HasElements, key: Index, value: Number, *, order: str = "relaxed", scope: str | None = None,
    predicate: Bool | None = None,
) -> Value:  # fmt: skip
    """Add ``value`` (``atom.add``, ``red.add``), and return what was there.

    ``key`` names one element as a subscript does; its indices are checked in the same way. ``order``: "relaxed",
    "acquire", "release" or "acq_rel". ``scope``: between whose threads it is one step: "cta" (or "block"), "cluster",
    "gpu" or "sys". By default it holds all of this launch that can reach the memory: the GPU for global memory, and for
    shared memory the cluster, or the block where it has none. With a ``predicate`` only the threads take part where it
    holds, by one predicated instruction (where the ISA has ``red`` for it; a vector by a branch), and nothing is
    returned.

    Raises TraceError for types that the operation doesn't have, for orders and scopes of other names, and for indices
    that are known while tracing and out of bounds.
    """
    return _atomic("add", target, key, value, order, scope, predicate)


def atomic_sub(
    target: HasElements, key: Index, value: Number, *, order: str = "relaxed", scope: str | None = None,
    predicate: Bool | None = None,
) -> Value:  # fmt: skip
    """Subtract ``value``: add its negative (``atom.add``). The rest as in `atomic_add`."""
    return _atomic("sub", target, key, value, order, scope, predicate)


def atomic_min(
    target: HasElements, key: Index, value: Number, *, order: str = "relaxed", scope: str | None = None,
    predicate: Bool | None = None,
) -> Value:  # fmt: skip
    """Keep the smaller of the element and ``value`` (``atom.min``); of a float and a NaN the float.

    The rest as in `atomic_add`.
    """
    return _atomic("min", target, key, value, order, scope, predicate)


def atomic_max(
    target: HasElements, key: Index, value: Number, *, order: str = "relaxed", scope: str | None = None,
    predicate: Bool | None = None,
) -> Value:  # fmt: skip
    """Keep the larger of the element and ``value`` (``atom.max``); of a float and a NaN the float.

    The rest as in `atomic_add`.
    """
    return _atomic("max", target, key, value, order, scope, predicate)


def atomic_and(
    target: HasElements, key: Index, value: Number, *, order: str = "relaxed", scope: str | None = None,
    predicate: Bool | None = None,
) -> Value:  # fmt: skip
    """Bitwise and with ``value`` (``atom.and``). The rest as in `atomic_add`."""
    return _atomic("and", target, key, value, order, scope, predicate)


def atomic_or(
    target: HasElements, key: Index, value: Number, *, order: str = "relaxed", scope: str | None = None,
    predicate: Bool | None = None,
) -> Value:  # fmt: skip
    """Bitwise or with ``value`` (``atom.or``). The rest as in `atomic_add`."""
    return _atomic("or", target, key, value, order, scope, predicate)


def atomic_xor(
    target: HasElements, key: Index, value: Number, *, order: str = "relaxed", scope: str | None = None,
    predicate: Bool | None = None,
) -> Value:  # fmt: skip
    """Bitwise exclusive or with ``value`` (``atom.xor``). The rest as in `atomic_add`."""
    return _atomic("xor", target, key, value, order, scope, predicate)


def atomic_exch(
    target: HasElements, key: Index, value: Number, *, order: str = "relaxed", scope: str | None = None,
    predicate: Bool | None = None,
) -> Value:  # fmt: skip
    """Store ``value``, and return what was there (``atom.exch``). The rest as in `atomic_add`."""
    return _atomic("exch", target, key, value, order, scope, predicate)


def atomic_inc(
    target: HasElements, key: Index, value: Number, *, order: str = "relaxed", scope: str | None = None,
    predicate: Bool | None = None,
) -> Value:  # fmt: skip
    """Count up: 0 where the element is ``value`` or more (as unsigned numbers), else 1 more (``atom.inc``).

    The rest as in `atomic_add`.
    """
    return _atomic("inc", target, key, value, order, scope, predicate)


def atomic_dec(
    target: HasElements, key: Index, value: Number, *, order: str = "relaxed", scope: str | None = None,
    predicate: Bool | None = None,
) -> Value:  # fmt: skip
    """Count down: ``value`` where the element is 0 or more than ``value``, else 1 less (``atom.dec``).

    The rest as in `atomic_add`.
    """
    return _atomic("dec", target, key, value, order, scope, predicate)


def atomic_cas(
    target: HasElements,
    key: Index,
    expected: Number,
    value: Number,
    *,
    order: str = "relaxed",
    scope: str | None = None,
) -> Value:
    """Store ``value`` where the element is ``expected``, bit by bit (``atom.cas``). Returns what was there.

    The rest as in `atomic_add`.
    """
    dtype = _dtype("cas", target)
    return atomics.atomic_cas(target._element_place(key), expected, value, dtype, order=order, scope=scope)


def _atomic(
    kind: str, target: HasElements, key: Index, value: Number, order: str, scope: str | None, predicate: Bool | None
) -> Any:
    dtype = _dtype(kind, target)
    value = stored(value, dtype)
    count = value.shape[0] if value.shape else 1
    with under(predicate):  # the index is checked where the predicate holds
        pointer = target._element_place(key, count)
        if value.shape:
            elements = [value[i] for i in range(count)]
            before = atomic_vector(kind, pointer, elements, dtype, order=order, scope=scope)
            old: Value | None = wrap(vector.from_elements(value.type, before), dtype)
        else:
            old = atomics.atomic(kind, pointer, value, dtype, order=order, scope=scope)
    return old if predicate is None else None


def _dtype(kind: str, target: Any) -> DType:
    if not hasattr(target, "_element_place"):
        raise trace_error(
            f"nv.atomic_{kind} on {'a traced number' if isinstance(target, Value) else repr(target)}",
            rule="an atomic works on an element of an array or of a tile, which it names by its indices",
            fix=f"nv.atomic_{kind}(array, i, x), nv.atomic_{kind}(tile, (row, column), x)",
        )
    dtype: DType = target.dtype
    return dtype
