"""Atomics: read-modify-writes of global and shared memory, each with its order and its scope.

PTX ISA, ``atom``, ``red``, "Memory Consistency Model". For elements of arrays and tiles they are in
`nvdsl.lang.atomics`; here an element is a pointer and a dtype. Each returns the value that was there before. Where
nothing uses it, ptxas makes a ``red`` of the ``atom``: nothing comes back, and nothing waits.

================  =============================  ==================================================
kind              native                         as a loop around ``atom.cas``
================  =============================  ==================================================
add, sub          i32 u32 i64 u64 f32 f64,       i16 u16; an f16 or bf16 on its own (sm_90 adds them in pairs)
                  f16 and bf16 in vectors
min, max          i32 u32 i64 u64                i16 u16, f16 bf16 f32 f64
and, or, xor      i32 u32 i64 u64                i16 u16
exch, cas         all types of 32 and 64 bits    i16 u16 f16 bf16
inc, dec          i32 u32, compared as unsigned
================  =============================  ==================================================

An f32 that is added in global memory loses subnormals: inputs and sums are flushed to zero (PTX ISA, ``atom``).
"""

from __future__ import annotations

from typing import Any

from nvdsl.errors import trace_error
from nvdsl.mlir import ir
from nvdsl.mlir.dialects import llvm
from nvdsl.ops.memory import SCOPES
from nvdsl.ops.pointer import GLOBAL, SHARED, SHARED_CLUSTER, under
from nvdsl.values import arith, casts
from nvdsl.values import scope as kernels
from nvdsl.values.dtypes import DType
from nvdsl.values.traced import Value, stored, wrap
from nvdsl.values.typing import Bool, Number, Pointer

KINDS = ("add", "sub", "min", "max", "and", "or", "xor", "exch", "inc", "dec")
ORDERS = {
    "relaxed": llvm.AtomicOrdering.monotonic,
    "acquire": llvm.AtomicOrdering.acquire,
    "release": llvm.AtomicOrdering.release,
    "acq_rel": llvm.AtomicOrdering.acq_rel,
}

_BINARY = llvm.AtomicBinOp
_OF_INTEGERS = {
    "add": _BINARY.add, "sub": _BINARY.add, "min": _BINARY.min, "max": _BINARY.max, "and": _BINARY._and,
    "or": _BINARY._or, "xor": _BINARY._xor, "exch": _BINARY.xchg, "inc": _BINARY.uinc_wrap, "dec": _BINARY.udec_wrap,
}  # fmt: skip
_OF_UNSIGNED = {"min": _BINARY.umin, "max": _BINARY.umax}
_OF_FLOATS = {
    "add": _BINARY.fadd, "sub": _BINARY.fadd, "min": _BINARY.fmin, "max": _BINARY.fmax, "exch": _BINARY.xchg,
}  # fmt: skip


def atomic(
    kind: str,
    pointer: Pointer,
    value: Number,
    dtype: DType,
    *,
    order: str = "relaxed",
    scope: str | None = None,
    predicate: Bool | None = None,
) -> Value | None:
    """Combine the element at ``pointer`` with ``value``, as one step (``atom.<order>.<scope>.<space>.<kind>``).

    ``pointer``: ``!llvm.ptr`` of global (1), shared (3) or distributed shared memory (7). ``kind``: one of `KINDS`;
    ``inc`` counts 0, 1, ... ``value`` and then from 0, ``dec`` the other way. ``value`` is converted as a store does.
    ``order``: "relaxed", "acquire", "release" or "acq_rel". ``scope``: "cta" (or "block"), "cluster", "gpu" or "sys";
    None is the whole GPU for global memory, and for shared memory the cluster or, without one, the block.

    Returns what was there before; with a ``predicate``, under which a thread takes part, nothing. Raises TraceError for
    an order, a scope, a kind or a type that is none of these.
    """
    what = f"atomic_{kind}"
    chosen = _binary(what, kind, dtype)
    ordering, where = check_order(what, order), scope_of(what, scope, pointer)
    given = stored(value, dtype)
    if kind == "sub":
        given = wrap(arith.negate(dtype, given), dtype)
    with under(predicate):
        old = llvm.atomicrmw(chosen, pointer, given, ordering, syncscope=SCOPES[where])
    return None if predicate is not None else wrap(old, dtype)


