"""Instructions of the lanes that a mask names: see `parted`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from nvdsl.ir.collectives import MASKED
from nvdsl.ir.location import where
from nvdsl.sim.decode import Blocking, Decoder, Frame
from nvdsl.sim.parted import gather, named_lanes, not_all


def masked(d: Decoder, op: Any, mask: int | None, operands: list[int], finish: Any, word: str = "") -> Any:
    """An instruction of the lanes that a mask names (None: of all). ``finish(v, named, values)``: what it does in the
    active ones, with the operands of all. It may wait for lanes in the other branch of an ``if``."""
    what, at = MASKED[op.name][0] + word, where(op)
    orders = op.name != "nvvm.elect.sync"

    def together(v: Frame) -> int | None:
        """The lanes that it names, where they are all here."""
        w = v[0]
        named = w.everyone if mask is None else named_lanes(w, v[mask], at)
        if not w.machine.checks:
            return int(w.bits)
        if w.bits != named:
            return None
        if orders:
            w.meet(named)
        return named

    def step(v: Frame) -> None:
        named = together(v)
        if named is None:
            w = v[0]
            raise not_all(w, what, w.everyone if mask is None else named_lanes(w, v[mask], at), w.bits, at)
        finish(v, named, [v[s] for s in operands])

    def run(v: Frame) -> Iterator[Any]:
        named = together(v)
        if named is not None:
            finish(v, named, [v[s] for s in operands])
            return
        w = v[0]
        named = w.everyone if mask is None else named_lanes(w, v[mask], at)
        finish(v, named, (yield from gather(w, what, named, [v[s] for s in operands], at, orders)))

    return Blocking(run) if _in_a_branch_of_two(op) else step


def _in_a_branch_of_two(op: Any) -> bool:
    """Whether lanes that parted may be in another branch."""
    while op is not None and op.name not in ("gpu.func", "gpu.launch", "func.func"):
        if op.name == "scf.index_switch" or (op.name == "scf.if" and len(op.regions[1].blocks)):
            return True
        op = op.parent
    return False
