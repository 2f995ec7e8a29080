"""Undefined values (`undefined`) that no op makes of others: what a loop or a branch hands to a block's arguments, and
what another lane has. A warp notes them when they move, by slot, or slot and register; a later store looks there.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from nvdsl.mlir import ir
from nvdsl.sim.decode import Decoder, Frame
from nvdsl.sim.values import LANES

Masks = list[tuple[Any, Any]]
"""(where it goes, the undefined lanes of what goes there or None)."""


class Moved:
    """Values that move together: from ``sources`` to the slots ``targets``. Called while ``w.undefined``, with the
    frame as it is before they move."""

    __slots__ = ("_known", "_pairs", "_values")

    def __init__(self, decoder: Decoder, targets: Sequence[Any], sources: Iterable[Any]) -> None:
        self._values = decoder.undefined
        self._pairs = [
            (target, source, decoder.slot(source) if str(source.type).startswith("!llvm.struct") else None)
            for target, source in zip(targets, sources, strict=True)
            if not _is_vector(source.type)
        ]
        self._known: dict[tuple[int, int], Any] = {}

    def __call__(self, v: Frame, lanes: Any = None) -> None:
        """``lanes``: those whose values move; None: all."""
        noted = v[0].moved
        for key, mask in self._now(v):
            if lanes is not None and (mask is not None or key in noted):
                mask = np.where(lanes, False if mask is None else mask, noted.get(key, False))
            _note(noted, key, mask)

    def between_lanes(self, v: Frame, source: Any, absent: Any = None) -> None:
        """Each lane gets the value of lane ``source[lane]``; of a lane that is not here, a defined one. ``absent``: the
        lanes that read one which does not execute it."""
        w = v[0]
        for key, mask in self._now(v):
            given = None if mask is None else (mask & w.mask)[source]
            _note(w.moved, key, absent if given is None else given if absent is None else given | absent)

    def into_all(self, v: Frame) -> None:
        """Each lane gets what is made of the values of all."""
        for key, mask in self._now(v):
            _note(v[0].moved, key, None if mask is None else np.full(LANES, (mask & v[0].mask).any()))

    def _now(self, v: Frame) -> Masks:
        """Of all of them, before any is noted: one may be made of another."""
        v[0].now.clear()
        found: Masks = []
        for i, (target, _, slot) in enumerate(self._pairs):
            if slot is None:
                found.append((target, self._mask(v, i, -1)))
            elif not hasattr(value := v[slot], "undefined"):  # an accumulator knows itself
                found += [((target, r), self._mask(v, i, r)) for r in range(len(value or ()))]
        return found

    def _mask(self, v: Frame, i: int, register: int) -> Any:
        if (i, register) not in self._known:
            source = self._pairs[i][1]
            self._known[i, register] = (
                self._values.of(source) if register < 0 else self._values.register(source, register)
            )
        mask = self._known[i, register]
        return None if mask is None else mask(v)


def _note(noted: dict[Any, Any], key: Any, mask: Any) -> None:
    if mask is not None and mask.any():
        noted[key] = mask
    else:
        noted.pop(key, None)


def _is_vector(type: Any) -> bool:
    return isinstance(type, ir.VectorType) and list(type.shape) != [1]
