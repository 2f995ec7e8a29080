"""The mutations: what is deleted, and what is made wrong, in the kernels of a traced module."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from nvdsl.hopper import arch
from nvdsl.ir.walk import walk
from nvdsl.mlir import ir
from tests.sim.mutants import orders, values
from tests.sim.mutants.module import (
    add,
    constant,
    copy,
    flip,
    group_size,
    line_of,
    most_registers,
    segments,
    set_constant,
)  # fmt: skip

Edit = Callable[[Any], None]


@dataclass(frozen=True)
class Mutant:
    """One change. ``kind``: the mutation's name; ``number``: of the op that is changed, in `walk`'s order; ``line``:
    that op's (file, line). ``edit`` changes the op of that number in a copy."""

    kind: str
    name: str
    number: int
    line: tuple[str, int] | None
    edit: Edit

    def apply(self, module: Any) -> Any:
        with module.context, ir.Location.unknown():
            made, ops = copy(module)
            self.edit(ops[self.number])
        return made


REMOVED = {
    "nvgpu.mbarrier.try_wait.parity": "wait", "nvgpu.mbarrier.arrive": "arrive",
    "nvgpu.mbarrier.arrive.expect_tx": "arrive", "nvgpu.mbarrier.arrive.nocomplete": "arrive",
    "nvvm.mbarrier.arrive": "arrive", "nvvm.mbarrier.arrive.expect_tx": "arrive", "nvvm.mbarrier.expect_tx": "arrive",
    "nvgpu.mbarrier.init": "init", "nvvm.mbarrier.init": "init", "nvvm.fence.mbarrier.init": "fence",
    "gpu.barrier": "barrier", "nvvm.barrier": "barrier", "nvvm.barrier.arrive": "barrier",
    "nvvm.cluster.arrive": "barrier", "nvvm.cluster.wait": "barrier",
    "nvvm.wgmma.fence.aligned": "fence", "nvvm.fence.proxy": "fence",
    "nvvm.wgmma.commit.group.sync.aligned": "commit", "nvvm.cp.async.bulk.commit.group": "commit",
    "nvvm.wgmma.wait.group.sync.aligned": "wait", "nvvm.cp.async.bulk.wait_group": "wait",
    "nvgpu.tma.async.load": "copy", "nvvm.cp.async.bulk.tensor.shared.cluster.global": "copy",
    "nvvm.cp.async.bulk.shared.cluster.global": "copy",
    "nvgpu.device_async_copy": "copy", "nvvm.cp.async.commit.group": "commit", "nvvm.cp.async.wait.group": "wait",
}  # fmt: skip
"""What is deleted, and the group under which the table counts it."""

_EXPECT = {"nvgpu.mbarrier.arrive.expect_tx": 1, "nvvm.mbarrier.arrive.expect_tx": 1, "nvvm.mbarrier.expect_tx": 1}
_INIT = {"nvgpu.mbarrier.init": 1, "nvvm.mbarrier.init": 1}
_WAIT = {"nvgpu.mbarrier.try_wait.parity": 1, "nvvm.mbarrier.test.wait": 1, "nvvm.mbarrier.try_wait": 1}
_PENDING = {
    "nvvm.wgmma.wait.group.sync.aligned": "group", "nvvm.cp.async.bulk.wait_group": "group",
    "nvvm.cp.async.wait.group": "n",
}  # fmt: skip
"""Which attribute is the number of groups that a wait leaves in flight."""
_INDEX = {
    "nvgpu.mbarrier.try_wait.parity": 3, "nvgpu.mbarrier.arrive": 1, "nvgpu.mbarrier.arrive.expect_tx": 2,
    "nvgpu.mbarrier.arrive.nocomplete": 1, "nvgpu.mbarrier.get": 1,
}  # fmt: skip
"""Which operand is the index of the mbarrier."""


def mutants(module: Any) -> list[Mutant]:
    """Every single change of a traced module, in the order of its ops; but not of loops that make no round."""
    with module.context:
        ops = walk(module.operation)
        facts = values.Facts(ops)
        found = []
        idle = {hash(inner) for op in ops if _makes_no_round(op) for inner in walk(op) if inner != op}
        for number, op in enumerate(ops):
            if hash(op) in idle:
                continue
            for kind, text, edit in _of(op, facts):
                found.append(Mutant(kind, text, number, line_of(op), edit))
    return found


