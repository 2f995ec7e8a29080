"""Registers of wgmma: accumulators, and A's, that are read while the wgmma may be in flight; wgmmas that no fence
precedes, or that add to registers which nothing wrote, or to those of a wgmma of another shape.

The kernel is followed along its structure. What is in flight behind an `if` is what both branches leave so; a loop is
gone through twice, since a round may read what the one before left in flight.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import field
from typing import Any

from nvdsl.errors import VerifyError
from nvdsl.errors.records import dataclass
from nvdsl.ir.location import where
from nvdsl.ir.operands import integer, integers, matrix_shape, named, string, word
from nvdsl.ir.walk import defining, yielded
from nvdsl.mlir import ir
from nvdsl.mlir.dialects import llvm
from nvdsl.verify.context import Context, beside, contexts
from nvdsl.verify.places import is_inline_wgmma
from nvdsl.verify.program import Node, Program

_READS = (
    "llvm.extractvalue", "llvm.store", "nvgpu.warpgroup.mma.store", "llvm.bitcast",
    "builtin.unrealized_conversion_cast",
)  # fmt: skip
_OPEN = -1


@dataclass
class _State:
    """``flying``: an accumulator's value -> (groups committed behind its own, -1 where its own is open; its wgmma).
    ``fenced``: a wgmma.fence has been executed. ``waited``: the last wait. ``fragments``: A's registers, as ``flying``.
    ``shapes``: of the accumulators that wgmmas have written since the last fence."""

    flying: dict[int, tuple[int, Node]] = field(default_factory=dict)
    fenced: bool = False
    waited: Node | None = None
    fragments: dict[int, tuple[int, Node]] = field(default_factory=dict)
    shapes: dict[int, tuple[str, Node]] = field(default_factory=dict)

    def copy(self) -> _State:
        return _State(dict(self.flying), self.fenced, self.waited, dict(self.fragments), dict(self.shapes))

    def commit(self) -> None:
        self.flying, self.fragments = (
            {v: (age + 1, node) for v, (age, node) in some.items()} for some in (self.flying, self.fragments)
        )

    def wait(self, pending: int) -> None:
        self.flying, self.fragments = (
            {v: (age, node) for v, (age, node) in some.items() if age < pending or age == _OPEN}
            for some in (self.flying, self.fragments)
        )


def check(program: Program) -> None:
    for context in contexts(program):
        kernel = context.kernel
        if kernel.find("nvvm.wgmma.mma_async", "nvgpu.warpgroup.mma", "llvm.inline_asm"):
            _Walk(context).region(kernel.launch, 0, _State())


class _Walk:
    def __init__(self, context: Context) -> None:
        self.context = context
        self.children: dict[tuple[int, int], list[Node]] = {}
        for node in context.kernel.nodes:
            self.children.setdefault((id(node.parent), node.region), []).append(node)

    def region(self, node: Node, number: int, state: _State) -> _State:
        for child in self.children.get((id(node), number), ()):
            step = _STEPS.get(child.name)
            if step is not None:
                state = step(self, child, state)
            elif child.name in _READS and state.flying:
                _check_read(child, state)
            if state.fragments and child.name not in ("llvm.inline_asm", *_REGIONS):
                _check_fragments(child, state)
        return state

    def branch(self, node: Node, state: _State) -> _State:
        one, other = self.region(node, 0, state.copy()), self.region(node, 1, state.copy())
        merged = _both(one, other)
        if len(node.op.results) and (one.flying or other.flying):
            for result, a, b in zip(node.op.results, *map(yielded, node.op.regions), strict=True):
                if hash(a) in one.flying and hash(b) in other.flying:
                    merged.flying[hash(result)] = max(one.flying[hash(a)], other.flying[hash(b)], key=lambda x: x[0])
        return merged

    def loop(self, node: Node, state: _State) -> _State:
        block = node.op.regions[0].blocks[0]
        arguments = list(block.arguments)[1:]
        yields = yielded(node.op.regions[0]) if arguments else []
        _flow(list(node.op.operands)[3:], arguments, state)
        once = self.region(node, 0, state)
        again = once.copy()
        _flow(yields, arguments, again)
        trips = self.context.reaches.rounds(node)
        if trips == 1:
            again = once
        else:
            again = self.region(node, 0, again)
            if trips is None:
                again = _both(once, again)
        _flow(yields, list(node.op.results), again)
        return again

    def other(self, node: Node, state: _State) -> _State:
        """A while loop: each part on its own, and nothing is known to be in flight behind it."""
        for number in range(len(node.op.regions)):
            self.region(node, number, _State(fenced=True))
        return _State(fenced=True)

    def wgmma(self, node: Node, state: _State) -> _State:
        if not state.fenced:
            raise _unfenced(node)
        accumulator, result = named(node.op).inouts, node.op.results[0]
        adds = word(node.op, "scaleD") == "one"
        if adds and _is_undefined(accumulator):
            raise _undefined(node)
        _same_shape(node, accumulator, result, "m{}n{}k{}".format(*matrix_shape(node.op)), state)
        state.flying.pop(hash(accumulator), None)
        state.flying[hash(result)] = (_OPEN, node)
        return state

    def inline(self, node: Node, state: _State) -> _State:
        """wgmma with A in registers, or with scale-d in one: its accumulator is the last operand."""
        if not is_inline_wgmma(node.op):
            _check_read(node, state)
        else:
            if not state.fenced:
                raise _unfenced(node)
            state.flying[hash(node.op.results[0])] = (_OPEN, node)
            text = string(node.op, "asm_string")
            match = _INLINE.search(text)
            if match is not None:
                *given, before = node.op.operands
                _same_shape(node, before, node.op.results[0], match[1], state)
                if match[2]:
                    state.fragments |= {hash(x): (_OPEN, node) for x in given[:4]}
        return state

    def fence(self, node: Node, state: _State) -> _State:
        state.fenced, state.shapes = True, {}
        return state

    def commit(self, node: Node, state: _State) -> _State:
        state.commit()
        return state

    def wait(self, node: Node, state: _State) -> _State:
        state.wait(integer(node.op, "group"))
        state.waited = node
        return state

    def warpgroup_mma(self, node: Node, state: _State) -> _State:
        """nvgpu's op lowers to a fence, the wgmmas, a commit, and a wait that leaves one group in flight."""
        state.fenced = True
        state.flying[hash(node.op.results[0])] = (_OPEN, node)
        state.commit()
        state.wait(1)
        return state


