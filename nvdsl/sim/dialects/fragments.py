"""wgmma's A in registers: written before a wgmma.fence, and not written again before the wgmma is done.

SSA values are never written again, so this looks at where they are made: nothing that makes one may stand between the
last fence and the wgmma; and a loop writes what it makes or carries anew in each turn.
"""

from __future__ import annotations

from typing import Any

from nvdsl.errors import SimError
from nvdsl.ir.location import where
from nvdsl.ir.walk import defining, identity, walk
from nvdsl.mlir import ir
from nvdsl.sim.decode import Blocking, Decoder
from nvdsl.sim.report import error

_FENCE = "nvvm.wgmma.fence.aligned"
_SAME = ("llvm.bitcast", "arith.bitcast", "vector.bitcast", "builtin.unrealized_conversion_cast", "llvm.extractvalue")
_CONSTANT = ("arith.constant", "llvm.mlir.constant")


def _source(value: Any) -> Any:
    """The value whose register this one is."""
    made = defining(value)
    while made is not None and made.name in _SAME:
        value = made.operands[0]
        made = defining(value)
    return value


def is_fenced(wgmma: Any, registers: list[Any]) -> bool:
    """Whether a fence stands between what makes the registers and the wgmma. (One in a branch between them counts.)"""
    sources = [_source(value) for value in registers]
    makers = [made for made in map(defining, sources) if made is not None and made.name not in _CONSTANT]
    blocks = [value.owner for value in sources if isinstance(value.owner, ir.Block)]
    at = wgmma.operation
    while True:
        block = at.block
        before = []
        for one in block.operations:
            if one.operation == at:
                break
            before.append(one.operation)
        for one in reversed(before):
            if one in makers:
                return False
            if one.name == _FENCE or any(inner.name == _FENCE for inner in walk(one)):
                return True
        if block in blocks:
            return False
        at = block.owner.operation
        if not at.name.startswith("scf."):
            return True  # the kernel's own arguments


def unfenced(w: Any, at: Any) -> SimError:
    return error(
        "wgmma-fence",
        f"{w.name} issues a wgmma without a wgmma.fence after A's registers were written",
        at,
        "wgmma.fence orders register accesses before the wgmmas that use them, A's too (PTX ISA, wgmma.fence)",
        "nv.wgmma_fence() between what makes the fragment and the wgmma",
    )


def is_remade(wgmma: Any, registers: list[Any]) -> bool:
    """Whether a loop around the wgmma makes one of the registers anew in each turn."""
    loops, at = set(), wgmma.operation
    while (at := at.block.owner.operation).name.startswith("scf."):
        if at.name in ("scf.for", "scf.while"):
            loops.add(at)
    return any(_is_within(value, loops) for value in map(_source, registers))


def _is_within(value: Any, loops: set[Any]) -> bool:
    made = defining(value)
    if made is None:
        return value.owner.owner.operation in loops and not _is_handed_on(value)
    if made.name in _CONSTANT:
        return False
    while made.name.startswith(("scf.", "arith.", "llvm.", "nvvm.", "vector.", "memref.", "math.")):
        made = made.block.owner.operation
        if made in loops:
            return True
    return False


def _is_handed_on(argument: Any) -> bool:
    """Whether a loop carries this value without ever changing it."""
    loop, number = argument.owner.owner.operation, ir.BlockArgument(argument).arg_number
    if loop.name != "scf.for" or number == 0:
        return False
    *_, end = argument.owner.operations
    return identity(end.operands[number - 1]) == identity(argument)


def check_remade(w: Any, kind: Any) -> None:
    """Raise where the same wgmma of the turn before still reads its registers."""
    if w.mma is not None and any(one.kind is kind for one in w.mma.in_flight):
        raise error(
            "fragment-in-flight",
            f"{w.name} wrote A's registers again while the wgmma here of the turn before is in flight",
            kind.at,
            "registers of A belong to a wgmma until wgmma.wait_group says that its group is done (PTX ISA)",
            "nv.wgmma_wait(0) before the fragment is made anew",
        )


# --- registers that are read before the wgmma is done


def belong(d: Decoder, registers: list[Any], kind: Any) -> None:
    """The registers are a wgmma's from its issue to its wait."""
    for value in registers:
        made = defining(value)
        if made is None or made.name not in _CONSTANT:
            d.fragments.setdefault(identity(value), []).append(kind)


def guarded(d: Decoder, op: Any, step: Any) -> Any:
    """The step of an op, and before it an error where a wgmma that reads one of its operands is in flight."""
    kinds = [kind for value in op.operands for kind in d.fragments.get(identity(value), ())]
    if not kinds:
        return step
    if op.name in _SAME:
        for result in op.results:
            d.fragments[identity(result)] = kinds
        return step
    at = where(op)
    if isinstance(step, Blocking):
        blocking = step.run

        def run(v: Any) -> Any:
            _check_flight(v[0], kinds, at)
            yield from blocking(v)

        return Blocking(run)

    def checked(v: Any) -> None:
        _check_flight(v[0], kinds, at)
        step(v)

    return checked if step is not None else None


def _check_flight(w: Any, kinds: list[Any], at: Any) -> None:
    if w.machine.checks and w.mma is not None:
        for one in w.mma.in_flight:
            if one.kind in kinds:
                raise error(
                    "fragment-in-flight",
                    f"{w.name} uses registers of A while the wgmma at {one.kind.at} that reads them is in flight",
                    at,
                    "registers of A belong to a wgmma until wgmma.wait_group says that its group is done (PTX ISA, "
                    "wgmma.mma_async)",
                    "nv.wgmma_wait(0) before the fragment is used again, or make the fragment of a copy",
                )
