"""Places in the result at which an epilogue reads: never outside of it, and with few registers."""

from __future__ import annotations

from typing import Any

import nvdsl as nv
from nvdsl.ops import ptx
from nvdsl.values.extents import multiple_of
from nvdsl.values.traced import wrap


def inside(start: Any, thread: Any, register: int, extent: int, unit: int) -> tuple[Any, int]:
    """The index ``start + thread + register``, brought back inside of the array where it is beyond its edge: nothing is
    stored there, but operands are read. As a traced i32 and a constant, whose sum it is.

    ``unit``: of which ``start`` and ``extent`` are multiples. Where it is a multiple of 8 (and more than ``thread`` can
    be), so many indices are inside or outside as one: one minimum does for all, and what is read is at constant
    distances, with few registers of addresses. Else it is one of which all three are multiples.
    """
    if unit % 8 == 0:
        first = register // unit * unit
        return nv.min(start + first, extent - unit) + thread, register - first
    return nv.min(start + thread + register, extent - unit), 0


def multiple(extent: nv.Int) -> int:
    """What an extent or a stride is surely a multiple of: a Python int of itself, others of what was promised."""
    return extent if isinstance(extent, int) else multiple_of(extent)


def opaque(*numbers: Any) -> list[Any]:
    """The same i32 values, of which LLVM doesn't know that they are: what it computes of them once, it would keep."""
    return [wrap(x, nv.i32) for x in ptx.unpack(ptx.touch(ptx.pack([nv.i32(x) for x in numbers])))]
