"""Tensor copies: which bytes of shared and of global memory one TMA instruction moves, and moving them.

Pure functions over NumPy byte arrays. Shared memory is an array that a shared address indexes; a tensor
lies at byte ``base`` of its array. Coordinates are in elements, the innermost dimension first.

A box is stored row by row. With a swizzle, rows are as far apart as the swizzle is wide, narrower ones
too, and the 16-byte units of a row are permuted by bits of the *absolute* shared address.

Sources: PTX ISA, "Tensors", "Tensor swizzling modes", ``cp.async.bulk.tensor``,
``cp.reduce.async.bulk.tensor``; CUDA C++ Programming Guide, "Tensor Memory Access". What they leave open
(narrow rows, the bits of NaN fill, where stores are clipped, reductions per type) was measured on an H200.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from nvdsl.errors.records import dataclass
from nvdsl.hopper import arch
from nvdsl.hopper.tensor_maps import TensorMap
from nvdsl.sim import numbers
from nvdsl.sim.geometry import PATTERN, UNIT, UNIT_DTYPE, Geometry, geometry, ranges, runs, units

_BITWISE, _ORDER = ("and", "or", "xor"), ("min", "max")
REDUCTIONS = {
    "f16": ("add", *_ORDER),
    "bf16": ("add", *_ORDER),
    "tf32": ("add",),
    "f32": ("add",),
    "f64": ("add",),
    "i32": ("add", *_ORDER, *_BITWISE),
    "i64": _ORDER,
}
"""Reductions by a tensor map's element type; any other is an illegal instruction. (``inc`` and ``dec``
take unsigned 32-bit elements, which no `TensorMap` has.)"""

_ILLEGAL = "else it is an illegal instruction on the GPU (measured on an H200: docs/hardware.md)"


# --- what a copy touches -------------------------------------------------------------------------


@dataclass(frozen=True)
class Copy:
    """The contiguous pieces of one box, in the order of its elements.

    ``smem_offsets``: bytes from the box's shared address. ``global_offsets``: bytes from the tensor's start
    (of no meaning where ``inside`` is False). ``run``: bytes of each piece: a row, or 16 with a swizzle, or one
    element for a box that is partly out of bounds. ``bytes``: of the whole box, which is what an mbarrier
    counts, out-of-bounds elements included. ``item``: bytes of an element.
    """

    smem_offsets: np.ndarray
    global_offsets: np.ndarray
    inside: np.ndarray
    run: int
    bytes: int
    item: int


def boxes(tensor_map: TensorMap, coords: Sequence[int], address: int = 0, *, store: bool = False) -> Copy:
    """The pieces of the box at ``coords``, in shared memory at ``address``.

    A store clips rows to 16 bytes: it writes up to 15 bytes past the end of a row, padding or not.
    """
    g = geometry(tensor_map)
    shape, place, _ = g.clip(coords, store)
    run = g.item if shape != g.box else UNIT if g.swizzle else g.row
    smem, offsets = runs(tensor_map, address % PATTERN, run)
    origin = sum(at * stride for at, stride in zip(coords[::-1], g.strides, strict=True))
    inside = np.zeros(g.box, bool)
    inside[place] = True
    return Copy(smem, offsets + origin, inside.reshape(-1)[:: run // g.item], run, g.bytes, g.item)


def footprint(
    tensor_map: TensorMap, coords: Sequence[int], address: int, *, clipped: bool = False
) -> list[tuple[int, int]]:
    """Ranges of shared addresses: the whole box, which a load writes, or (clipped) what a store uses of it."""
    g = geometry(tensor_map)
    if clipped and g.clip(coords, store=True)[0] != g.box:
        copy = boxes(tensor_map, coords, address, store=True)
        return ranges(address + copy.smem_offsets[copy.inside], copy.run)
    phase = address % PATTERN
    return [(address - phase + low, address - phase + high) for low, high in _footprint(tensor_map, phase)]


@lru_cache(maxsize=256)
def _footprint(tensor_map: TensorMap, phase: int) -> list[tuple[int, int]]:
    return ranges(units(tensor_map, phase) * UNIT, UNIT)


def global_footprint(
    tensor_map: TensorMap, coords: Sequence[int], *, store: bool = False
) -> list[tuple[int, int]]:
    """Ranges of bytes from the tensor's start that the box's elements inside of it take (see `boxes`)."""
    shape, _, first = geometry(tensor_map).clip(coords, store)
    if 0 in shape:
        return []
    return [(first + low, first + high) for low, high in _global_footprint(tensor_map, shape)]


@lru_cache(maxsize=256)
def _global_footprint(tensor_map: TensorMap, shape: tuple[int, ...]) -> list[tuple[int, int]]:
    g = geometry(tensor_map)
    return ranges(g.row_offsets(shape), shape[-1] * g.item)


def region(
    tensor_map: TensorMap, coords: Sequence[int], *, store: bool = False
) -> tuple[int, tuple[int, ...], tuple[int, ...]] | None:
    """The same as one strided block: its first byte from the tensor's start, its extents (the last one in bytes) and
    strides in bytes, outermost first. None: all of the box is outside."""
    g = geometry(tensor_map)
    shape, _, first = g.clip(coords, store)
    return None if 0 in shape else (first, (*shape[:-1], shape[-1] * g.item), g.strides)


def extent(tensor_map: TensorMap, address: int) -> tuple[int, int]:
    """The first shared address that a load of a box at ``address`` writes, and the one after the last."""
    phase = address % PATTERN
    pieces = _footprint(tensor_map, phase)
    return address - phase + pieces[0][0], address - phase + pieces[-1][1]


class BrokenRule(NamedTuple):
    """A rule that a copy breaks, with the values, and what to write instead."""

    says: str
    rule: str
    fix: str


def problems(
    tensor_map: TensorMap, coords: Sequence[int], address: int, *, store: bool = False, reduction: str = ""
) -> list[BrokenRule]:
    """Every rule that a copy of the box at ``coords`` breaks; [] when it is legal.

    ``store``: from shared to global memory. ``reduction``: the kind of a reduction. The device reports a
    broken rule as a misaligned address or an illegal instruction.
    """
    item, element = geometry(tensor_map).item, tensor_map.element
    found, past = [], address % arch.TMA_SMEM_ALIGNMENT
    if past:
        multiple = f"a multiple of {arch.TMA_SMEM_ALIGNMENT} bytes"
        says = f"shared address {address:#x} is {past} bytes past {multiple}"
        rule = f"a box starts at {multiple} (PTX ISA, cp.async.bulk.tensor)"
        found.append(BrokenRule(says, rule, "align the slot's offset"))
    if coords[0] * item % arch.TMA_COORDINATE_MULTIPLE:
        few = arch.TMA_COORDINATE_MULTIPLE // item
        says = f"innermost coordinate {coords[0]} is {coords[0] * item:,} bytes of {element}"
        rule = f"the innermost coordinate is a multiple of {arch.TMA_COORDINATE_MULTIPLE} bytes, {_ILLEGAL}"
        before = coords[0] // few * few
        fix = f"start the box at {before}, the multiple of {few} elements before it, or use ordinary loads and stores"
        found.append(BrokenRule(says, rule, fix))
    if (store or reduction) and min(coords) < 0:
        rule = f"what goes to global memory has no negative coordinate, {_ILLEGAL}"
        says = f"coordinates {tuple(coords)}, innermost first"
        found.append(BrokenRule(says, rule, "start the box inside of the array"))
    allowed = REDUCTIONS.get(element, ())
    if reduction and reduction not in allowed:
        says = f"reduction {reduction} of {element}"
        rule = f"TMA has {', '.join(allowed) or 'no reduction'} for {element}, {_ILLEGAL}"
        found.append(BrokenRule(says, rule, "another kind or type, or nv.atomic_add on the elements"))
    return found


# --- moving bytes --------------------------------------------------------------------------------


def load(
    global_bytes: np.ndarray,
    base: int,
    smem: np.ndarray,
    address: int,
    tensor_map: TensorMap,
    coords: Sequence[int],
) -> None:
    """Global to shared memory. Elements out of bounds become 0 or the NaN of ``oob``; those of a tf32 map
    are rounded to tf32, to nearest even. ``address`` is 16-byte aligned (`problems` has the rules)."""
    g = geometry(tensor_map)
    shape, place, first = g.clip(coords, store=False)
    tile = np.full(g.box, g.fill)
    if 0 not in shape:
        source = _view(global_bytes, base + first, shape, g, g.raw)
        if g.dtype.name == "tf32":
            source = numbers.round_tf32_even(source.view(np.float32)).view(g.raw)
        tile[place] = source
    if not g.swizzle:
        smem[address : address + g.bytes] = tile.reshape(-1).view(np.uint8)
        return
    phase = address % PATTERN
    _unit_view(smem, address - phase)[units(tensor_map, phase)] = tile.reshape(-1).view(UNIT_DTYPE)


def store(
    global_bytes: np.ndarray,
    base: int,
    smem: np.ndarray,
    address: int,
    tensor_map: TensorMap,
    coords: Sequence[int],
) -> None:
    """Shared to global memory, clipped as `boxes` says. No coordinate is negative."""
    g = geometry(tensor_map)
    shape, place, first = g.clip(coords, store=True)
    if 0 not in shape:
        _view(global_bytes, base + first, shape, g, g.raw)[...] = _tile(smem, address, tensor_map)[place]


def reduce(
    global_bytes: np.ndarray,
    base: int,
    smem: np.ndarray,
    address: int,
    tensor_map: TensorMap,
    coords: Sequence[int],
    kind: str,
) -> None:
    """Shared memory combined into global memory, element by element, clipped as by `store`.

    ``kind``: one that `REDUCTIONS` has for the element type, ValueError for another; `numbers.reduction`
    has their arithmetic.
    """
    g = geometry(tensor_map)
    if kind not in REDUCTIONS.get(tensor_map.element, ()):
        raise ValueError(problems(tensor_map, coords, address, reduction=kind)[-1].says)
    shape, place, first = g.clip(coords, store=True)
    if 0 in shape:
        return
    mine = _tile(smem, address, tensor_map)[place].view(g.dtype.numpy)
    theirs = _view(global_bytes, base + first, shape, g, g.dtype.numpy)
    distinct = sum(stop - start for start, stop in _global_footprint(tensor_map, shape))
    # Where rows overlap (a stride of 0 adds them all up), one follows the other.
    for part in [...] if distinct == theirs.nbytes else np.ndindex(shape[:-1]):
        theirs[part] = numbers.reduction(kind, theirs[part], mine[part])


def _view(
    memory: np.ndarray, start: int, shape: tuple[int, ...], g: Geometry, dtype: np.dtype
) -> np.ndarray:
    """A box's elements in global memory, in place; ValueError where they exceed the array."""
    return np.ndarray(shape, dtype, memory.data, start, g.strides)


def _unit_view(smem: np.ndarray, start: int) -> np.ndarray:
    """Shared memory from ``start`` on as 16-byte units."""
    return smem[start : start + (len(smem) - start) // UNIT * UNIT].view(UNIT_DTYPE)


def _tile(smem: np.ndarray, address: int, tensor_map: TensorMap) -> np.ndarray:
    """The box's elements out of shared memory, as a dense array of its shape."""
    g = geometry(tensor_map)
    if not g.swizzle:
        return smem[address : address + g.bytes].view(g.raw).reshape(g.box)
    phase = address % PATTERN
    found = _unit_view(smem, address - phase)[units(tensor_map, phase)]
    return found.view(g.raw).reshape(g.box)
