"""A launch's log, read: where each of its warps is."""

from __future__ import annotations

import math
from typing import Any

from nvdsl.driver.mbarrier_word import State, decode
from nvdsl.errors.records import dataclass
from nvdsl.hopper.arch import WARP_SIZE
from nvdsl.lower.device_log import FAULT, Site, Watch


@dataclass(frozen=True)
class Warp:
    """One warp's slot. ``at``: its block's index as it is shown; ``thread``: the lane's that wrote, x counted first."""

    order: int
    number: int
    at: str
    thread: int
    state: int
    site: Site
    index: int
    parity: int
    barrier: State | None
    values: tuple[int, ...]
    returned: bool

    @property
    def name(self) -> str:
        return f"warp {self.number}{self.at}"


@dataclass(frozen=True)
class Launch:
    """``warps``: those that have begun. ``count``: all of the launch."""

    warps: list[Warp]
    count: int


def read(slots: Any, grid: tuple[int, int, int], block: tuple[int, int, int], watch: Watch) -> Launch:
    threads = math.prod(block)
    per_block = -(-threads // WARP_SIZE)
    dimensions = 3 if grid[2] > 1 else 2 if grid[1] > 1 else 1
    read = {_mbarrier_key(slot): state for slot in slots if (state := decode(int(slot["barrier"])))}
    warps = []
    for slot in slots[slots["state"] != 0]:
        x, y, z = (int(i) for i in slot["block"])
        n = int(slot["thread"]) // WARP_SIZE
        index = (x, y, z)[:dimensions]
        at = "" if math.prod(grid) == 1 else f" of block {x if dimensions == 1 else index}"
        lanes = min(WARP_SIZE, threads - WARP_SIZE * n)
        warps.append(
            Warp(
                order=((z * grid[1] + y) * grid[0] + x) * per_block + n,
                number=n,
                at=at,
                thread=int(slot["thread"]),
                state=int(slot["state"]),
                site=watch.sites[int(slot["site"])],
                index=int(slot["index"]),
                parity=int(slot["parity"]),
                barrier=_barrier(slot, read),
                values=tuple(int(v) for v in slot["values"]),
                returned=bool(slot["returned"][:lanes].all()),
            )
        )
    return Launch(sorted(warps, key=lambda w: w.order), math.prod(grid) * per_block)


def _mbarrier_key(slot: Any) -> tuple[Any, ...]:
    return (*map(int, slot["block"]), int(slot["site"]), int(slot["index"]))


def _barrier(slot: Any, read: dict[Any, State]) -> State | None:
    """One warp reads an mbarrier's state for all that wait there."""
    return read.get(_mbarrier_key(slot)) if slot["state"] == FAULT else None
