"""Mutations of who is ordered with whom: lanes of a warp, membermasks, memory orders and scopes, fences, launches."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any

from nvdsl.mlir import ir
from nvdsl.mlir.dialects import nvvm
from nvdsl.values.arith import DYNAMIC
from tests.sim.mutants.module import (
    add,
    before,
    constant,
    defining,
    enclosing,
    literal,
    segments,
    set_constant,
    slice_of,
)

Change = tuple[str, str, Callable[[Any], None]]

MONOTONIC, ACQUIRE, RELEASE, ACQ_REL = 2, 4, 5, 6
"""LLVM's numbers of atomic orderings."""
_NAMES = {MONOTONIC: "relaxed", ACQUIRE: "acquire", RELEASE: "release"}
_WEAKER = {ACQUIRE: [MONOTONIC], RELEASE: [MONOTONIC], ACQ_REL: [MONOTONIC, ACQUIRE, RELEASE]}
_ATOMIC = ("llvm.load", "llvm.store", "llvm.atomicrmw", "llvm.cmpxchg")
_MASKED = ("nvvm.bar.warp.sync", "nvvm.shfl.sync", "nvvm.vote.sync")  # the membermask comes first
_BY_ALL = ("nvvm.fence.proxy", "nvgpu.mbarrier.arrive", "nvgpu.mbarrier.try_wait.parity", "nvvm.memory.barrier")
_PREDICATE = {"nvgpu.tma.async.load": 6}  # the group of operands that is its predicate
_BULK = (
    "nvgpu.tma.async.load", "nvgpu.tma.async.store", "nvvm.cp.async.bulk.tensor.shared.cluster.global",
    "nvvm.cp.async.bulk.tensor.global.shared.cta", "nvvm.cp.async.bulk.shared.cluster.global",
    "nvvm.cp.async.bulk.global.shared.cta",
)  # fmt: skip


def of(op: Any) -> Iterator[Change]:
    name = op.name
    if name == "nvvm.bar.warp.sync":
        yield "sync_warp deleted", f"without {name}", lambda o: o.erase()
    if name in _MASKED and constant(op.operands[0]) == -1:
        yield "membermask", f"half of the lanes in {name}", functools.partial(set_constant, operand=0, value=0xFFFF)
    if name == "nvvm.elect.sync":
        yield "elect", "all lanes, not the elected one", _always
    if name == "nvvm.griddepcontrol" and "wait" in str(op.attributes["kind"]):
        yield "griddepcontrol deleted", f"without {name} wait", lambda o: o.erase()
    if name == "nvvm.memory.barrier":
        yield "fence deleted", f"without {name}", lambda o: o.erase()
        if "cta" not in str(op.attributes["scope"]):
            yield "fence scope", f"cta, not {_word(op, 'scope')}, in {name}", _narrow
    if name == "nvvm.fence.proxy":
        yield from _spaces(op)
    if name in _ATOMIC:
        yield from _orders(op)
    if name == "scf.if" and _is_one(op.operands[0]):
        yield "lane predicate", "all threads, not one", functools.partial(set_constant, operand=0, value=1)
    if name in _BY_ALL and not any(_is_alone(one.operands[0]) for one in enclosing(op) if one.name == "scf.if"):
        yield "lane predicate", f"lane 0 alone in {name}", _by_lane_0
    if name in _PREDICATE and (given := segments(op)[_PREDICATE[name]]):
        yield (
            "lane predicate",
            f"all threads, not one, in {name}",
            functools.partial(set_constant, operand=given[0], value=1),
        )
    if name in ("nvgpu.mbarrier.init", "nvvm.mbarrier.init"):
        yield "arrival count", f"0 arrivals in {name}", functools.partial(set_constant, operand=1, value=0)
        yield "init doubled", f"{name} once more", _twice
    if "nvdsl.bounds" in op.attributes:
        extents = list(ir.DenseI64ArrayAttr(op.attributes["nvdsl.bounds"]))
        for i, (operand, extent) in enumerate(zip(op.operands, extents, strict=False)):  # dynamic extents are behind
            if constant(operand) is None and address(op, i) is not None:
                if extent != DYNAMIC:
                    yield "tile index", f"{extent} further in dimension {i}", functools.partial(_further, i, extent)
                yield "tile index", f"one further in dimension {i}", functools.partial(_further, i, 1)


def _word(op: Any, attribute: str) -> str:
    return str(op.attributes[attribute]).partition("<")[2].strip("<>")


def _spaces(op: Any) -> Iterator[Change]:
    """A fence of another state space than the accesses that it is for."""
    kind = _word(op, "kind")
    if kind == "async.shared":
        yield "fence space", "global, not shared", functools.partial(_fence, nvvm.ProxyKind.async_global, None)
        if "cluster" in _word(op, "space"):
            cta = nvvm.SharedSpace.shared_cta
            yield "fence space", "shared::cta, not cluster", functools.partial(_fence, nvvm.ProxyKind.async_shared, cta)
    elif kind.startswith("async"):
        space = nvvm.SharedSpace.shared_cta
        yield "fence space", "shared, not global", functools.partial(_fence, nvvm.ProxyKind.async_shared, space)


