"""Hopper's rules, checked on the traced module before anything is lowered.

Each check takes a `Program` and raises VerifyError with the user's line, the rule, the values and what to write
instead. A check that can't be sure is silent: what it lets through, the simulator finds. `CHECKS` is the list, in the
order in which they run.
"""

from __future__ import annotations

from typing import Any

from nvdsl.errors.settings import is_on
from nvdsl.verify import (
    accumulators,
    arrivals,
    async_copies,
    bounds,
    clusters,
    coordinates,
    divergence,
    initialization,
    matrices,
    operands,
    proxies,
    registers,
    scalars,
    shared_memory,
    tensor_maps,
    transactions,
    waits,
)
from nvdsl.verify.program import Program

CHECKS = (
    bounds.check, tensor_maps.check, shared_memory.check, registers.check, transactions.check, arrivals.check,
    waits.check, async_copies.check, initialization.check, divergence.check, accumulators.check,
    proxies.check, operands.check, coordinates.check, matrices.check, clusters.check, scalars.check,
)  # fmt: skip


def check(module: Any) -> None:
    """Run every check on a traced module (host function with ``gpu.launch`` ops), unless NVDSL_VERIFY=off."""
    if not is_on("NVDSL_VERIFY", True):
        return
    program = Program(module)
    for one in CHECKS:
        one(program)
