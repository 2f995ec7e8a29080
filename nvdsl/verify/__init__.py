"""Hopper's rules, checked on the traced module before it runs.

Each check takes a `Program` and raises VerifyError with the user's line, the rule, the values and what to write
instead. A check that can't be sure is silent: what it lets through, the simulator finds. `SIZES` and `checks.CHECKS`
are the list, in the order in which they run.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from nvdsl.errors.settings import is_on
from nvdsl.verify import shared_memory, tensor_maps
from nvdsl.verify.program import Program

SIZES = tensor_maps.check, shared_memory.check
"""Whether a kernel that is right takes arrays and tiles of these sizes, which is soon known."""


def check(module: Any) -> None:
    """Run every check on a traced module (host function with ``gpu.launch`` ops), unless NVDSL_VERIFY=off."""
    begin(module)()


def begin(module: Any) -> Callable[[], None]:
    """Run the checks of `SIZES`. What is returned runs all others."""
    if not is_on("NVDSL_VERIFY", True):
        return lambda: None
    program = Program(module)
    for one in SIZES:
        one(program)

    def others() -> None:
        from nvdsl.verify.checks import CHECKS

        for one in CHECKS:
            one(program)

    return others