def _fence(kind: Any, space: Any, op: Any) -> None:
    with before(op), op.location:
        nvvm.fence_proxy(kind=kind, space=space)
    op.erase()


def _orders(op: Any) -> Iterator[Change]:
    """Weaker orders, and the block's scope where there are others to order with."""
    if "ordering" not in op.attributes:
        return
    now = ir.IntegerAttr(op.attributes["ordering"]).value
    for weaker in _WEAKER.get(now, []):
        yield "memory order", f"{_NAMES[weaker]} in {op.name}", functools.partial(_order, weaker)
    if now == RELEASE and not any(True for result in op.results for _ in result.uses):
        yield "arrive deleted", f"without the release of {op.name}", lambda o: o.erase()
    if now and "syncscope" in op.attributes and "block" not in str(op.attributes["syncscope"]):
        yield "memory scope", f"block's, not device's, in {op.name}", _block


def _order(weaker: int, op: Any) -> None:
    op.attributes["ordering"] = ir.IntegerAttr.get(op.attributes["ordering"].type, weaker)


def _block(op: Any) -> None:
    op.attributes["syncscope"] = ir.StringAttr.get("block")


def _narrow(op: Any) -> None:
    with before(op), op.location:
        nvvm.memory_barrier(nvvm.MemScopeKind.CTA)
    op.erase()


def _is_one(condition: Any) -> bool:
    """Whether a condition holds for one thread, or one lane of each warp: `thread_id.x == 0`, `lane_id() == 0`."""
    op = defining(condition)
    if op is not None and op.name == "arith.andi":
        return any(_is_one(operand) for operand in op.operands)
    return (
        op is not None and op.name == "arith.cmpi" and "0 :" in str(op.attributes["predicate"])
        and constant(op.operands[1]) is not None and _is_thread(op.operands[0])
    )  # fmt: skip


def _is_alone(condition: Any) -> bool:
    """Whether one thread or lane may be all that a condition lets in: it asks for one, or elects."""
    for op in filter(None, map(defining, slice_of([condition]))):
        if op.name == "nvvm.elect.sync":
            return True
        if op.name == "arith.cmpi" and "0 :" in str(op.attributes["predicate"]):
            names = {one.name for one in map(defining, slice_of([op.operands[0]])) if one is not None}
            if "gpu.thread_id" in names and not names & {"arith.shrui", "arith.shrsi", "arith.divsi", "arith.divui"}:
                return True
    return False


def _is_thread(value: Any) -> bool:
    """Whether it is the thread's number, or the lane's: that modulo 32."""
    op = defining(value)
    while op is not None and (op.name == "arith.index_cast" or _is_lane(op)):
        op = defining(op.operands[0])
    return op is not None and op.name == "gpu.thread_id"


def _is_lane(op: Any) -> bool:
    return op.name == "arith.andi" and constant(op.operands[1]) == 31


def _always(op: Any) -> None:
    with before(op), op.location:
        op.results[0].replace_all_uses_with(literal(op.results[0].type, 1))
    op.erase()


def _by_lane_0(op: Any) -> None:
    """The op moves into `if lane == 0`."""
    create, i32 = ir.Operation.create, ir.IntegerType.get_signless(32)
    with before(op), op.location:
        lane = create("nvvm.read.ptx.sreg.laneid", [i32]).results[0]
        equal = ir.IntegerAttr.get(ir.IntegerType.get_signless(64), 0)
        first = create("arith.cmpi", [ir.IntegerType.get_signless(1)], [lane, literal(i32, 0)], {"predicate": equal})
        branch = create("scf.if", [], [first.results[0]], regions=2)
        block = ir.Block.create_at_start(branch.regions[0])
        with ir.InsertionPoint(block):
            end = create("scf.yield", [])
    op.move_before(end.operation)


def _twice(op: Any) -> None:
    op.clone(ir.InsertionPoint(op))


def _further(i: int, change: int, op: Any) -> None:
    """Another index: in the check of the bounds, and in the address that is computed from it next."""
    user = address(op, i)
    add(op, i, change)
    user[0].operands[user[1]] = op.operands[i]


def address(op: Any, i: int) -> tuple[Any, int] | None:
    """The op behind a check of the bounds that takes index ``i`` of it, and as which operand."""
    index = ir.Value.__hash__(op.operands[i])
    block = [one.operation for one in op.block.operations]
    for one in block[block.index(op) + 1 :]:
        for k, operand in enumerate(one.operands if one.name.startswith("arith.") else ()):
            if ir.Value.__hash__(operand) == index:
                return one, k
    return None
