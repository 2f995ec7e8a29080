"""What a kernel in debug mode says about itself: slots of host memory, one for each of its warps.

A warp writes into its slot before and after each place where it may wait for ever, and when something is wrong. The
host reads the slots while the kernel runs, and after it was stopped. Here is what both sides must agree on: how a slot
is laid out, and what the number of a site stands for.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from nvdsl.errors import Where
from nvdsl.errors.records import dataclass

SYMBOL = "nvdsl_log"
"""The kernel module's global variable that holds the address of the slots (8 bytes)."""

CLAIMS = 1 << 12
CLAIMED = "nvdsl_claimed"
"""Another variable, of ``CLAIMS`` i32: 1 where an mbarrier's state has been read, after which nothing is launched."""

SLOTS = 1 << 15
"""Slots of a log; warp ``w`` of a launch, counted over its blocks, has slot ``w % SLOTS``."""

STATE, SITE, BLOCK, THREAD, INDEX, PARITY, BARRIER, VALUES, RETURNED = 0, 4, 8, 20, 24, 28, 32, 40, 96
"""Bytes of a slot where its parts start."""

MAX_VALUES = 7

SLOT = np.dtype(
    {
        "names": ["state", "site", "block", "thread", "index", "parity", "barrier", "values", "returned"],
        "formats": ["u4", "u4", "3u4", "u4", "i4", "u4", "u8", f"{MAX_VALUES}u8", "32u1"],
        "offsets": [STATE, SITE, BLOCK, THREAD, INDEX, PARITY, BARRIER, VALUES, RETURNED],
        "itemsize": 128,
    }
)
"""``state``: one of the three below, 0 where the warp has not begun. ``thread``: of the block, x counted first.
``index``: of an mbarrier in its group, or the number of a named barrier. ``barrier``: an mbarrier's state: pending
bytes (signed, 32 bits), pending arrivals (20 bits), parity (bit 52), and bit 63 where it is known. ``values``: an
assert's, or the indices of an access. ``returned``: for each lane, 1 when it has left the kernel."""

BEFORE, PAST, FAULT = 1, 2, 3


@dataclass(frozen=True)
class Site:
    """A place in a kernel that writes into the log.

    ``kind``: "entry", "mbarrier", "barrier", "named-barrier", "cluster", "grid", "warp", "setmaxnreg", "assert",
    "out-of-bounds", "misaligned", "illegal-copy", "division" or "loop-step". ``what``: the mbarrier group's name; an
    assert's text; what an access or a copy does, ``of``: to what, to elements of which type; a division's op, of which
    type. ``count``: mbarriers of the group; registers of a setmaxnreg; of which a copy's innermost coordinate, an
    index, or an address is a multiple. ``types``: of the values, e.g. "f32". ``extents``: what each value, an index,
    must be below; None for one that only the kernel knows: a value behind the indices, or not in the log.
    """

    kind: str
    where: Where | None
    what: str = ""
    of: str = ""
    count: int = 0
    types: tuple[str, ...] = ()
    extents: tuple[int | None, ...] = ()


@dataclass(frozen=True)
class Watch:
    """A kernel's sites by number, and the seconds that one of its waits may take."""

    sites: tuple[Site, ...]
    timeout: float


def number(bits: int, type: str) -> Any:
    """A value of the log: its bits, of an integer or float ``type`` of MLIR, as a Python number."""
    if type.startswith("f"):
        return np.uint64(bits).astype(f"u{int(type[1:]) // 8}").view(f"f{int(type[1:]) // 8}").item()
    width = 64 if type == "index" else int(type[1:])
    bits &= (1 << width) - 1
    return bits - (bits >> (width - 1) << width) if width > 1 else bits
