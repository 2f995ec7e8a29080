"""Products like one before: launched without asking again what the arrays are.

    glance at the arrays -> key -> Ready (the road's launches, prepared) -> addresses, numbers, stream -> launch

What a glance can't see, and what differs from all products before, goes the long way through
`nvdsl.kernels.gemm.launch.matmul`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from nvdsl.driver.launcher import Launcher
from nvdsl.kernels.allocate import maker
from nvdsl.kernels.gemm.arguments import Argument
from nvdsl.kernels.gemm.dispatch import BoundKernel
from nvdsl.trace.dependencies import Guard

NAMES = ("a", "b", "out", "c", "bias", "scale_a", "scale_b")
"""The order in which a glance sees a call's arrays. Behind ``out`` it looks where there is one of the others only."""

_OUT = NAMES.index("out")
_POSITIONS = {name: i for i, name in enumerate(NAMES)} | {"alpha": -2, "beta": -1}


class Ready:
    """A road for arrays of known specs on one device. Keeps no array and no address. ``holds``: whether the activation
    still reads what it read."""

    def __init__(
        self, road: BoundKernel, arguments: dict[str, Argument], prepared: Launcher, guard: Guard, makes: bool
    ) -> None:
        out, problem = arguments["out"], road.problem
        self.holds = guard
        self._prepared, self._order = prepared, [_POSITIONS[name] for name in road.order]
        self._offsets = [_offsets(road, launch) for launch in range(road.launches)]
        self._make = maker(out.memory, problem.result, problem.out_dtype) if makes else None
        self._glance: Any = out.memory[1].library.glance
        self._span = out.span
        self._inputs = [
            (_POSITIONS[name], *argument.span, name == "c" and argument.spec == out.spec)
            for name, argument in arguments.items()
            if name != "out"
        ]

    def overlaps(self, addresses: Sequence[int]) -> bool:
        """Whether ``out`` shares memory with an input; `arguments.overlap` says with which. c may be out itself."""
        out = addresses[_OUT]
        first, end = out + self._span[0], out + self._span[1]
        for position, low, high, can_be_out in self._inputs:
            address = addresses[position]
            if address + low < end and first < address + high and not (can_be_out and address == out):
                return True
        return False

    def __call__(self, out: Any, addresses: list[int], alpha: float, beta: float, stream: Any) -> Any:
        """Compute; returns the result. ``addresses``: in the order of `NAMES`."""
        if self._make is not None:
            out = self._make()
            addresses[_OUT] = self._glance(out)[1]
        given = [*addresses, alpha, beta]
        values = [given[position] for position in self._order]
        for offsets in self._offsets:
            moved = [v + o if o else v for v, o in zip(values, offsets, strict=True)] if offsets else values
            self._prepared(moved, stream)
        return out


def _offsets(road: BoundKernel, launch: int) -> list[int]:
    """Bytes by which the kernel's arguments lie behind the arrays' starts; [] where none does."""
    slots = dict(road.slots)
    offsets = [slots[name].offset(launch) if name in slots else 0 for name in road.order]
    return offsets if any(offsets) else []


def ready(
    road: BoundKernel, arguments: dict[str, Argument], alpha: float, beta: float, target: str | None, makes: bool
) -> Ready | None:
    """For calls like one that was just made; None where each needs the long way. ``makes``: a call makes its result."""
    if road.launches == 0 or any(argument.memory[1].device < 0 for argument in arguments.values()):
        return None
    sources = {name: argument.source for name, argument in arguments.items()}
    found = road.function.prepare(*road.arguments(sources, alpha, beta), **road.options, target=target)
    if found is None:
        return None
    prepared, guard = found
    return Ready(road, arguments, prepared, guard, makes)