_STEPS: dict[str, Callable[[_Walk, Node, _State], _State]] = {
    "scf.if": _Walk.branch,
    "scf.for": _Walk.loop,
    "scf.while": _Walk.other,
    "nvvm.wgmma.mma_async": _Walk.wgmma,
    "llvm.inline_asm": _Walk.inline,
    "nvvm.wgmma.fence.aligned": _Walk.fence,
    "nvvm.wgmma.commit.group.sync.aligned": _Walk.commit,
    "nvvm.wgmma.wait.group.sync.aligned": _Walk.wait,
    "nvgpu.warpgroup.mma": _Walk.warpgroup_mma,
}


def _flow(sources: list[Any], targets: list[Any], state: _State) -> None:
    """Values go on under other names, all at once."""
    found = [state.flying.get(hash(source)) for source in sources]
    for target, one in zip(targets, found, strict=True):
        if one is None:
            state.flying.pop(hash(target), None)
        else:
            state.flying[hash(target)] = one


def _both(one: _State, other: _State) -> _State:
    """What is in flight on either way."""
    flying = {
        v: max(one.flying[v], other.flying[v], key=lambda x: x[0]) for v in one.flying if v in other.flying
    }
    fragments = {v: x for v, x in one.fragments.items() if v in other.fragments}
    shapes = {v: x for v, x in one.shapes.items() if v in other.shapes}
    return _State(flying, one.fenced and other.fenced, one.waited or other.waited, fragments, shapes)


def _check_read(node: Node, state: _State) -> None:
    for operand in node.op.operands:
        flying = state.flying.get(hash(operand))
        if flying is not None:
            raise _read_in_flight(node, *flying, state.waited)


