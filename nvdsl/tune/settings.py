"""What `nvdsl.tune.autotune` is given beside the space, and what the environment says."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any, TypedDict

import numpy as np

from nvdsl.errors import ArgumentError, frames
from nvdsl.errors.records import dataclass

MODES = ("off", "cached", "always")
"""NVDSL_TUNE. off: heuristic and defaults only. cached (the default): cache and table first. always: as cached, but
what is not in the cache is tuned at the first call."""


def mode() -> str:
    """NVDSL_TUNE. Raises ArgumentError for what is none of `MODES`."""
    chosen = os.environ.get("NVDSL_TUNE", "") or "cached"
    if chosen not in MODES:
        raise ArgumentError(f"NVDSL_TUNE={chosen}", rule=f"it is one of {', '.join(MODES)}", fix="NVDSL_TUNE=cached")
    return chosen


class GivenSettings(TypedDict, total=False):
    """`Settings`, as keyword arguments."""

    heuristic: Callable[..., Mapping[str, Any]] | None
    shape_class: Callable[..., Any] | None
    reference: Callable[..., Any] | None
    inputs: Callable[..., Mapping[str, np.ndarray]] | None
    tolerance: float | None
    table: str | Path | None
    min_fill: float


@dataclass(frozen=True)
class Settings:
    """See `nvdsl.tune.autotune.autotune`."""

    heuristic: Callable[..., Mapping[str, Any]] | None = None
    shape_class: Callable[..., Any] | None = None
    reference: Callable[..., Any] | None = None
    inputs: Callable[..., Mapping[str, np.ndarray]] | None = None
    tolerance: float | None = None
    table: str | Path | None = None
    min_fill: float = 0.25

    @classmethod
    def of(cls, given: GivenSettings) -> Settings:
        """Raises ArgumentError for what is no setting."""
        known = [field.name for field in fields(cls)]
        if unknown := [name for name in given if name not in known]:
            raise ArgumentError(
                f"autotune with {', '.join(unknown)}", where=frames.caller(), rule=f"it takes {', '.join(known)}"
            )
        for name, value in given.items():
            number = name in ("tolerance", "min_fill")
            fits = isinstance(value, int | float) if number else callable(value) or name == "table"
            if value is not None and not fits:
                raise ArgumentError(
                    f"autotune with {name}={value!r}",
                    where=frames.caller(),
                    rule=f"{name} is a {'number' if number else 'function'}",
                )
        return cls(**given)
