"""A kernel bound to a product: its host function with constants, and how it sees the arrays of a call."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

import nvdsl as nv
from nvdsl.call.extents import Bound, DynamicSpec, Parameters
from nvdsl.call.specialize import Call, Constant, describe_argument
from nvdsl.driver import scratch_memory
from nvdsl.driver.array_spec import ArraySpec, Described, Memory, spec_of
from nvdsl.driver.arrays import NUMPY
from nvdsl.driver.executable import Executable
from nvdsl.driver.stream import Stream
from nvdsl.kernels.blocks.contiguous import pack, pack_both
from nvdsl.kernels.blocks.linear_combination import LinearCombination
from nvdsl.kernels.blocks.realigned import copies
from nvdsl.kernels.gemm.dynamic import restrided
from nvdsl.kernels.gemm.problem import GemmProblem, Matrix

Sources = Mapping[str, np.ndarray | Memory]
"""Where the arrays of a call lie, by name: device memory, or C-contiguous host arrays."""


@dataclass(frozen=True)
class ArgumentView:
    """How a kernel sees one array: its shape and strides, and where each launch's part of it starts (in elements).
    ``dynamic``: what the kernel is compiled for, as `nvdsl.kernels.gemm.dynamic` says. ``retyped``: it sees elements of
    another type."""

    spec: ArraySpec
    starts: tuple[int, ...]
    dynamic: DynamicSpec
    retyped: bool = False

    @staticmethod
    def of(matrix: Matrix, starts: Sequence[int], dynamic: DynamicSpec) -> ArgumentView:
        return ArgumentView(spec_of(matrix.shape, matrix.dtype, matrix.strides), tuple(starts), dynamic)

    def offset(self, launch: int) -> int:
        """Bytes from the array's element [0, ..., 0] to the first one of launch number ``launch``."""
        return self.starts[launch] * self.spec.dtype.bytes

    def compiled_for(self, spec: ArraySpec) -> DynamicSpec:
        """What a kernel is compiled for, for an argument of this spec: host arrays may be staged as packed copies."""
        return self.dynamic if spec.strides == self.spec.strides else restrided(self.dynamic, spec.strides)

    def described(self, source: np.ndarray | Memory, launch: int) -> Described:
        """The argument of launch number ``launch``. ``source``: device memory, or a C-contiguous host array."""
        start, spec = self.starts[launch], self.spec
        if isinstance(source, tuple):
            address, place, owner = source
            return spec, (address + self.offset(launch), place, owner)
        kind = np.dtype(spec.dtype.numpy) if self.retyped else source.dtype
        strides = tuple(step * kind.itemsize for step in spec.strides)
        memory = source.reshape(-1).view(np.uint8)  # NumPy's as_strided knows no 8-bit floats
        view = np.ndarray(spec.shape, kind, memory, start * kind.itemsize, strides)
        return NUMPY.describe(view)


def bound(arguments: Sequence[tuple[ArgumentView | None, Any]], sizes: Mapping[str, int]) -> Bound:
    """What a call is compiled for, and the extents and strides that its run needs. ``arguments``: how the kernel sees
    each (None: it is no array), and its spec; ``sizes``: of the extents, by name."""
    specs = [spec if view is None else view.compiled_for(spec) for view, spec in arguments]
    wanted = Parameters(specs)
    strides = [arguments[i][1].strides[k] for i, k, _ in wanted.strides]
    return Bound(specs, [*(sizes[name] for name in wanted.extents), *strides])


@dataclass(frozen=True)
class Packing:
    """An operand that TMA can't read, and the copy that it can: made before each launch, gone after it.

    ``source``, ``target``: how the copying kernel sees both. ``sizes``: of the extents, by name. ``words``: the same
    memory as words, which are copied where the operand lies on a device; ``pitches``: see `WordCopy`."""

    source: ArgumentView
    target: ArgumentView
    turned: bool
    sizes: Mapping[str, int]
    words: tuple[ArgumentView, ArgumentView] | None = None
    pitches: tuple[int, int] = (0, 0)

    @property
    def elements(self) -> int:
        """Of the copy, its padding included."""
        return math.prod(self.target.spec.shape)

    @property
    def bytes(self) -> int:
        """Of the copy."""
        return self.elements * self.target.spec.dtype.bytes


