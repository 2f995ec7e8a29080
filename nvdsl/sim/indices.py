"""Indices against their extents, per dimension, in the lanes that use them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from nvdsl.errors import Where
from nvdsl.sim.report import error
from nvdsl.values.bounds import FIX, RULE, Bounds, Operand

_UNSIGNED = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}
_most = np.maximum.reduce


def first_outside(w: Any, pairs: Iterable[tuple[Any, int]]) -> tuple[int, int] | None:
    """(axis, lane) of the first index that is not 0 to its extent minus 1 in an active lane; None where all are.

    ``pairs``: each axis's index, and its extent (negative: one that isn't known).
    """
    for axis, (i, extent) in enumerate(pairs):
        if extent.__class__ is np.ndarray:  # of a view that each lane makes for itself
            outside = np.flatnonzero(w.mask & ((i < 0) | (i >= extent)))
            if len(outside):
                return axis, int(outside[0])
            continue
        if extent < 0:
            continue
        if i.__class__ is not np.ndarray:
            if 0 <= i < extent:
                continue
            return axis, int(w.active_lanes()[0])
        active = i if w.active is None else i[w.active]
        if _most(active.view(_UNSIGNED[i.dtype.itemsize])) >= extent:  # a negative one is larger than all
            outside = np.flatnonzero(w.mask & ((i < 0) | (i >= extent)))
            return axis, int(outside[0])
    return None


def in_lane(values: Sequence[Any], lane: int) -> tuple[int, ...]:
    """What the indices are in one lane."""
    return tuple(int(x[lane]) if isinstance(x, np.ndarray) else int(x) for x in values)


def shown(values: tuple[int, ...]) -> str:
    return str(values[0]) if len(values) == 1 else str(values)


def check(slots: list[int], bounds: Bounds, at: Where | None) -> Callable[[list[Any]], None]:
    """A step that raises where a lane's indices are not as ``bounds`` says."""
    multiple, known = bounds.multiple, bounds.extents
    slots, every = slots[: len(known)], slots

    def step(v: list[Any]) -> None:
        w = v[0]
        if not w.machine.checks:
            return
        values = [v[s] for s in slots]
        extents = [v[every[n.number]] if isinstance(n, Operand) else n for n in known]
        wrong = first_outside(w, zip(values, extents, strict=True))
        if wrong is not None:
            axis, lane = wrong
            on = f" on axis {axis}" if len(slots) > 1 else ""
            raise error(
                "out-of-bounds",
                f"{w.name} lane {lane}: index {shown(in_lane(values, lane))} of {bounds.of}: the last one{on} is "
                f"{in_lane(extents, lane)[axis] - 1}",
                at,
                RULE,
                FIX,
            )
        for x in values if multiple > 1 else ():
            uneven = x % multiple != 0
            if uneven is True:
                lane = int(w.active_lanes()[0])
            elif uneven is False or not (uneven & w.mask).any():
                continue
            else:
                lane = int(np.flatnonzero(uneven & w.mask)[0])
            raise misaligned(w, lane, in_lane(values, lane), bounds, at)

    return step


def misaligned(w: Any, lane: int, found: tuple[int, ...], bounds: Bounds, at: Where | None) -> Any:
    return error(
        "misaligned",
        f"{w.name} lane {lane}: index {shown(found)} of {bounds.of}: no multiple of {bounds.multiple}",
        at,
        "a part of a tile starts where the pattern of its swizzle does",
        f"use a multiple of {bounds.multiple}",
    )
