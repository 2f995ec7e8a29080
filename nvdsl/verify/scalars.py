"""Operands that an instruction does not take, of values that surely are so: divisors, shift counts, steps, numbers. And
loops that surely never end."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from nvdsl.errors import VerifyError
from nvdsl.hopper import arch
from nvdsl.ir.arith import DIVISIONS, SHIFTS, is_too_far
from nvdsl.ir.location import where
from nvdsl.ir.loops import is_endless
from nvdsl.mlir import ir
from nvdsl.verify import certain
from nvdsl.verify.context import Context, contexts
from nvdsl.verify.program import Node, Program


def check(program: Program) -> None:
    for context in contexts(program):
        for node in context.kernel.find(*DIVISIONS):
            if not list(node.op.results[0].uses):
                continue
            _refuse(
                context, node, node.op.operands[1], lambda x: x == 0, "a division by {}",
                "an integer division or remainder by 0 is undefined (LLVM), its value unspecified (PTX ISA, div)",
                "guard it with an `if`",
            )  # fmt: skip
        for node in context.kernel.find(*SHIFTS):
            if not all(use.owner.name == "arith.select" for use in node.op.results[0].uses):
                _check_shift(context, node)
        for node in context.kernel.find("scf.for"):
            _refuse(
                context, node, node.op.operands[2], lambda x: x <= 0, "a loop with a step of {}",
                "a loop counts up: with a step of 0 it never ends (MLIR, scf.for)",
                "a step above 0; to count down, a negative int as a literal",
            )  # fmt: skip
        for node in context.kernel.find("scf.while"):
            if is_endless(node.op) and context.reaches.of(node).lanes.any():
                raise VerifyError(
                    "a loop that never ends: nothing in it changes what its condition is made of",
                    where=where(node.op),
                    rule="a loop ends when its condition is false; what is computed of the same values stays the same",
                    fix="assign in the body what the condition reads: `i += 1`, `work = queue.next(work)`",
                )
        for node in context.kernel.find("nvvm.nanosleep"):
            _refuse(
                context, node, node.op.operands[0], lambda x: (x < 0) | (x > arch.MAX_NANOSLEEP),
                "a nanosleep of {} ns", f"a thread sleeps for at most {arch.MAX_NANOSLEEP:,} ns (PTX ISA, nanosleep)",
                "sleep in a loop until the global timer says so",
            )  # fmt: skip
        for node in context.kernel.find("nvgpu.mbarrier.init"):
            _refuse(
                context, node, node.op.operands[1], lambda x: (x < 1) | (x > arch.MBARRIER_MAX_COUNT),
                "an mbarrier.init with a count of {}",
                f"a count is 1 to {arch.MBARRIER_MAX_COUNT:,} (PTX ISA, mbarrier.init)",
                "count the arrivals of a phase", *list(node.op.operands)[3:],
            )  # fmt: skip


def _check_shift(context: Context, node: Node) -> None:
    kind = node.op.results[0].type
    bits = ir.IntegerType(kind).width if isinstance(kind, ir.IntegerType) else 64
    _refuse(
        context, node, node.op.operands[1], lambda x: is_too_far(x, bits), f"a shift of {bits} bits by {{}}",
        f"a shift's count is 0 to {bits - 1}; any other has an undefined result (LLVM)",
        "clamp the count, or guard it with an `if`",
    )  # fmt: skip


def _refuse(
    context: Context, node: Node, value: Any, wrong: Callable[[Any], Any], what: str, rule: str, fix: str,
    predicate: Any = None,
) -> None:  # fmt: skip
    owner = value.owner
    if not isinstance(owner, ir.Block) and owner.name == "arith.constant" and isinstance(value.type, ir.VectorType):
        return
    reach = context.reaches.of(node, predicate)
    if 0 in reach.trips or not reach.lanes.any():
        return
    found = certain.first(certain.values(context, node, value, reach), wrong, reach)
    if found is not None:
        raise VerifyError(what.format(f"{found:,}"), where=where(node.op), rule=rule, fix=fix)