Given = tuple[Packing, np.ndarray | Memory, np.ndarray | Memory]
"""A packing, the source and the target."""


def run_packings(
    packings: Sequence[Given], launch: int, stream: Any, where: str | None
) -> tuple[Call, Executable | None]:
    """Copy one or two operands by one kernel."""
    if any(by_words(one) for one in packings):
        return _run_by_words(packings, launch, stream, where)
    kernel, names = (pack, ("turned",)) if len(packings) == 1 else (pack_both, ("turned_a", "turned_b"))
    views: list[ArgumentView | None] = []
    described: list[tuple[Any, Any]] = []
    for packing, source, target in packings:
        views += [packing.source, packing.target]
        described += [packing.source.described(source, launch), packing.target.described(target, 0)]
    constants = {name: packing.turned for name, (packing, _, _) in zip(names, packings, strict=True)}
    return _copied(kernel, views, described, constants, packings, stream, where)


def by_words(given: Given) -> bool:
    """Whether a copy is made by words: where the operand lies on a device. Host arrays are staged as other memory."""
    packing, source, _ = given
    return packing.words is not None and isinstance(source, tuple)


def _run_by_words(
    packings: Sequence[Given], launch: int, stream: Any, where: str | None
) -> tuple[Call, Executable | None]:
    """The same by `copies`."""
    views: list[ArgumentView | None] = []
    described: list[tuple[Any, Any]] = []
    for packing, source, target in packings:
        seen = [(packing.source, source, launch), (packing.target, target, 0)]
        if packing.words is not None:
            seen[1:] = [(packing.words[0], source, launch), (packing.words[1], target, 0)]
        views += [view for view, _, _ in seen]
        described += [view.described(memory, start) for view, memory, start in seen]
    numbers = _pitches([packing for packing, _, _ in packings])
    kinds = tuple("words" if x.words else "turned" if x.turned else "rows" for x, _, _ in packings)
    described += [describe_argument(number) for number in numbers]
    return _copied(copies, [*views, *(None,) * len(numbers)], described, {"kinds": kinds}, packings, stream, where)


def _pitches(packings: Sequence[Packing]) -> list[int]:
    return [pitch for packing in packings if packing.words is not None for pitch in packing.pitches]


def _copied(
    kernel: Any, views: Sequence[ArgumentView | None], described: Sequence[tuple[Any, Any]],
    options: Mapping[str, Any], packings: Sequence[Given], stream: Any, where: str | None,
) -> tuple[Call, Executable | None]:  # fmt: skip
    sizes: dict[str, int] = {}
    for packing, _, _ in packings:
        sizes |= packing.sizes
    constants = [Constant(x) for x in options.values()]
    seen = [(view, spec) for view, (spec, _) in zip(views, described, strict=True)]
    dynamic = bound([*seen, *((None, x) for x in constants)], sizes)
    call = kernel.call([*described, *((x, None) for x in constants)], tuple(options), dynamic)
    return call, kernel.run(call, [value for _, value in described], stream, where)


def copying_launcher(packings: Sequence[Packing], how: Call, copying: Executable) -> Any:
    """What repeats the copies of operands on a device: of (array, copy, array, copy, ...)."""
    numbers = _pitches(packings)
    if not numbers:
        return copying.launcher(how.values, how.more)
    order: list[int] = []
    for i, packing in enumerate(packings):
        order += [2 * i, *((2 * i,) if packing.words is not None else ()), 2 * i + 1]
    order += range(2 * len(packings), 2 * len(packings) + len(numbers))
    return copying.launcher(how.values, how.more, order=order, numbers=tuple(numbers))


def array_of(name: str) -> str:
    """The array that a slot shows: "a words" is another view of "a"."""
    return name.partition(" ")[0]


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
