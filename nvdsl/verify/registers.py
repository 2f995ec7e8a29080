"""The register budget of warp-specialized kernels: setmaxnreg over all warpgroups of a block.

A split that asks for more than the register file hangs without a message: the last
``setmaxnreg.inc`` waits for registers that nobody releases.
"""

from __future__ import annotations

from nvdsl.errors import VerifyError
from nvdsl.hopper import arch
from nvdsl.hopper.arch import WARPGROUP_SIZE
from nvdsl.ir.location import where
from nvdsl.ir.operands import integer
from nvdsl.verify.context import Context, contexts
from nvdsl.verify.program import Node, Program


def check(program: Program) -> None:
    for context in contexts(program):
        nodes = context.kernel.find("nvvm.setmaxregister")
        if nodes and not context.threads.per_block % WARPGROUP_SIZE:
            _check_launch(context, nodes)


def _check_launch(context: Context, nodes: list[Node]) -> None:
    threads = context.threads.per_block
    groups = threads // WARPGROUP_SIZE
    share = arch.launch_registers(threads)
    counts = [share] * groups
    setters: list[Node | None] = [None] * groups
    for node in nodes:
        reach = context.reaches.of(node)
        if reach.conditions or reach.loops:
            return  # which warpgroups execute it, or how often, depends on run-time values
        for group in range(groups):
            if reach.lanes[group * WARPGROUP_SIZE]:
                counts[group] = integer(node.op, "regCount")
                setters[group] = node
    total = sum(count * WARPGROUP_SIZE for count in counts)
    if total > share * threads:
        largest = max((g for g in range(groups) if setters[g]), key=lambda g: counts[g])
        parts = " + ".join(f"{count}*{WARPGROUP_SIZE}" for count in counts)
        raise VerifyError(
            f"setmaxnreg asks for {parts} = {total:,} registers",
            where=where(setters[largest].op),  # type: ignore[union-attr]
            rule=f"setmaxnreg moves the registers that the block starts with, {share} for each of {threads} threads = "
            f"{share * threads:,} (PTX ISA, setmaxnreg); a kernel that asks for more hangs",
            fix="24 for the producer and 240 for each of two consumers, or 32 and 160 for each of three",
        )
