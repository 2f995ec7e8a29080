"""Side effects under a ``predicate=``: one predicated instruction each, ``@p mbarrier.arrive``, and no branch.

A wrapper traces ``predicate=`` as an ``scf.if`` around the op (`pointer.under`), which the verifier and the simulator
read as what it is. As a branch it would end a basic block. At the end of a persistent loop ptxas then keeps the
positions of rings in ordinary registers, and no longer in uniform ones: an eighth more instructions a step. The ops
that have a predicate of their own (``mbarrier.arrive.expect_tx``, TMA's loads and stores) never were a branch.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from nvdsl.ir.arith import DIVISIONS
from nvdsl.ir.operands import has, integer, named, word
from nvdsl.ir.walk import constant, find
from nvdsl.lower import atomics
from nvdsl.lower.prepare import Kernels, functions, new
from nvdsl.lower.watchdog import to_i32
from nvdsl.mlir import ir
from nvdsl.ops.pointer import PREDICATED

Text = tuple[str, list[Any]]
"""Inline PTX and its operands; the predicate is behind them."""

_OPERANDS = frozenset(
    ("llvm.inttoptr", "llvm.getelementptr", "llvm.addrspacecast", "memref.extract_aligned_pointer_as_index",
     "memref.extract_strided_metadata", "memref.view", "gpu.dynamic_shared_memory", "nvgpu.mbarrier.get", "nvvm.mapa",
     "builtin.unrealized_conversion_cast"),
)  # fmt: skip
"""Beside arithmetic, what may make the op's operands: it is executed then whether the predicate holds or not."""


def _makes_operands(op: Any) -> bool:
    if op.name in DIVISIONS:
        return bool(constant(op.operands[1]))
    return op.name.startswith(("arith.", "vector.bitcast", "vector.extract")) or op.name in _OPERANDS


def predicate(device: Any, kernels: Kernels, _: Any) -> None:
    """Replace each `pointer.under` of one op that `_TEXTS` knows by that op's PTX with a predicate."""
    for function, _kernel in functions(device, kernels):
        for branch in find(function, "scf.if"):
            if has(branch, PREDICATED):
                _predicate(branch)


def _predicate(branch: Any) -> None:
    *body, _ = [op.operation for op in branch.regions[0].blocks[0].operations]
    effects = [op for op in body if not _makes_operands(op)]
    if len(effects) != 1 or effects[0].name not in _TEXTS:
        return
    (effect,) = effects
    with ir.InsertionPoint(effect), effect.location:
        found = _TEXTS[effect.name](effect)
        if found is None:
            return
        text, operands = found
        operands = [*operands, branch.operands[0]]
        ir.Operation.create(
            "llvm.inline_asm",
            [],
            operands,
            {
                "asm_string": ir.StringAttr.get(f"@${len(operands) - 1} {text}"),
                "constraints": ir.StringAttr.get(",".join([*map(atomics.constraint, operands), "~{memory}"])),
                "has_side_effects": ir.UnitAttr.get(),
                "asm_dialect": ir.IntegerAttr.get(ir.IntegerType.get_signless(64), 0),
            },
        )
    effect.erase()
    *body, _ = [op.operation for op in branch.regions[0].blocks[0].operations]
    for op in body:
        op.move_before(branch)
    branch.erase()


def _arrive(op: Any) -> Text:
    view = named(op)
    address = new("nvgpu.mbarrier.get", ir.IntegerType.get_signless(64), view.barriers, view.mbarId)
    return "mbarrier.arrive.shared.b64 _, [$0];", [to_i32(address)]


def _arrive_at(op: Any) -> Text | None:
    """At an address, for as many as the second operand says."""
    space = {"!llvm.ptr<3>": "shared", "!llvm.ptr<7>": f"{_order(op)}.cluster.shared::cluster"}
    where = space.get(str(op.operands[0].type))
    count = ", $1" if len(op.operands) > 1 else ""
    return (f"mbarrier.arrive.{where}.b64 _, [$0]{count};", list(op.operands)) if where else None


def _expect_cluster(op: Any) -> Text | None:
    if str(op.operands[0].type) != "!llvm.ptr<7>" or len(op.operands) != 2:
        return None
    text = f"mbarrier.arrive.expect_tx.{_order(op)}.cluster.shared::cluster.b64 _, [$0], $1;"
    return text, list(op.operands)


def _order(op: Any) -> str:
    return "relaxed" if has(op, "relaxed") and str(op.attributes["relaxed"]) != "false" else "release"


def _tma_store(op: Any) -> Text | None:
    view = named(op)
    if view.predicate is not None or word(op, "mode") not in ("", "tile"):
        return None
    coordinates = list(view.coordinates)
    places = ", ".join(f"${2 + i}" for i in range(len(coordinates)))
    hint, operands = "", [view.tmaDescriptor, view.srcMem, *coordinates]
    text = f"cp.async.bulk.tensor.{len(coordinates)}d.global.shared::cta.bulk_group"
    if view.l2CacheHint is not None:
        hint, text = f", ${len(operands)}", f"{text}.L2::cache_hint"
        operands.append(view.l2CacheHint)
    return f"{text} [$0, {{{places}}}], [$1]{hint};", operands


def _store(op: Any) -> Text | None:
    """What is more than one element goes in words of 32 bits."""
    value, pointer = op.operands
    space = atomics.SPACES.get(str(pointer.type))
    if space is None or integer(op, "ordering", 0) or has(op, "volatile_"):
        return None
    if not isinstance(value.type, ir.VectorType):
        known = str(value.type) in atomics.REGISTERS
        return (f"st.{space}.b{value.type.width} [$0], $1;", [pointer, value]) if known else None
    bits = value.type.shape[0] * value.type.element_type.width
    if bits not in (32, 64, 128):
        return None
    i32, words = ir.IntegerType.get_signless(32), bits // 32
    raw = new("vector.bitcast", ir.VectorType.get([words], i32), value)
    position = [ir.DenseI64ArrayAttr.get([i]) for i in range(words)]
    each = [new("vector.extract", i32, raw, static_position=at) for at in position]
    if words == 1:
        return f"st.{space}.b32 [$0], $1;", [pointer, *each]
    places = ", ".join(f"${i + 1}" for i in range(words))
    return f"st.{space}.v{words}.b32 [$0], {{{places}}};", [pointer, *each]


_TEXTS: dict[str, Callable[[Any], Text | None]] = {
    "nvgpu.mbarrier.arrive": _arrive,
    "nvvm.mbarrier.arrive": _arrive_at,
    "nvvm.mbarrier.arrive.expect_tx": _expect_cluster,
    "nvvm.cp.async.bulk.tensor.global.shared.cta": _tma_store,
    "llvm.atomicrmw": atomics.reduction,
    "llvm.store": _store,
}
