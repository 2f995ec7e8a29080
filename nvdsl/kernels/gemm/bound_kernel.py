"""A kernel bound to a product: its host function with constants, and how it sees the arrays of a call."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np

import nvdsl as nv
from nvdsl.call.specialize import Call, Constant, describe_argument
from nvdsl.driver import scratch_memory
from nvdsl.driver.array_spec import Memory
from nvdsl.driver.executable import Executable
from nvdsl.driver.stream import Stream
from nvdsl.errors.records import dataclass
from nvdsl.kernels.blocks.linear_combination import LinearCombination
from nvdsl.kernels.gemm.argument_view import ArgumentView, array_of, bound
from nvdsl.kernels.gemm.packing import Packing, run_packings
from nvdsl.kernels.gemm.problem import GemmProblem

Sources = Mapping[str, np.ndarray | Memory]
"""Where the arrays of a call lie, by name: device memory, or C-contiguous host arrays."""


@dataclass(frozen=True)
class BoundKernel:
    """A kernel's host function with its constants, and a slot for each array it takes, by name and in its order.
    ``sizes``: of the extents, by name; ``packs``: of the operands that are copied first."""

    problem: GemmProblem
    finish: LinearCombination
    function: Any
    options: dict[str, Any]
    slots: tuple[tuple[str, ArgumentView], ...]
    launches: int
    sizes: Mapping[str, int]
    packs: Mapping[str, Packing]

    @functools.cached_property
    def order(self) -> list[str]:
        """The names of the kernel's arguments: the slots', "alpha" and "beta"."""
        order = []
        for name, _ in self.slots:
            order += ["beta", name] if name == "c" else [name]
            if name == "out" and self.finish.alpha:
                order.append("alpha")
        return order

    def described(self, sources: Sources, alpha: float, beta: float, launch: int = 0) -> list[tuple[Any, Any]]:
        """The arguments of launch number ``launch``: what each is, and its value."""
        number = np.float64 if self.problem.a.dtype == nv.f64 else float
        given: dict[str, Any] = {"alpha": describe_argument(number(alpha)), "beta": describe_argument(number(beta))}
        given |= {name: slot.described(sources[array_of(name)], launch) for name, slot in self.slots}
        return [given[name] for name in self.order]

    def run(
        self, sources: Sources, alpha: float, beta: float, stream: Stream | None, target: str | None
    ) -> tuple[Call, Executable | None, tuple[Call, Executable | None] | None] | None:
        """Compute. ``sources``: name -> device memory, or a C-contiguous host array.

        Returns the first launch's call, what ran on the GPU, and the same of what packed operands, if any were; None
        where nothing is launched.
        """
        call = executable = packed = None
        for i in range(self.launches):
            with self.packed(sources, stream) as given:
                if self.packs:
                    copies = [(packing, sources[name], given[name]) for name, packing in self.packs.items()]
                    packed = run_packings(copies, i, stream, target)
                described = self.described(given, alpha, beta, i)
                call = call or self.call(described)
                executable = self.function.run(call, [value for _, value in described], stream, target)
        return None if call is None else (call, executable, packed)

    def prepare(self, sources: Sources, alpha: float, beta: float) -> None:
        """Compile what the first launch of `run` will want on the GPU. Not for operands that are copied first."""
        if self.launches and not self.packs:
            self.function.prepare(self.call(self.described(sources, alpha, beta)))

    def call(self, described: list[tuple[Any, Any]]) -> Call:
        """The call with these arguments."""
        slots = dict(self.slots)
        views = [(slots.get(name), spec) for name, (spec, _) in zip(self.order, described, strict=True)]
        constants = [Constant(x) for x in self.options.values()]
        dynamic = bound([*views, *((None, x) for x in constants)], self.sizes)
        return self.function.call([*described, *((x, None) for x in constants)], tuple(self.options), dynamic)

    @contextmanager
    def packed(self, sources: Sources, stream: Stream | None = None) -> Iterator[dict[str, Any]]:
        """``sources`` with memory for the copies in place of the operands that are copied."""
        given: dict[str, Any] = dict(sources)
        places = {name: given[name] for name in self.packs}
        for name, source in places.items():
            if not isinstance(source, tuple):
                given[name] = np.empty(self.packs[name].elements, source.dtype)
        device = {name: source[1] for name, source in places.items() if isinstance(source, tuple)}
        wanted = [(place, self.packs[name].bytes) for name, place in device.items()]
        with scratch_memory.taken(wanted, stream) as pointers:
            for name, pointer in zip(device, pointers, strict=True):
                given[name] = (pointer, device[name], None)
            yield given

    def offsets(self) -> list[list[int]]:
        """For each launch the bytes by which the kernel's arguments lie behind the arrays' starts."""
        slots = dict(self.slots)
        return [[slots[x].offset(i) if x in slots else 0 for x in self.order] for i in range(self.launches)]
