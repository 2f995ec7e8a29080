"""Mutations of what is computed: phases, slots, distances between stages, swizzles, masks."""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Callable, Iterator
from typing import Any

from nvdsl.mlir import ir
from nvdsl.values import dtypes
from tests.sim.mutants.module import (
    add,
    constant,
    defining,
    group_size,
    inside,
    is_loop_argument,
    looping,
    segments,
    set_constant,
    slice_of,
)  # fmt: skip

Change = tuple[str, str, Callable[[Any], None]]

_PARITY = {"nvgpu.mbarrier.try_wait.parity": 1, "nvvm.mbarrier.test.wait": 1, "nvvm.mbarrier.try_wait": 1}
_INDEX = {
    "nvgpu.mbarrier.try_wait.parity": 3, "nvgpu.mbarrier.arrive": 1, "nvgpu.mbarrier.arrive.expect_tx": 2,
    "nvgpu.mbarrier.get": 1,
}  # fmt: skip
_SYNC = ("nvgpu.mbarrier", "nvvm.mbarrier", "nvgpu.tma.async.load")
_BARRIERS = ("nvvm.barrier", "nvvm.barrier.arrive")
_SWIZZLE_SHIFT, _STRIDE_SHIFT = 62, 32


class Facts:
    """What the values of a module are for: parts of phases, of slots, of descriptors, of conditions of roles."""

    def __init__(self, ops: list[Any]) -> None:
        self._parities = _keys(slice_of([op.operands[_PARITY[op.name]] for op in ops if op.name in _PARITY]))
        indices = [op.operands[_INDEX[op.name]] for op in ops if op.name in _INDEX]
        loads = [op for op in ops if op.name == "nvgpu.tma.async.load"]
        indices += [op.operands[segments(op)[4][0]] for op in loads]
        self._slots = _keys(slice_of(indices))
        conditions = [op.operands[0] for op in ops if op.name == "scf.if" and inside(op, _SYNC)]
        conditions += [op.operands[i] for op in loads for i in segments(op)[6]]
        self._conditions = _keys(slice_of(conditions))
        descriptors = [o for op in ops if op.name == "nvvm.wgmma.mma_async" for o in list(op.operands)[1:]]
        descriptors += [o for op in ops if op.name == "llvm.inline_asm" and _is_wgmma(op) for o in op.operands
                        if str(o.type) == "i64"]  # fmt: skip
        self._descriptors = _keys(slice_of(descriptors))
        integers = [value for op in ops for value in op.results if str(value.type) in ("i1", "i32", "i64", "index")]
        self._looping = looping(integers) if self._slots else set()
        groups = [group_size(op.results[0]) for op in ops if op.name == "nvgpu.mbarrier.create"]
        self.rings = set(groups)
        self.stages = max(groups, default=1)
        # A number that is computed differs from thread to thread.
        numbers = [constant(o) for op in ops if op.name in _BARRIERS for o in _barrier_number(op)]
        self.barrier_numbers = 2 if None in numbers else len(set(numbers))
        maps = [op for op in ops if op.name == "nvgpu.tma.create.descriptor"]
        self.smallest_box = min(map(_box_bytes, maps), default=None)

    def of_phase(self, value: Any) -> bool:
        return _key(value) in self._parities

    def of_slot(self, value: Any) -> bool:
        return _key(value) in self._slots

    def of_descriptor(self, value: Any) -> bool:
        return _key(value) in self._descriptors

    def of_condition(self, value: Any) -> bool:
        return _key(value) in self._conditions

    def loops(self, value: Any) -> bool:
        """Whether it changes from one round of a loop to the next."""
        return _key(value) in self._looping or is_loop_argument(value)


def _barrier_number(op: Any) -> list[Any]:
    if op.name == "nvvm.barrier":
        return [op.operands[i] for i in segments(op)[0]]
    return list(op.operands)[:-1]


def _key(value: Any) -> int:
    return ir.Value.__hash__(value)


def ordering(op: Any) -> int:
    """The number of an access's atomic ordering, 0 for none."""
    return ir.IntegerAttr(op.attributes["ordering"]).value if "ordering" in op.attributes else 0


def _keys(values: list[Any]) -> set[int]:
    return {_key(value) for value in values}


def _is_wgmma(op: Any) -> bool:
    return "wgmma.mma_async" in ir.StringAttr(op.attributes["asm_string"]).value


def of(op: Any, facts: Facts) -> Iterator[Change]:
    """Changes of an arithmetic op, by what its result is for."""
    if op.name == "scf.for":
        yield from _first_phases(op, facts)
    if not op.name.startswith("arith.") or len(op.operands) != 2 or op.name == "arith.constant":
        return
    result, known = op.results[0], constant(op.operands[1])
    if known is None:
        return
    if facts.of_phase(result) and facts.loops(result):
        yield from _phase(op, known)
    if (facts.of_slot(result) or facts.of_condition(result)) and facts.loops(result):
        yield from _distance(op, known)
    if facts.of_slot(result) and facts.loops(result):
        yield from _round(op, known, facts.rings)
    if op.name == "arith.muli" and facts.of_slot(op.operands[0]) and facts.loops(op.operands[0]) and known % 128 == 0:
        what = f"the next slot's tile ({known} bytes apart)"
        yield "slot of a tile", what, functools.partial(_add, 0, 1, modulo=facts.stages)
    if op.name in ("arith.ori", "arith.addi") and facts.of_descriptor(result) and known >> _STRIDE_SHIFT:
        yield from _descriptor(known)


