"""Hopper's rules, checked on the traced module before anything is lowered.

Each check takes the module and raises VerifyError with the user's line, the rule, the values and what to
write instead. `CHECKS` is the list, in the order in which they run.
"""

from __future__ import annotations

from typing import Any

from nvdsl.verify import registers, shared_memory, tensor_maps

CHECKS = (tensor_maps.check, shared_memory.check, registers.check)


def check(module: Any) -> None:
    """Run every check on a traced module (host function with ``gpu.launch`` ops)."""
    for one in CHECKS:
        one(module)
