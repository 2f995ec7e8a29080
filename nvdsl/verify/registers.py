"""The register budget of warp-specialized kernels: setmaxnreg over all warpgroups of a block.

A split that asks for more than the register file hangs without a message: the last
``setmaxnreg.inc`` waits for registers that nobody releases. An ``inc`` to fewer registers than a warpgroup has, or a
``dec`` to more, does the contrary of what it says.
"""

from __future__ import annotations

from nvdsl.errors import VerifyError
from nvdsl.hopper import arch
from nvdsl.hopper.arch import WARPGROUP_SIZE
from nvdsl.ir.location import where
from nvdsl.ir.operands import integer, word
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
                # Two warpgroups start with nearly all that a thread can have: counts of larger blocks do there, too.
                if setters[group] is not None or groups > 2:
                    _check_direction(node, counts[group], setters[group])
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


def _check_direction(node: Node, now: int, before: Node | None) -> None:
    """``now``: the registers of each of the warpgroup's threads. ``before``: which setmaxnreg gave them, None for the
    launch."""
    count, increases = integer(node.op, "regCount"), word(node.op, "action") == "increase"
    if count == now or increases == (count > now):
        return
    since = "the launch" if before is None else f"the setmaxnreg at {where(before.op)}"
    raise VerifyError(
        f"setmaxnreg.{'inc' if increases else 'dec'} to {count} registers in a warpgroup that has {now} since {since}",
        where=where(node.op),
        rule="inc takes registers of the block's pool, and dec releases some (PTX ISA, setmaxnreg)",
        fix=f"nv.setmaxnreg_{'dec' if increases else 'inc'}({count}), or another count",
    )