def _phase(op: Any, known: int) -> Iterator[Change]:
    if op.name == "arith.xori" and known in (1, -1):
        yield "phase increment", "a phase that never flips", functools.partial(_set, 1, 0)
    if op.name in ("arith.divsi", "arith.divui"):
        for change in (1, -1):
            what = f"a phase of {known + change} steps, not {known}"
            yield "phase increment", what, functools.partial(_divide, change)
    if op.name in ("arith.shrsi", "arith.shrui"):
        yield "phase increment", f"a phase of {2 << known} steps, not {1 << known}", functools.partial(_add, 1, 1)


def _round(op: Any, known: int, rings: set[int]) -> Iterator[Change]:
    """Where the ring wraps. ``rings``: the numbers of slots that there are."""
    if op.name in ("arith.remsi", "arith.remui") and known > 1 and known in rings:
        yield "stage count", f"a ring of {known - 1} slots, not {known}", functools.partial(_add, 1, -1)
    if op.name == "arith.andi" and known & (known + 1) == 0 and known > 0 and known + 1 in rings:
        what = f"a ring of {(known + 1) // 2} slots, not {known + 1}"
        yield "stage count", what, functools.partial(_set, 1, known >> 1)


def _divide(change: int, op: Any) -> None:
    """Another divisor; also where the quotient is multiplied again, to round it down."""
    divisor = constant(op.operands[1])
    assert divisor is not None
    for use in list(op.results[0].uses):
        user = use.owner.operation
        if user.name == "arith.muli" and constant(user.operands[1]) == divisor:
            set_constant(user, 1, divisor + change)
    set_constant(op, 1, divisor + change)


def _is_correction(op: Any) -> bool:
    """Whether it is part of `%`'s or `//`'s correction of a negative remainder: a slot's number is never negative."""
    source = defining(op.operands[0])
    if op.name == "arith.cmpi":
        return source is not None and source.name in ("arith.remsi", "arith.subi") and constant(op.operands[1]) == 0
    by = constant(op.operands[1])
    return source is not None and source.name == "arith.remsi" and by == constant(source.operands[1])


def _distance(op: Any, known: int) -> Iterator[Change]:
    if _is_correction(op):
        return
    if op.name in ("arith.addi", "arith.subi"):
        for change in (1, -1):
            yield "stage distance", f"{change:+} in {op.name}", functools.partial(_add, 1, change)
    if op.name == "arith.cmpi":
        for change in (1, -1):
            yield "stage distance", f"compared with {known + change}, not {known}", functools.partial(_add, 1, change)


def _first_phases(loop: Any, facts: Facts) -> Iterator[Change]:
    for i, argument in enumerate(list(loop.regions[0].blocks[0].arguments)[1:]):
        known = constant(loop.operands[3 + i])
        if known in (0, 1, -1) and facts.of_phase(argument) and not facts.of_slot(argument):
            other = 1 - abs(known)
            yield "phase increment", f"the first phase is {other}", functools.partial(_set, 3 + i, other)


def _descriptor(known: int) -> Iterator[Change]:
    mode = known >> _SWIZZLE_SHIFT & 3
    names = ("none", "128", "64", "32")
    for other in range(4):
        if other != mode and mode:
            value = _signed(known & ~(3 << _SWIZZLE_SHIFT) | other << _SWIZZLE_SHIFT)
            yield "swizzle of wgmma", f"swizzle {names[other]}, not {names[mode]}", functools.partial(_set, 1, value)
    stride = known >> _STRIDE_SHIFT & 0x3FFF
    for what, changed in (("twice", stride * 2), ("half", stride // 2)):
        value = _signed(known & ~(0x3FFF << _STRIDE_SHIFT) | changed << _STRIDE_SHIFT)
        yield "stride of wgmma", f"{what} the stride", functools.partial(_set, 1, value)


def _signed(x: int) -> int:
    x &= (1 << 64) - 1
    return x - (1 << 64) if x >> 63 else x


_SWIZZLES = ("none", "swizzle_32b", "swizzle_64b", "swizzle_128b")


def swizzles(op: Any) -> Iterator[Change]:
    """Every other swizzle of a tensor map."""
    now = re.search(r"swizzle = (\w+)", str(op.results[0].type))
    for other in _SWIZZLES:
        if now and other != now[1]:
            yield "swizzle of TMA", f"{other}, not {now[1]}", functools.partial(_retype, now[1], other)


def _retype(now: str, other: str, op: Any) -> None:
    type_ = str(op.results[0].type).replace(f"swizzle = {now},", f"swizzle = {other},")
    op.results[0].set_type(ir.Type.parse(type_))


def _box_bytes(op: Any) -> int:
    tensor = re.search(r"tensor = (memref<.*?>), swizzle", str(op.results[0].type))
    assert tensor is not None
    type_ = ir.MemRefType(ir.Type.parse(tensor[1]))
    return math.prod(type_.shape) * dtypes.from_ir(type_.element_type).bytes


def masks(op: Any, operand: int) -> Iterator[Change]:
    """A multicast mask with its lowest bit off."""
    yield "multicast mask", "a block fewer", functools.partial(_fewer, operand)
    yield "multicast mask", "block 0 alone", functools.partial(_alone, operand)


def _fewer(operand: int, op: Any) -> None:
    mask = op.operands[operand]
    with ir.InsertionPoint(op), op.location:
        one = ir.Operation.create("arith.constant", [mask.type], attributes={"value": ir.IntegerAttr.get(mask.type, 1)})
        less = ir.Operation.create("arith.subi", [mask.type], [mask, one.results[0]])
        op.operands[operand] = ir.Operation.create("arith.andi", [mask.type], [mask, less.results[0]]).results[0]


def _alone(operand: int, op: Any) -> None:
    set_constant(op, operand, 1)


def _set(operand: int, value: int, op: Any) -> None:
    set_constant(op, operand, value)


def _add(operand: int, change: int, op: Any, modulo: int | None = None) -> None:
    add(op, operand, change, modulo)
