"""Operands that a kernel can't read as they lie, and their copies, which are made before each launch."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

import nvdsl as nv
from nvdsl.call.extents import DynamicSpec, Stride
from nvdsl.call.specialize import Call, Constant, describe_argument
from nvdsl.driver.array_spec import Memory, packed_strides
from nvdsl.driver.executable import Executable
from nvdsl.errors.records import dataclass
from nvdsl.kernels.blocks.contiguous import is_turned, pack, pack_both, padded_cols
from nvdsl.kernels.blocks.realigned import VECTOR, WORD, WORDS, copies
from nvdsl.kernels.gemm.argument_view import ArgumentView, bound
from nvdsl.kernels.gemm.dynamic import dynamic
from nvdsl.kernels.gemm.problem import TMA_ALIGNMENT, Matrix
from nvdsl.lang.extents import Extent


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


def packing_of(seen: Matrix, first: Sequence[int], letters: str, names: str) -> tuple[Packing, ArgumentView]:
    """The copy of an operand, and how the kernel sees it. ``names``: of the extents for the copying kernel."""
    names = names[-len(seen.shape) :]
    sizes = dict(zip(names, seen.shape, strict=True))
    *outer, cols = seen.shape
    padded = (*outer, padded_cols(cols, seen.dtype))
    copy = replace(seen, shape=padded, strides=packed_strides(padded))
    anyhow = DynamicSpec(seen.dtype, tuple(map(Extent, names)), (Stride(1),) * len(seen.shape))
    grid = TMA_ALIGNMENT // seen.dtype.bytes
    written = dynamic(copy, names, grid=grid, multiples={})
    turned = is_turned(seen.shape, seen.strides)
    source, target = ArgumentView.of(seen, first, anyhow), ArgumentView.of(copy, [0] * len(first), written)
    view = replace(target, dynamic=dynamic(copy, letters, grid=grid, multiples={}))
    packing = Packing(source, target, turned, sizes)
    if not turned and by_words(seen, first):
        packing = _with_words(packing, seen, padded, names)
    return packing, view


def by_words(seen: Matrix, first: Sequence[int]) -> bool:
    """Whether an operand may be copied by words, see `WordCopy`: contiguous rows of elements of 8 or 16 bits, one after
    the other."""
    bytes, (rows, cols) = seen.dtype.bytes, seen.shape[-2:]
    (pitch, step), each = seen.strides[-2:], (rows - 1) * seen.strides[-2] + cols
    whole = bytes < WORD and each * bytes >= VECTOR and all(n * bytes % VECTOR == 0 for n in first)
    apart = (rows == 1 or pitch >= cols) and all(n == 0 or n >= each for n in seen.strides[:-2])
    return whole and seen.aligned and step == 1 and apart


def _with_words(packing: Packing, seen: Matrix, padded: Sequence[int], names: str) -> Packing:
    """A copy that is made by words."""
    all_words, all_rows, vectors, last = (f"{x} of {names}" for x in ("words", "rows", "vectors", "four"))
    *outer, cols = padded
    source = words_of(seen)
    columns = cols * seen.dtype.bytes // VECTOR
    shape = math.prod(outer), columns, WORDS
    copy = Matrix(nv.i32, shape, packed_strides(shape))
    starts = [n * seen.dtype.bytes // WORD for n in packing.source.starts]
    sizes = {all_words: source.shape[0], vectors: columns, last: WORDS, all_rows: shape[0]}
    seen_source = dynamic(source, (all_words, last), grid=WORDS, multiples={})
    seen_copy = dynamic(copy, (all_rows, vectors, last), grid=WORDS, multiples={})
    views = ArgumentView.of(source, starts, seen_source), ArgumentView.of(copy, packing.target.starts, seen_copy)
    pitches = seen.strides[-2], seen.strides[0] if len(seen.shape) > 2 else 0
    return replace(packing, sizes={**packing.sizes, **sizes}, words=views, pitches=pitches)


def words_of(matrix: Matrix) -> Matrix:
    """The same memory as vectors of words, as many whole ones as it has from the first element to the last."""
    behind = 1 + sum((n - 1) * step for n, step in zip(matrix.shape, matrix.strides, strict=True))
    return Matrix(nv.i32, (behind * matrix.dtype.bytes // VECTOR, WORDS), (WORDS, 1))


Given = tuple[Packing, np.ndarray | Memory, np.ndarray | Memory]
"""A packing, the source and the target."""


def run_packings(
    packings: Sequence[Given], launch: int, stream: Any, where: str | None
) -> tuple[Call, Executable | None]:
    """Copy one or two operands by one kernel."""
    if any(_by_words(one) for one in packings):
        return _run_by_words(packings, launch, stream, where)
    kernel, names = (pack, ("turned",)) if len(packings) == 1 else (pack_both, ("turned_a", "turned_b"))
    views: list[ArgumentView | None] = []
    described: list[tuple[Any, Any]] = []
    for packing, source, target in packings:
        views += [packing.source, packing.target]
        described += [packing.source.described(source, launch), packing.target.described(target, 0)]
    constants = {name: packing.turned for name, (packing, _, _) in zip(names, packings, strict=True)}
    return _copied(kernel, views, described, constants, packings, stream, where)


def _by_words(given: Given) -> bool:
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
