"""What can be asked of the simulator, in Python or through the environment."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import Any

from nvdsl.errors import SimError
from nvdsl.errors.records import dataclass
from nvdsl.errors.settings import is_on

DELIVERIES = ("late", "eager", "random")
ORDERS = ("forward", "reverse", "random")
LEVELS = ("traced", "nvvm")


@dataclass(frozen=True)
class Options:
    """Options of a simulation; hashable.

    =========  ====================  =================================================================
    field      environment           meaning
    =========  ====================  =================================================================
    delivery   NVDSL_SIM_DELIVERY    when asynchronous copies and wgmmas happen: "late" (default: not before
                                     something waits for them), "eager" (when issued), "random"
    order      NVDSL_SIM_ORDER       which warp runs next: "forward" (default), "reverse", "random"
    seed       NVDSL_SIM_SEED        of what is random
    checks     NVDSL_SIM_CHECKS      races, proxies, bounds of views, residue at exit (default on)
    level      NVDSL_SIM_LEVEL       what is executed: "traced", or "nvvm" (after convert-nvgpu-to-nvvm)
    exact      NVDSL_SIM_EXACT       wgmma's float sums with an H200's bits, not only its precision (default off:
                                     slow)
    trace      NVDSL_SIM_TRACE       a file for what happened: JSON that ui.perfetto.dev opens (see `recording`)
    picture    NVDSL_SIM_PICTURE     a file for the first block's ring slots over time: an SVG, or a page with a
                                     slider where it ends in .html
    =========  ====================  =================================================================

    ``steps``: polls of all warps together, without progress, before it counts as a livelock. Of the turns of a loop
    that computes when it ends one in eight counts.
    Raises SimError for a value that does not exist.
    """

    delivery: str = "late"
    order: str = "forward"
    seed: int = 0
    checks: bool = True
    level: str = "traced"
    exact: bool = False
    trace: str = ""
    picture: str = ""
    steps: int = 300_000

    def __post_init__(self) -> None:
        for name, known in (("delivery", DELIVERIES), ("order", ORDERS), ("level", LEVELS)):
            if getattr(self, name) not in known:
                raise SimError(
                    f"simulation with {name}={getattr(self, name)!r}",
                    kind="option",
                    fix=f"use one of {', '.join(known)}",
                )

    @classmethod
    def from_environment(cls, **chosen: Any) -> Options:
        """The environment's options; those in ``chosen`` win over it."""
        get = os.environ.get
        found = cls(
            delivery=get("NVDSL_SIM_DELIVERY", "late"),
            order=get("NVDSL_SIM_ORDER", "forward"),
            seed=_seed(get("NVDSL_SIM_SEED", "0")),
            checks=is_on("NVDSL_SIM_CHECKS", True),
            level=get("NVDSL_SIM_LEVEL", "traced"),
            exact=is_on("NVDSL_SIM_EXACT"),
            trace=get("NVDSL_SIM_TRACE", ""),
            picture=get("NVDSL_SIM_PICTURE", ""),
        )
        return replace(found, **chosen)

    @classmethod
    def random(cls, seed: int, **chosen: Any) -> Options:
        """One random schedule: deliveries and the order of the warps."""
        return cls.from_environment(**{"delivery": "random", "order": "random", "seed": seed, **chosen})


def _seed(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise SimError(
            f"NVDSL_SIM_SEED={text}", kind="option", rule="a seed is an integer", fix="NVDSL_SIM_SEED=7, or unset it"
        ) from None
