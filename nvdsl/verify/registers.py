"""The register budget of warp-specialized kernels: setmaxnreg over all warpgroups of a block.

A split that asks for more than the register file hangs without a message: the last
``setmaxnreg.inc`` waits for registers that nobody releases.
"""

from __future__ import annotations

from typing import Any

from nvdsl import arch
from nvdsl.errors import VerifyError
from nvdsl.trace.location import where
from nvdsl.verify.evaluate import evaluate
from nvdsl.verify.walk import ancestors, constant, find

_WARPGROUP = 128


def check(module: Any) -> None:
    for launch in find(module, "gpu.launch"):
        _check_launch(launch)


def _check_launch(launch: Any) -> None:
    ops = find(launch, "nvvm.setmaxregister")
    threads = _threads(launch)
    if not ops or threads is None or threads % _WARPGROUP:
        return
    groups = threads // _WARPGROUP
    share = arch.REGISTERS_PER_SM // threads // 8 * 8
    counts = [min(share, arch.MAX_REGISTERS_PER_THREAD // 8 * 8)] * groups
    setters: list[Any] = [None] * groups
    for group in range(groups):
        for op in ops:
            runs = _runs(op, group * _WARPGROUP)
            if runs is None:
                return  # which warpgroups execute it depends on run-time values
            if runs:
                counts[group] = op.attributes["regCount"].value
                setters[group] = op
    total = sum(count * _WARPGROUP for count in counts)
    if total > arch.REGISTERS_PER_SM:
        largest = max(range(groups), key=lambda g: counts[g] if setters[g] else -1)
        parts = " + ".join(f"{count}*{_WARPGROUP}" for count in counts)
        raise VerifyError(
            f"setmaxnreg asks for {parts} = {total:,} registers",
            where=where(setters[largest]),
            rule=f"the warpgroups of a block share {arch.REGISTERS_PER_SM:,} registers (PTX ISA, setmaxnreg); "
            "a kernel that asks for more hangs",
            fix="24 for the producer and 240 for each of two consumers, or 32 and 160 for each of three",
        )


def _threads(launch: Any) -> int | None:
    segments = [int(s) for s in launch.attributes["operandSegmentSizes"]]
    start = sum(segments[:4])  # async dependencies and the three grid sizes come first
    sizes = [constant(launch.operands[start + axis]) for axis in range(3)]
    if None in sizes:
        return None
    x, y, z = sizes
    return x * y * z if y == z == 1 else None  # type: ignore[operator]


def _runs(op: Any, thread: int) -> bool | None:
    """Whether ``thread`` executes ``op``, or None where that isn't known."""
    for parent, region in ancestors(op):
        if parent.name == "gpu.launch":
            return True
        if parent.name == "scf.if":
            condition = evaluate(parent.operands[0], thread)
            if condition is None:
                return None
            if bool(condition) != (region == 0):
                return False
    return True
