"""What one bulk copy moves: a box of a tensor map, or a line of contiguous bytes."""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np

from nvdsl.hopper import arch
from nvdsl.hopper.tensor_maps import TensorMap
from nvdsl.sim import geometry, shadow, tma
from nvdsl.sim.report import Access, error
from nvdsl.values.elements import ELEMENTS


class MapArgument:
    """A tensor map as a kernel gets it: what it says, and the tensor's address."""

    __slots__ = ("address", "tensor_map")

    def __init__(self, tensor_map: TensorMap, address: int) -> None:
        self.tensor_map, self.address = tensor_map, address


@functools.lru_cache(maxsize=1 << 12)
def _span(tensor_map: TensorMap, address: int, shift: int) -> Any:
    return shadow.intervals(tma.footprint(tensor_map, (0,) * len(tensor_map.box), address), shift)


@functools.lru_cache(maxsize=1 << 12)
def _tensor_bytes(tensor_map: TensorMap) -> int:
    """From the tensor's first byte to the end of its last element."""
    g = geometry.geometry(tensor_map)
    return g.item + sum((extent - 1) * step for extent, step in zip(g.dims, g.strides, strict=True))


class Box:
    """The box of a tensor at ``coords`` (innermost first)."""

    def __init__(self, tensor: MapArgument, coords: tuple[int, ...]) -> None:
        self.tensor, self.coords = tensor, coords
        element = ELEMENTS[tensor.tensor_map.element]
        self.bytes = math.prod(tensor.tensor_map.box) * element.bytes

    def span(self, address: int, shift: int) -> Any:
        return _span(self.tensor.tensor_map, address, shift)

    def lay(self, layouts: Any, address: int, who: Access) -> None:
        layouts.copied(self.tensor.tensor_map, address, who)

    def check_swizzle(self, layouts: Any, address: int, who: Access) -> None:
        """Raise where a store reads what was written by another swizzle."""
        ranges = tma.footprint(self.tensor.tensor_map, self.coords, address, clipped=True)
        units = [np.arange(low // geometry.UNIT, -(-high // geometry.UNIT)) for low, high in ranges]
        if units:
            swizzle = geometry.geometry(self.tensor.tensor_map).swizzle
            layouts.check_swizzle(np.concatenate(units), swizzle, who)

    def extent(self, address: int) -> tuple[int, int]:
        return tma.extent(self.tensor.tensor_map, address)

    def region(self, machine: Any, store: bool) -> tuple[Any, Any]:
        """The allocation, and what of it the copy touches: see `tracking.GlobalShadow`. (None: nothing)"""
        found, base = self._global(machine)
        part = tma.region(self.tensor.tensor_map, self.coords, store=store)
        return found, None if part is None else (base + part[0], *part[1:])

    def read_span(self, address: int, shift: int) -> Any:
        """What a store reads: not what is out of the tensor's bounds."""
        ranges = tma.footprint(self.tensor.tensor_map, self.coords, address, clipped=True)
        return shadow.intervals(ranges, shift) if ranges else (0, 0, 0)

    def _global(self, machine: Any) -> tuple[Any, int]:
        found = machine.gmem.find(self.tensor.address)
        return found, self.tensor.address - found.base

    def load(self, machine: Any, smem: Any, address: int) -> None:
        found, base = self._global(machine)
        tma.load(found.data, base, smem.data, address, self.tensor.tensor_map, self.coords)

    def spread(self, machine: Any, marks: Any, target: Any, address: int) -> None:
        """Copy marks, one for each byte of the allocation, as `load` copies its bytes into shared memory."""
        tma.load(marks.view("u1"), self._global(machine)[1], target, address, self.tensor.tensor_map, self.coords)

    def take(self, smem: Any, address: int) -> Any:
        """A copy of the source of a store, with the address at which its swizzle is the same."""
        first, last = address - address % geometry.PATTERN, self.extent(address)[1]
        return smem.data[first:last].copy(), address - first

    def put(self, machine: Any, taken: Any, kind: str | None) -> None:
        """``kind``: the reduction, None to store."""
        found, base = self._global(machine)
        found.version += 1
        data, address = taken
        if kind is None:
            tma.store(found.data, base, data, address, self.tensor.tensor_map, self.coords)
        else:
            tma.reduce(found.data, base, data, address, self.tensor.tensor_map, self.coords, kind)

    def check(self, machine: Any, address: int, who: Access, kind: str = "load") -> None:
        """``kind``: "load", "prefetch" (``address`` is 0), "store", or the reduction."""
        reduction = kind if kind not in ("load", "prefetch", "store") else ""
        problems = tma.problems(
            self.tensor.tensor_map, self.coords, address, store=kind == "store", reduction=reduction
        )
        if problems:
            says, rules, fixes = ("; ".join(parts) for parts in zip(*problems, strict=True))
            raise error("illegal-copy", f"{who}: {says}", who.where, rules, fixes)
        if kind in ("load", "prefetch"):
            self._check_inside(machine, who)
        else:
            self._check_end(machine, who)

    def _check_inside(self, machine: Any, who: Access) -> None:
        """A tensor whose extents say more than there is: windows that reach over an array's end."""
        found, base = self._global(machine)
        if found is None or base + _tensor_bytes(self.tensor.tensor_map) <= found.size:
            return
        ranges = tma.global_footprint(self.tensor.tensor_map, self.coords)
        past = base + ranges[-1][1] - found.size if ranges else 0
        if past > 0:
            raise error(
                "out-of-bounds",
                f"{who} at coordinates {self.coords}, innermost first, reads {past} bytes past the end of "
                f"{found.name}, which has {found.size - found.reserved}",
                who.where,
                "a window reaches over the end of its array, where a copy must not read",
                "begin the box at a negative coordinate of the window, so that it has as many rows as there are",
            )

    def _check_end(self, machine: Any, who: Access) -> None:
        """What is written stays in the array's memory: rows are clipped at whole 16 bytes."""
        found, base = self._global(machine)
        ranges = tma.global_footprint(self.tensor.tensor_map, self.coords, store=True)
        past = base + ranges[-1][1] - found.size if ranges else 0
        if past > 0:
            raise error(
                "out-of-bounds",
                f"{who} writes {past} bytes past the end of {found.name}, which has {found.size - found.reserved}",
                who.where,
                f"a store or reduction by TMA clips rows at whole {geometry.UNIT} bytes (measured on an H200: "
                "docs/hardware.md)",
                "pad the array's rows, or store the end of a row with ordinary stores",
            )


class Line:
    """Contiguous bytes (cp.async.bulk without a tensor map)."""

    def __init__(self, address: int, size: int) -> None:
        self.address, self.bytes = address, size

    def span(self, address: int, shift: int) -> Any:
        return shadow.interval(address, address + self.bytes, shift)

    def lay(self, layouts: Any, address: int, who: Access) -> None:
        layouts.stored(address, self.bytes)

    def check_swizzle(self, layouts: Any, address: int, who: Access) -> None:
        """A line of bytes has no swizzle of its own: its reader knows it."""

    def extent(self, address: int) -> tuple[int, int]:
        return address, address + self.bytes

    def region(self, machine: Any, store: bool) -> tuple[Any, Any]:
        found = machine.gmem.find(self.address)
        return found, (self.address - found.base, (self.bytes,), (1,)) if self.bytes else None

    def load(self, machine: Any, smem: Any, address: int) -> None:
        smem.data[address : address + self.bytes] = machine.gmem.span(self.address, self.bytes)

    def spread(self, machine: Any, marks: Any, target: Any, address: int) -> None:
        first = self.address - machine.gmem.find(self.address).base
        target[address : address + self.bytes] = marks[first : first + self.bytes]

    def take(self, smem: Any, address: int) -> Any:
        return smem.data[address : address + self.bytes].copy()

    def put(self, machine: Any, taken: Any, kind: str | None) -> None:
        machine.gmem.span(self.address, self.bytes)[:] = taken

    read_span = span

    def check(self, machine: Any, address: int, who: Access, kind: str = "load") -> None:
        if self.bytes < 0:
            raise error("out-of-bounds", f"{who} of {self.bytes} bytes", who.where,
                        "a bulk copy moves 0 bytes or more (PTX ISA, cp.async.bulk)",
                        "check the number of bytes")  # fmt: skip
        found = machine.gmem.find(self.address)
        if found is None or not found.reserved <= self.address - found.base <= found.size - self.bytes:
            raise error(
                "out-of-bounds",
                f"{who} of {self.bytes} bytes from address {self.address:#x} of global memory: not within one array",
                who.where,
                "a bulk copy stays inside of its array",
                "check the start and the number of bytes",
            )
        unit = arch.BULK_COPY_MULTIPLE
        for name, value, fix in (
            ("shared address", address, f"begin at an element {unit} bytes or a multiple of that into the array"),
            ("global address", self.address, f"begin where {unit} bytes begin: pad rows to a multiple of {unit} bytes, "
             "and round the first column down"),
            ("size", self.bytes, f"round the bytes down to a multiple of {unit}, and move the rest by elements"),
        ):  # fmt: skip
            if value % unit:
                raise error(
                    "misaligned",
                    f"{who}: the {name} {value} is no multiple of {unit}",
                    who.where,
                    f"a bulk copy moves multiples of {unit} bytes, {unit}-byte aligned (PTX ISA, cp.async.bulk)",
                    fix,
                )
