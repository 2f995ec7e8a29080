"""llvm, memory: pointers, loads, stores, atomics."""

from __future__ import annotations

from typing import Any

import numpy as np

from nvdsl.ir.location import where
from nvdsl.ir.operands import integer, integers
from nvdsl.mlir import ir
from nvdsl.mlir.dialects import llvm
from nvdsl.sim.access import GENERIC, SHARED, SHARED_CLUSTER, Accessor
from nvdsl.sim.atomics import order
from nvdsl.sim.decode import Decoder, Frame, op, unknown
from nvdsl.sim.dialects.arith import unary
from nvdsl.sim.dialects.memref import tile_behind
from nvdsl.sim.dialects.memref_memory import atomic
from nvdsl.sim.dialects.vector_memory import used_elements
from nvdsl.sim.polling import decided
from nvdsl.sim.registers import Struct
from nvdsl.sim.undefined import Stored
from nvdsl.sim.values import LANES, element

_DYNAMIC = -(1 << 31)


# --- pointers


@op("llvm.inttoptr", "llvm.ptrtoint")
def _same(d: Decoder, op: Any) -> Any:
    e = element("i64") if op.name == "llvm.inttoptr" else element(op.results[0].type)
    if e.bits == 64:
        d.alias(op.results[0], op.operands[0])
        return None
    return unary(d, op, lambda x: x & ((1 << e.bits) - 1))


@op("llvm.addrspacecast")
def _addrspacecast(d: Decoder, op: Any) -> Any:
    source, target = pointer_space(op.operands[0].type), pointer_space(op.results[0].type)
    if source == target or {source, target} <= {0, 1} or {source, target} <= {3, 7}:
        d.alias(op.results[0], op.operands[0])
        return None
    raise unknown(op, "a generic pointer to shared memory")


def pointer_space(type: Any) -> int:
    text = str(type)
    return int(text.partition("<")[2].rstrip(">") or 0)


@op("llvm.getelementptr")
def _gep(d: Decoder, op: Any) -> Any:
    base, *dynamic = d.operands(op)
    r = d.result(op)
    static = integers(op, "rawConstantIndices")
    if len(static) != 1:
        raise unknown(op, "more than one index")
    size = element(ir.TypeAttr(op.attributes["elem_type"]).value).bytes
    if static[0] != _DYNAMIC:
        shift = static[0] * size
        return _offset(r, base, shift)
    (index,) = dynamic

    def step(v: Frame) -> None:
        i = v[index]
        v[r] = v[base] + (i * size if i.__class__ is int else i.astype(np.int64) * size)

    return step


def _offset(r: int, base: int, shift: int) -> Any:
    def step(v: Frame) -> None:
        v[r] = v[base] + shift

    return step


@op("llvm.load")
def _load(d: Decoder, op: Any) -> Any:
    (a,) = d.operands(op)
    access = _accessor(op, op.operands[0], op.results[0].type)
    access.tile = tile_behind(op.operands[0])
    if access.order is not None:
        access.decided = decided(op.results[0])
    r = d.result(op)

    def step(v: Frame) -> None:
        v[r] = access.load_each(v[0], v[a])

    return step


@op("llvm.store")
def _store(d: Decoder, op: Any) -> Any:
    value, a = d.operands(op)
    access = _accessor(op, op.operands[1], op.operands[0].type)
    access.tile = tile_behind(op.operands[1])
    stored = Stored(d, op.operands[0], access.at)

    def step(v: Frame) -> None:
        w = v[0]
        access.store_each(w, v[a], v[value])
        if w.undefined:
            stored.check(v, access, v[a])

    return step


def _accessor(op: Any, pointer: Any, type: Any) -> Accessor:
    space = pointer_space(pointer.type)
    if space not in (GENERIC, 1, SHARED, SHARED_CLUSTER):
        raise unknown(op, f"address space {space}")
    count = type.shape[0] if isinstance(type, ir.VectorType) else None
    alignment = integer(op, "alignment", 1)
    ordering = "success_ordering" if op.name == "llvm.cmpxchg" else "ordering"
    used = used_elements(op.results[0]) if count is not None and op.name == "llvm.load" else None
    return Accessor(space, element(type), count, alignment, where(op), order(op, ordering), used)


_RMW: dict[str, Any] = {
    "xchg": None, "add": np.add, "sub": np.subtract, "_and": np.bitwise_and, "_or": np.bitwise_or,
    "_xor": np.bitwise_xor, "nand": lambda x, y: ~(x & y), "max": np.maximum, "min": np.minimum, "umax": np.maximum,
    "umin": np.minimum, "fadd": np.add, "fsub": np.subtract, "fmax": np.fmax, "fmin": np.fmin,
    "uinc_wrap": lambda x, y: 0 if x >= y else x + 1, "udec_wrap": lambda x, y: y if x == 0 or x > y else x - 1,
}  # fmt: skip
_UNSIGNED = ("umax", "umin", "uinc_wrap", "udec_wrap")


@op("llvm.atomicrmw")
def _atomicrmw(d: Decoder, op: Any) -> Any:
    a, _ = d.operands(op)
    kind = llvm.AtomicBinOp(integer(op, "bin_op")).name
    if kind not in _RMW:
        raise unknown(op, "this kind of atomic")
    access = _accessor(op, op.operands[0], op.operands[1].type)
    access.tile = tile_behind(op.operands[0])
    return atomic(d, op, access, lambda v: v[a], op.operands[1], _RMW[kind], kind in _UNSIGNED)


@op("llvm.cmpxchg")
def _cmpxchg(d: Decoder, op: Any) -> Any:
    a, expected, value = d.operands(op)
    access = _accessor(op, op.operands[0], op.operands[1].type)
    access.tile = tile_behind(op.operands[0])
    r = d.result(op)

    def step(v: Frame) -> None:
        w = v[0]
        wanted, given = (np.broadcast_to(np.asarray(v[s], access.dtype), (LANES,)) for s in (expected, value))
        old, hit = np.zeros(LANES, access.dtype), np.zeros(LANES, np.bool_)
        for found, offsets in access.modify(w, v[a]):
            view = found.view(access.dtype)
            for lane, offset in w.in_turn(offsets):
                at = offset >> access.shift
                old[lane] = view[at]
                hit[lane] = old[lane] == wanted[lane]
                if hit[lane]:
                    view[at] = given[lane]
                    w.machine.changes += bool(given[lane] != old[lane])
        v[r] = Struct([old, hit])

    return step
