"""Schedules that are ready to use: lists of steps, to take as they are or to change."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from nvdsl.errors import ArgumentError, frames
from nvdsl.schedule.asynchronous import copy_async
from nvdsl.schedule.blocks import bufferize, launch, tile_blocks
from nvdsl.schedule.fused import fma
from nvdsl.schedule.hopper import wgmma
from nvdsl.schedule.latency import hide_latency
from nvdsl.schedule.matrices import mma_sync, wmma
from nvdsl.schedule.persistent import persistent
from nvdsl.schedule.prefetch import prefetch
from nvdsl.schedule.registers import hoist_sums
from nvdsl.schedule.shared import copies, merge_barriers, pad, stage
from nvdsl.schedule.step import Step
from nvdsl.schedule.swizzling import swizzle
from nvdsl.schedule.warps import permute, spread, tile_fragments, tile_threads, tile_warps, unroll, vectorize
from nvdsl.values.dtypes import DType, element, f16, f32


def fma_steps(
    block: tuple[int, int, int] = (128, 128, 16),
    threads: tuple[int, int] = (16, 16),
    *,
    without: Sequence[str] = (),
) -> list[Step]:
    """A schedule without tensor cores: ``block`` is a block's tile as m, n and k, of which each of ``threads`` (down,
    across) has a part. ``without``: names of steps to leave out (stage, merge_barriers, copies)."""
    _check_tiles(block=(block, 3), threads=(threads, 2))
    steps = [
        tile_blocks(*block), bufferize(), stage(), merge_barriers(), tile_threads(*threads), copies(1), launch(),
    ]  # fmt: skip
    return _without(steps, without, ("stage", "merge_barriers", "copies"))


def simt_steps(
    block: tuple[int, int, int] = (128, 128, 32),
    tile: tuple[int, int] = (16, 64),
    threads: tuple[int, int] = (16, 16),
    dtype: DType = f32,
    *,
    stages: int = 3,
    without: Sequence[str] = (),
) -> list[Step]:
    """The same in registers: each of ``threads`` (down, across) has a part of every ``tile`` (m, n) of the block's, and
    multiplies and adds vectors by fma. ``dtype``: of the operands. From two ``stages`` on, copies are those of
    cp.async, into as many buffers.

    ``without``: names of steps to leave out: merge_barriers, pad, permute, hide_latency, and "wide" for
    copies of one element at a time.
    """
    without, wide = _names(without), 16 // element(dtype).bytes
    _check_tiles(block=(block, 3), tile=(tile, 2), threads=(threads, 2))
    steps = [
        tile_blocks(*block), bufferize(), stage(), merge_barriers(), pad(wide), tile_fragments(*tile, 4),
        permute("kij"), spread(*threads), vectorize(), copies(1 if "wide" in without else wide), launch(), unroll(),
        hoist_sums(), fma(), hide_latency() if stages == 1 else copy_async(stages),
    ]  # fmt: skip
    return _without(steps, without, ("merge_barriers", "pad", "permute", "hide_latency", "wide"))


def wmma_steps(
    block: tuple[int, int, int] = (128, 128, 64),
    warp: tuple[int, int] = (64, 32),
    dtype: DType = f16,
    *,
    stages: int = 1,
    without: Sequence[str] = (),
) -> list[Step]:
    """The schedule of Katel, Khandelwal and Bondhugula ("MLIR-based code generation for GPU tensor cores", 2022): tiles
    of ``block`` (m, n, k) in shared memory and of ``warp`` (m, n) for each warp, and WMMA. ``dtype``: of the operands.
    From two ``stages`` on, copies are those of cp.async, into as many buffers.

    ``without``: names of steps to leave out: merge_barriers, pad, permute, unroll, hoist_sums, hide_latency, prefetch,
    and "wide" for copies of one element at a time.
    """
    without, wide = _names(without), 16 // element(dtype).bytes
    copied = 1 if "wide" in without else wide
    _check_tiles(block=(block, 3), warp=(warp, 2))
    steps = [
        tile_blocks(*block), bufferize(), stage(), merge_barriers(), pad(wide), tile_warps(*warp),
        tile_fragments(16, 16, 32 // dtype.bytes), permute("kij"), vectorize(), copies(copied), launch(), unroll(),
        hoist_sums(), *([hide_latency(), wmma()] if stages == 1 else [wmma(), copy_async(stages), prefetch()]),
    ]  # fmt: skip
    known = ("merge_barriers", "pad", "permute", "unroll", "hoist_sums", "hide_latency", "prefetch", "wide")
    return _without(steps, without, known)


def mma_steps(
    block: tuple[int, int, int] = (128, 128, 64),
    warp: tuple[int, int] = (64, 32),
    dtype: DType = f16,
    *,
    stages: int = 1,
    without: Sequence[str] = (),
) -> list[Step]:
    """The same with ldmatrix and mma.sync instead of WMMA, and a swizzle instead of longer rows. ``dtype``: of the
    operands. From two ``stages`` on, copies are those of cp.async, into as many buffers.

    ``without``: names of steps to leave out: merge_barriers, permute, hide_latency, prefetch, swizzle.
    """
    without, wide = _names(without), 16 // element(dtype).bytes
    _check_tiles(block=(block, 3), warp=(warp, 2))
    steps = [
        tile_blocks(*block), bufferize(), stage(), merge_barriers(), tile_warps(*warp),
        tile_fragments(16, 8, 32 // dtype.bytes), permute("kij"), vectorize(), copies(wide), launch(), unroll(),
        hoist_sums(), mma_sync(), swizzle(),
        *([hide_latency()] if stages == 1 else [copy_async(stages), prefetch()]),
    ]  # fmt: skip
    return _without(steps, without, ("merge_barriers", "permute", "hide_latency", "prefetch", "swizzle"))


def wgmma_steps(
    block: tuple[int, int, int] = (128, 256, 64), stages: int = 4, warpgroups: int = 2, *, without: Sequence[str] = ()
) -> list[Step]:
    """Hopper's own end: tiles by TMA into a ring of ``stages`` slots, and wgmma in ``warpgroups`` warpgroups, for f16
    and bf16 with f32 sums, with any elementwise operations behind the product.

    ``without``: names of steps to leave out: persistent.
    """
    _check_tiles(block=(block, 3))
    steps = [tile_blocks(*block), bufferize(), stage(), persistent(), wgmma(stages, warpgroups)]
    return _without(steps, without, ("persistent",))


def _names(without: Sequence[str]) -> Sequence[str]:
    return [without] if isinstance(without, str) else without


def _check_tiles(**tiles: tuple[Any, int]) -> None:
    for name, (tile, axes) in tiles.items():
        if not isinstance(tile, Sequence) or isinstance(tile, str) or len(tile) != axes:
            raise ArgumentError(f"a schedule with {name}={tile!r}", where=frames.caller(),
                                rule=f"{name} is {axes} whole numbers, {('m', 'n', 'k')[:axes]}",
                                fix=f"{name}={(64, 64, 32)[:axes]}, say")  # fmt: skip


def _without(steps: list[Step], without: Sequence[str], known: Sequence[str]) -> list[Step]:
    without = _names(without)
    unknown = [name for name in without if name not in known]
    if unknown:
        raise ArgumentError(f"a schedule without {unknown[0]!r}", where=frames.caller(),
                            rule=f"what may be left out is {', '.join(known)}", fix="choose from these")  # fmt: skip
    return [step for step in steps if step.name not in without]
