"""Operands that an instruction doesn't take, known only when it runs: each an error at the line, with the value."""

from __future__ import annotations

from typing import Any

import numpy as np

from nvdsl.errors import Where
from nvdsl.hopper import arch
from nvdsl.ir.arith import is_too_far, overflows
from nvdsl.sim.report import error
from nvdsl.sim.values import Element


def _first(w: Any, bad: Any, *values: Any) -> tuple[str, list[int]] | None:
    """The first active lane in which ``bad`` holds: its name for a message (none where all are alike), and the values
    there."""
    if bad.__class__ is not np.ndarray:
        if not bad:
            return None
        if not any(isinstance(x, np.ndarray) for x in values):
            return w.name, [int(x) for x in values]
    found = np.flatnonzero(w.mask & bad)
    if not len(found):
        return None
    lane = int(found[0])
    return f"{w.name} lane {lane}", [int(x[lane]) if isinstance(x, np.ndarray) else int(x) for x in values]


def check_division(w: Any, x: Any, y: Any, e: Element, is_signed: bool, what: str, at: Where | None) -> None:
    """``x`` by ``y``: no division by 0, and none of the smallest number by -1."""
    found = _first(w, y == 0, x)
    if found is not None:
        who, (value,) = found
        raise error("division", f"{who} divides {value} by 0 ({what})", at,
                    "an integer division or remainder by 0 is undefined (LLVM), its value unspecified (PTX ISA, div)",
                    "guard it with an `if`, or divide by nv.max(y, 1)")  # fmt: skip
    if is_signed:
        least = -(1 << (e.bits - 1))
        found = _first(w, overflows(x, y, e.bits))
        if found is not None:
            raise error("division", f"{found[0]} divides {least} by -1 ({what}): the quotient has no {e.name}", at,
                        "a signed division that overflows is undefined (LLVM)",
                        "guard it with an `if`, or compute in a wider type")  # fmt: skip


def check_shift(w: Any, count: Any, e: Element, what: str, at: Where | None) -> None:
    found = _first(w, is_too_far(count, e.bits), count)
    if found is not None:
        who, (value,) = found
        raise error("shift", f"{who} shifts {e.bits} bits by {value} ({what})", at,
                    f"a shift's count is 0 to {e.bits - 1}; any other has an undefined result (LLVM)",
                    "clamp the count, or guard it with an `if`")  # fmt: skip


def check_step(w: Any, step: Any, at: Where | None) -> None:
    found = _first(w, step <= 0, step)
    if found is not None:
        who, (value,) = found
        raise error("loop-step", f"{who} is at a loop with a step of {value}", at,
                    "a loop counts up: with a step of 0 it never ends, with a negative one it is not entered or never "
                    "ends (MLIR, scf.for)",
                    "nv.range with a step above 0; to count down, a negative int as a literal")  # fmt: skip


def check_barrier(w: Any, number: int, threads: int | None, at: Where | None) -> None:
    """Of barrier.sync and barrier.arrive."""
    if not 0 <= number < arch.NAMED_BARRIERS:
        raise error("barrier-number", f"{w.name} is at named barrier {number}", at,
                    f"a block has barriers 0 to {arch.NAMED_BARRIERS - 1} (PTX ISA, barrier)",
                    "number the barriers from 1 to 15")  # fmt: skip
    if threads is None:
        return
    whole = -(-w.machine.threads // arch.WARP_SIZE) * arch.WARP_SIZE
    if threads <= 0 or threads % arch.WARP_SIZE or threads > whole:
        raise error("barrier-count", f"{w.name} names {threads} threads at barrier {number} of a block of "
                    f"{w.machine.threads}", at,
                    f"the count is a multiple of {arch.WARP_SIZE}, and no more than the block's threads (PTX ISA, "
                    "barrier)", "count the threads of the warps that come")  # fmt: skip


def check_count(w: Any, count: int, what: str, at: Where | None) -> None:
    """Of mbarrier.init and mbarrier.arrive."""
    if not 1 <= count <= arch.MBARRIER_MAX_COUNT:
        raise error("mbarrier-count", f"{w.name}: {what} with a count of {count}", at,
                    f"a count is 1 to {arch.MBARRIER_MAX_COUNT:,} (PTX ISA, {what})",
                    "count the arrivals of a phase")  # fmt: skip


def check_tx(name: str, pending: int, at: Where | None) -> None:
    """``pending``: bytes of an mbarrier's phase, after it was told of more."""
    if abs(pending) > arch.MBARRIER_MAX_TX:
        raise error("tx-count", f"mbarrier {name} has {pending:,} pending bytes", at,
                    f"a phase's bytes are at most {arch.MBARRIER_MAX_TX:,} (PTX ISA, Contents of the mbarrier object, "
                    "tx-count)", "load less in one phase, or on several mbarriers")  # fmt: skip


def check_multicast(w: Any, mask: int, at: Where | None) -> None:
    blocks = len(w.block.cluster.blocks)
    if not 0 < mask < 1 << blocks:
        raise error("multicast-mask", f"{w.name}: a multicast mask of {mask:#b} in a cluster of {blocks}", at,
                    f"bit r stands for block r of the cluster, 0 to {blocks - 1} (PTX ISA, cp.async.bulk.tensor, "
                    "ctaMask)", "clear the bits of the blocks that are not there")  # fmt: skip


def check_rank(w: Any, rank: Any, at: Where | None) -> None:
    blocks = len(w.block.cluster.blocks)
    found = _first(w, (rank < 0) | (rank >= blocks), rank)
    if found is not None:
        who, (value,) = found
        raise error("cluster-rank", f"{who} asks for block {value} of a cluster of {blocks}", at,
                    f"the blocks of this cluster have the ranks 0 to {blocks - 1} (PTX ISA, mapa)",
                    "count modulo the cluster's size")  # fmt: skip


def check_nanosleep(w: Any, duration: Any, at: Where | None) -> None:
    found = _first(w, (duration < 0) | (duration > arch.MAX_NANOSLEEP), duration)
    if found is not None:
        who, (value,) = found
        raise error("nanosleep", f"{who} sleeps for {value & 0xFFFFFFFF:,} ns", at,
                    f"a thread sleeps for at most {arch.MAX_NANOSLEEP:,} ns (PTX ISA, nanosleep)",
                    "sleep in a loop until %globaltimer says so")  # fmt: skip