def atomic_cas(
    pointer: Pointer,
    expected: Number,
    value: Number,
    dtype: DType,
    *,
    order: str = "relaxed",
    scope: str | None = None,
) -> Value:
    """Store ``value`` at ``pointer`` if ``expected`` is there, as one step (``atom.<order>.<scope>.<space>.cas``).

    Compares bits: 0.0 is not -0.0, and a NaN is itself. Returns what was there before: the value was stored where that
    is ``expected``. Arguments and errors as in `atomic`.
    """
    ordering, where = check_order("atomic_cas", order), scope_of("atomic_cas", scope, pointer)
    _check_type("atomic_cas", dtype, dtype.bits in (16, 32, 64) and dtype.kind in ("int", "float"))
    bits = ir.IntegerType.get_signless(dtype.bits)
    before, after = (stored(x, dtype) for x in (expected, value))
    if dtype.is_float:
        before, after = (arith.emit("arith.bitcast", bits, x) for x in (before, after))
    failure = llvm.AtomicOrdering.acquire if order in ("acquire", "acq_rel") else llvm.AtomicOrdering.monotonic
    both = llvm.cmpxchg(pointer, before, after, ordering, failure, syncscope=SCOPES[where])
    old = llvm.extractvalue(bits, both, ir.DenseI64ArrayAttr.get([0]))
    return wrap(casts.reinterpret(old, dtype), dtype)


def address_space(pointer: Pointer) -> int:
    """The LLVM address space of a pointer to global or shared memory. Raises TraceError for another pointer."""
    spaces = {f"!llvm.ptr<{space}>": space for space in (GLOBAL, SHARED, SHARED_CLUSTER)}
    found = spaces.get(str(pointer.type))
    if found is None:
        raise trace_error(
            f"an atomic at a pointer of type {pointer.type}",
            rule="an atomic's pointer says which memory it points to: !llvm.ptr<1> global, <3> shared, <7> a cluster's",
            fix="nv.ops.pointer.address_of(array, byte, space=GLOBAL), tile.pointer(byte), nv.mapa(pointer, rank)",
        )
    return found


def check_order(what: str, order: str) -> Any:
    """LLVM's ordering of the name. Raises TraceError for another name."""
    if order not in ORDERS:
        raise trace_error(
            f"{what} with order={order!r}",
            rule=f"the order is one of {list(ORDERS)} (PTX ISA, atom, .sem)",
            fix='"relaxed" to count and to sum; "acq_rel" to hand over what was written before',
        )
    return ORDERS[order]


def scope_of(what: str, scope: str | None, pointer: Pointer) -> str:
    """The scope's name in PTX; None is the widest that can reach the pointer's memory from this launch."""
    space = address_space(pointer)
    blocks = kernels.current(what).cluster_size
    if scope is None:
        return "gpu" if space == GLOBAL else "cluster" if space == SHARED_CLUSTER or blocks > 1 else "cta"
    scope = "cta" if scope == "block" else scope
    if scope not in SCOPES:
        raise trace_error(f"{what} with scope={scope!r}", rule=f"the scope is one of {list(SCOPES)} (PTX ISA, .scope)")
    return scope


def _binary(what: str, kind: str, dtype: DType) -> Any:
    table: dict[str, Any] = {}
    if dtype.kind == "int" and dtype.bits in ((32,) if kind in ("inc", "dec") else (16, 32, 64)):
        table = {**_OF_INTEGERS, **_OF_UNSIGNED} if dtype.is_unsigned else _OF_INTEGERS
    elif dtype.is_float and dtype.arithmetic:
        table = _OF_FLOATS
    _check_type(what, dtype, kind in table)
    return table[kind]


def _check_type(what: str, dtype: DType, fits: bool) -> None:
    if not fits:
        raise trace_error(
            f"{what} of {dtype.name}",
            rule="atomics take integers of 16, 32 and 64 bits, f16, bf16, f32 and f64; inc and dec 32 bits; and, or "
            "and xor no floats (PTX ISA, atom, .type)",
            fix="keep what is counted or summed in an array of nv.i32 or nv.f32",
        )
