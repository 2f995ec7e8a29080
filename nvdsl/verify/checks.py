"""Every check, in the order in which they run. Their modules take a while to import."""

from __future__ import annotations

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
    overflow,
    proxies,
    registers,
    scalars,
    transactions,
    waits,
)

CHECKS = (
    bounds.check, registers.check, transactions.check, arrivals.check, waits.check, async_copies.check,
    initialization.check, divergence.check, accumulators.check, proxies.check, operands.check, coordinates.check,
    matrices.check, clusters.check, scalars.check, overflow.check,
)  # fmt: skip
"""Behind those of `nvdsl.verify.SIZES`."""