def _read_in_flight(node: Node, age: int, wgmma: Node, waited: Node | None) -> VerifyError:
    if age == _OPEN:
        why, fix = "no group has been committed since", "nv.wgmma_commit() behind the wgmma, then nv.wgmma_wait(0)"
    elif waited is not None and waited.order > wgmma.order:
        pending = integer(waited.op, "group")
        why = f"the wait at {beside(waited, node)} leaves {pending} group{'s' * (pending > 1)} in flight"
        fix = f"nv.wgmma_wait({age}) before the accumulator is read"
    else:
        why, fix = "nothing waits for it", f"nv.wgmma_wait({age}) before the accumulator is read"
    return VerifyError(
        f"the accumulator is read while the wgmma at {beside(wgmma, node)} may be in flight: {why}",
        where=where(node.op),
        rule="the registers of an accumulator are not to be touched before a wgmma.wait_group that covers the wgmma's "
        "group (PTX ISA, wgmma.mma_async, wgmma.wait_group)",
        fix=fix,
    )


_INLINE = re.compile(r"(m64n\d+k\d+)\.\S+ \{[^}]*\}, (\{)?")
"""An inline wgmma's shape, and whether its A is in registers."""
_REGIONS = ("scf.for", "scf.if", "scf.while", "scf.yield")


def _check_fragments(node: Node, state: _State) -> None:
    for operand in node.op.operands:
        flying = state.fragments.get(hash(operand))
        if flying is not None:
            raise VerifyError(
                f"a register of A is read while the wgmma at {beside(flying[1], node)} may be in flight",
                where=where(node.op),
                rule="registers of A are not to be touched before a wgmma.wait_group that covers the wgmma's group "
                "(PTX ISA, wgmma.mma_async, wgmma.wait_group)",
                fix=f"nv.wgmma_wait({max(flying[0], 0)}) before the fragment is used again",
            )


def _is_undefined(accumulator: Any) -> bool:
    """Whether something in it was never written: in a loop, before the first round."""
    written: set[int] = set()
    value = accumulator
    while True:
        op = defining(value)
        if op is None:
            loop, number = value.owner.owner.operation, ir.BlockArgument(value).arg_number
            if loop.name != "scf.for" or number == 0:
                return False
            value = loop.operands[2 + number]
        elif op.name == "llvm.insertvalue":
            written |= set(integers(op, "position"))
            value = op.operands[0]
        else:
            fields = len(list(llvm.StructType(accumulator.type).body))
            return op.name in ("llvm.mlir.undef", "llvm.mlir.poison") and len(written) < fields


def _undefined(node: Node) -> VerifyError:
    return VerifyError(
        "this wgmma adds to registers that nothing has written",
        where=where(node.op),
        rule="with scale-d 1 a wgmma adds to the registers of D (PTX ISA, wgmma.mma_async, scale-d)",
        fix="start the sum with scale_d=False, or with zeros, as nv.accumulator does",
    )


def _same_shape(node: Node, accumulator: Any, result: Any, shape: str, state: _State) -> None:
    before = state.shapes.get(hash(accumulator))
    if before is not None and before[0] != shape and hash(accumulator) in state.flying:
        raise VerifyError(
            f"a wgmma of shape {shape} adds to the accumulator of the one of shape {before[0]} at "
            f"{beside(before[1], node)}, with no wgmma.fence between the two",
            where=where(node.op),
            rule="only wgmmas of one shape are ordered in their accumulator by themselves (PTX ISA, wgmma.fence)",
            fix="nv.wgmma_fence() between the two",
        )
    state.shapes[hash(result)] = shape, node


def _unfenced(node: Node) -> VerifyError:
    return VerifyError(
        "no wgmma.fence comes before this wgmma",
        where=where(node.op),
        rule="wgmma.fence orders the warpgroup's register accesses before its first wgmma, and before each that "
        "follows other accesses to these registers (PTX ISA, wgmma.fence)",
        fix="nv.wgmma_fence() before the wgmmas of a group; `acc += A @ B` has it",
    )
