"""Values that all lanes of a warp must agree on."""

from __future__ import annotations

from typing import Any

import numpy as np

from nvdsl.sim.report import error


def one_value(x: Any, w: Any, at: Any, what: str) -> Any:
    """The value of a scalar in the active lanes; SimError where they differ."""
    if x.__class__ is not np.ndarray:
        return x
    active = x if w.active is None else x[w.active]
    if (active != active[0]).any():
        raise error("not-uniform", f"{what} differs between the lanes of {w.name}", at,
                    "operands of a warp's instruction are the same in all its lanes")  # fmt: skip
    return active[0].item()
