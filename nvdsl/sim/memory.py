"""Bytes: global memory as separate allocations, and a block's shared memory.

Addresses are what a kernel computes with. Global ones are far from any host address, and each allocation has a
range of its own, so that an access past its end never reaches another. Shared ones start at `SHARED_BASE`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

SHARED_BASE = 1024
"""Where the dynamic block starts in the shared window: aligned as the lowering aligns it, and not 0."""

_GLOBAL = 1 << 59
SLOT_BITS = 38
_START = 1 << 20

CLUSTER_SHIFT = 24
"""A shared::cluster address is a shared::cta one plus ``(rank + 1) << CLUSTER_SHIFT``."""


class Bytes:
    """``size`` bytes from address ``base`` on, of which the first ``reserved`` are nobody's.

    ``view(dtype)`` indexes them by element. ``shadow``: see `shadow`, `tracking`; ``past``: that of the launch before.
    ``version`` changes with the contents. ``cells``: of `atomics`, by address. ``undefined``: for each byte whether it
    was never written; None: all are defined. ``in_turn``: whether atomics on one element need an order (`nv.empty`).
    """

    __slots__ = (
        "_views", "base", "cells", "data", "in_turn", "is_global", "name", "past", "reserved", "shadow", "size",
        "undefined", "version",
    )  # fmt: skip

    def __init__(self, base: int, size: int, name: str, reserved: int = 0, fill: int | None = None) -> None:
        self.base, self.size, self.name, self.reserved = base, size, name, reserved
        padded = -(-size // 16) * 16
        self.data = np.zeros(padded, np.uint8) if fill is None else np.full(padded, fill, np.uint8)
        self.shadow: Any = None
        self.past: Any = None
        self.cells: dict[int, Any] = {}
        self.is_global, self.in_turn = base >= _GLOBAL, False
        self.undefined: Any = None
        self.version = 0
        self._views: dict[Any, Any] = {}

    def view(self, dtype: Any) -> Any:
        found = self._views.get(dtype)
        if found is None:
            found = self._views[dtype] = self.data.view(dtype)
        return found


class GlobalMemory:
    """The allocations of a device."""

    def __init__(self) -> None:
        self._slots: dict[int, Bytes] = {}
        self._next = 0

    def alloc(self, size: int) -> int:
        """An allocation that nobody has written yet."""
        base = _GLOBAL + (self._next << SLOT_BITS) + _START
        made = self._slots[base >> SLOT_BITS] = Bytes(base, size, f"global allocation {self._next}")
        made.undefined = np.ones(len(made.data), np.bool_)
        self._next += 1
        return base

    def free(self, address: int) -> None:
        del self._slots[address >> SLOT_BITS]

    def find(self, address: int) -> Bytes | None:
        """The allocation in whose range an address is (it may still be out of its bounds)."""
        return self._slots.get(address >> SLOT_BITS)

    def define(self, address: int, size: int, source: int | None = None) -> None:
        """The bytes are written: from ``source`` in this memory, where they may be undefined themselves."""
        memory = self.find(address)
        given = None if source is None else self.find(source)
        if memory is None:
            return
        start, undefined = address - memory.base, memory.undefined
        if given is not None and given.undefined is not None:
            undefined = np.zeros(len(memory.data), np.bool_) if undefined is None else undefined
            first = source - given.base  # type: ignore[operator]
            undefined[start : start + size] = given.undefined[first : first + size]
        elif undefined is not None:
            undefined[start : start + size] = False
        memory.undefined = undefined if undefined is not None and undefined[: memory.size].any() else None

    def allocations(self) -> list[Bytes]:
        return list(self._slots.values())

    @staticmethod
    def owns(address: int) -> bool:
        return address >= _GLOBAL

    def span(self, address: int, size: int) -> Any:
        """The bytes at an address, as a NumPy array that shares them; IndexError when out of bounds."""
        memory = self.find(address)
        if memory is None or address < memory.base or address + size > memory.base + memory.size:
            raise IndexError(f"{size} bytes at {address:#x} are no simulated device memory")
        memory.version += 1
        start = address - memory.base
        return memory.data[start : start + size]
