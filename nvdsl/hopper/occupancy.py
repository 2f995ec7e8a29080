"""How many blocks of a kernel an SM holds at a time, and what keeps it from holding more: arithmetic over `arch`.

Sources: CUDA C++ Programming Guide, "Compute Capabilities"; for what is allocated at a time, NVIDIA's occupancy
calculator for 9.0: 256 registers a warp, warps in the four quarters of an SM, 128 bytes of shared memory.
"""

from __future__ import annotations

from nvdsl.errors.records import dataclass
from nvdsl.hopper import arch

REGISTER_UNIT = 256
"""Registers that a warp gets at a time."""

QUARTERS = 4
"""Each quarter of an SM has a fourth of the registers, and runs a fourth of the warps."""

SMEM_UNIT = 128
"""Bytes of shared memory that a block gets at a time."""


@dataclass(frozen=True)
class Occupancy:
    """``blocks``: that fit on an SM; 0 if not even one does. ``limit``: what runs out first. ``warps``: of them."""

    blocks: int
    limit: str
    warps: int


def occupancy(threads: int, registers: int, smem: int) -> Occupancy:
    """Of blocks with ``threads`` threads of ``registers`` registers each and ``smem`` bytes of shared memory."""
    warps = -(-threads // arch.WARP_SIZE)
    taken = -(-max(registers, 1) * arch.WARP_SIZE // REGISTER_UNIT) * REGISTER_UNIT
    in_quarter = arch.REGISTERS_PER_SM // QUARTERS // taken
    bytes_ = -(-(smem + arch.RESERVED_SMEM_PER_BLOCK) // SMEM_UNIT) * SMEM_UNIT
    limits = {
        "blocks": arch.MAX_BLOCKS_PER_SM,
        "threads": arch.MAX_THREADS_PER_SM // arch.WARP_SIZE // warps,
        "registers": in_quarter * QUARTERS // warps,
        "shared memory": arch.SMEM_PER_SM // bytes_,
    }
    limit = min(limits, key=lambda name: limits[name])
    return Occupancy(limits[limit], limit, limits[limit] * warps)


MEASURED_CLUSTERS = {2: 66, 4: 30, 8: 15}
"""Clusters of so many blocks that an H200 holds at a time where an SM holds one block (docs/hardware.md)."""


def resident_clusters(size: int, blocks: int) -> int:
    """Clusters of ``size`` blocks that an H200 holds at a time where an SM holds ``blocks`` blocks. A cluster stays in
    one GPC, so that some SMs stay empty; where an SM holds several blocks, that is left out: it may be fewer."""
    if blocks == 1 and size > 1:
        known = MEASURED_CLUSTERS.get(size)
        return known if known is not None else max(8 * MEASURED_CLUSTERS[8] // size, 1)
    return arch.SMS * blocks // size
