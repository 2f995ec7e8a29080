"""The layout of a list of values, if there is one: what decides where rules of divisibility don't."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from nvdsl.layout.strides import X, is_power, plus, times


def fit(values: Sequence[Any]) -> list[tuple[int, Any]] | None:
    """The modes (size, stride) of the layout that is ``values[k]`` at k; None where no layout is.

    The values are ints or coordinates, the first one 0. A layout without modes that could be merged is unique: its
    first mode is as long as the values grow evenly.
    """
    modes, rest = [], list(values)
    while len(rest) > 1:
        stride = rest[1]
        size = next((k for k, x in enumerate(rest) if x != times(k, stride)), len(rest))
        if len(rest) % size:
            return None
        groups = [rest[i : i + size] for i in range(0, len(rest), size)]
        if any(x != plus(group[0], times(k, stride)) for group in groups for k, x in enumerate(group)):
            return None
        modes.append((size, stride))
        rest = [group[0] for group in groups]
    return modes


def fit_bits(values: Sequence[X]) -> list[tuple[int, Any]] | None:
    """The same for bits: ``values[k]`` is the sum of what the bits of k stand for."""
    if not is_power(len(values)):
        return None
    images = [values[1 << i] for i in range(len(values).bit_length() - 1)]
    for k, x in enumerate(values):
        total = X(0)
        for i, image in enumerate(images):
            total = plus(total, image) if k >> i & 1 else total
        if total != x:
            return None
    return [(2, image if image.bits else image.ints) for image in images]
