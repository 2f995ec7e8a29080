"""A simulator of Hopper kernels: runs a traced module on the CPU, and reports what would go wrong on a GPU.

`plan` gives an executable host function, as `nvdsl.driver.plan.build` does for a GPU. `run` makes one and calls it.
`wanted` says whether a call goes here.
The simulator reads MLIR, never the wrappers that made it.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Sequence
from typing import Any

from nvdsl.errors import SimError
from nvdsl.sim.options import Options

__all__ = ["Options", "plan", "run", "wanted"]


def wanted(target: str | None = None) -> bool:
    """Whether a call runs on the simulator: as ``target`` says ("sim" or "gpu"), else as NVDSL_TARGET does, else where
    there is no Hopper GPU. Raises SimError for another target."""
    return _default() if target is None else _is_sim(target)


def _is_sim(target: str) -> bool:
    if target not in ("sim", "gpu"):
        raise SimError(f"target={target!r}", kind="option", fix='use "sim" or "gpu" (also in NVDSL_TARGET)')
    return target == "sim"


@functools.cache
def _default() -> bool:
    from nvdsl.driver.device import probe

    chosen = os.environ.get("NVDSL_TARGET", "")
    return _is_sim(chosen) if chosen else probe() is not None


def plan(
    module: Any,
    name: str,
    *,
    written: frozenset[int] | None = None,
    names: Sequence[str] | None = None,
    options: Options | None = None,
) -> Any:
    """The host function ``name`` of a traced module as an executable `driver.plan.Plan` on the simulator.

    ``written``: indices of the arguments that kernels write (None: all that they see). ``names``: the arguments' names.
    ``options``: default the environment's. Raises SimError for an op that has no semantics.
    """
    from nvdsl.sim.build import build

    return build(module, name, written, names, options or Options.from_environment())


def run(
    module: Any,
    name: str,
    values: Sequence[Any],
    specs: Sequence[Any],
    *,
    written: frozenset[int] | None = None,
    names: Sequence[str] | None = None,
    options: Options | None = None,
) -> Any:
    """Run a traced module's host function once. ``values`` and ``specs``: as `driver.plan.Plan` takes them.

    Raises SimError for a deadlock, a race, or anything else that is wrong with a kernel.
    """
    return plan(module, name, written=written, names=names, options=options)(values, specs)