def _makes_no_round(op: Any) -> bool:
    if op.name != "scf.for":
        return False
    first, stop = (constant(bound) for bound in list(op.operands)[:2])
    return first is not None and stop is not None and first >= stop


def _of(op: Any, facts: values.Facts) -> Iterator[tuple[str, str, Edit]]:
    name = op.name
    if name in REMOVED:
        yield f"{REMOVED[name]} deleted", f"without {name}", lambda o: o.erase()
    if name in _EXPECT:
        yield from _bytes(op, _EXPECT[name], facts)
    if name in _INIT:
        for change in (1, -1):
            yield "arrival count", f"{change:+} arrivals in {name}", functools.partial(_add, _INIT[name], change)
    if name in _WAIT:
        yield "parity flipped", f"other parity in {name}", functools.partial(_flip, _WAIT[name])
    if name in _PENDING:
        yield "one more in flight", f"one more group left in {name}", _loosen
    if name in _INDEX:
        yield from _slot(op, _INDEX[name])
    if name == "nvgpu.tma.async.load":
        yield from _load(op)
    if name in ("nvvm.barrier", "nvvm.barrier.arrive"):
        yield from _named_barrier(op, facts)
    if name == "nvvm.setmaxregister":
        yield from _registers(op)
    if name == "nvgpu.tma.create.descriptor":
        yield from values.swizzles(op)
    yield from orders.of(op)
    yield from values.of(op, facts)


def _bytes(op: Any, operand: int, facts: values.Facts) -> Iterator[tuple[str, str, Edit]]:
    size = constant(op.operands[operand])
    box = facts.smallest_box
    if size is None or box is None:
        return
    for what, value in ((f"{box} more", size + box), (f"{box} fewer", size - box), ("half the", size // 2)):
        yield "byte count", f"{what} bytes in {op.name}", functools.partial(_set, operand, value)


def _slot(op: Any, operand: int) -> Iterator[tuple[str, str, Edit]]:
    size = group_size(op.operands[0])
    if size > 1:
        yield "slot of a barrier", f"the next barrier in {op.name}", functools.partial(_add, operand, 1, modulo=size)


def _load(op: Any) -> Iterator[tuple[str, str, Edit]]:
    (_, (group,), _, _, (index,), mask, _) = segments(op)
    size = group_size(op.operands[group])
    if size > 1:
        yield "slot of a barrier", f"the next barrier in {op.name}", functools.partial(_add, index, 1, modulo=size)
    for operand in mask:
        yield from values.masks(op, operand)


def _named_barrier(op: Any, facts: values.Facts) -> Iterator[tuple[str, str, Edit]]:
    """Where one number is all that a kernel uses, any other is as good."""
    if op.name == "nvvm.barrier":
        number, threads, _ = segments(op)
    else:
        number, threads = [0] if len(op.operands) > 1 else [], [len(op.operands) - 1]
    for operand in number if facts.barrier_numbers > 1 else []:
        yield "named barrier", f"another number in {op.name}", functools.partial(_add, operand, 1)
    for operand in threads:
        for change in (32, -32):
            yield "named barrier", f"{change:+} threads in {op.name}", functools.partial(_add, operand, change)


def _registers(op: Any) -> Iterator[tuple[str, str, Edit]]:
    """A value that the pool can't give. (What is merely unwise is no error, nor is all that a small block can ask.)"""
    if most_registers(op) <= arch.REGISTERS_PER_SM:
        return
    if "increase" in str(op.attributes["action"]):
        yield "setmaxnreg", "asks for the most registers a thread can have", functools.partial(_regs, 248)
    else:
        yield "setmaxnreg", "gives back too few registers", functools.partial(_regs, 152)


def _regs(count: int, op: Any) -> None:
    op.attributes["regCount"] = ir.IntegerAttr.get(op.attributes["regCount"].type, count)


def _set(operand: int, value: int, op: Any) -> None:
    set_constant(op, operand, value)


def _add(operand: int, change: int, op: Any, modulo: int | None = None) -> None:
    add(op, operand, change, modulo)


def _flip(operand: int, op: Any) -> None:
    flip(op, operand)


def _loosen(op: Any) -> None:
    name = _PENDING[op.name]
    group = op.attributes[name]
    op.attributes[name] = ir.IntegerAttr.get(group.type, ir.IntegerAttr(group).value + 1)
