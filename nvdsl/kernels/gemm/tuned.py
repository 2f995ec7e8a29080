"""`tensor_core.matmul` with the best known configuration: what was tuned on this machine, else an exception in the
table that comes with nvdsl, else what `choose` says."""

from __future__ import annotations

import functools
import itertools
import math
from dataclasses import replace
from typing import Any

import nvdsl as nv
from nvdsl.driver.array_spec import packed_strides
from nvdsl.kernels.blocks.either_epilogue import EITHER
from nvdsl.kernels.blocks.epilogue_visitor import turns
from nvdsl.kernels.blocks.linear_combination import LinearCombination
from nvdsl.kernels.gemm import tensor_core
from nvdsl.kernels.gemm.choose import allowed, choose
from nvdsl.kernels.gemm.config import Config
from nvdsl.kernels.gemm.model import Shape, cycles, grid
from nvdsl.kernels.gemm.problem import TMA_ALIGNMENT
from nvdsl.kernels.gemm.tiles import listed

WORTH_TRYING = 1.25
"""Times the fewest cycles: what the model thinks slower is not tried by a search."""


def _shape(
    a: Any, b: Any, out: Any, a_major: str, b_major: str, acc_dtype: nv.DType, epilogue_op: Any,
    direct_store: bool | str,
) -> Shape:  # fmt: skip
    """Of the arguments of `tensor_core.matmul`."""
    *batches, m, n = out.shape
    k = a.shape[-1 if a_major == "k" else -2]
    finish = _finish(epilogue_op)
    of_a, of_b = (int(grid(x.strides[-2] * x.dtype.bytes)) for x in (a, b))
    return Shape(
        m, n, k, a.dtype, out.dtype, acc_dtype, math.prod(batches), a_major, b_major, (of_a, of_b),
        not (direct_store in (False, EITHER) and whole(out)), epilogue_op is not None,
        direct_store in (False, EITHER) and turns(epilogue_op), finish.is_slight, finish.is_long,
    )  # fmt: skip


def whole(out: Any) -> bool:
    """Whether rows start and end at multiples of 16 bytes."""
    *outer, cols = out.shape
    strides = out.strides or packed_strides(out.shape)
    steps = [step for extent, step in zip(outer, strides, strict=False) if extent > 1]
    return all(x * out.dtype.bytes % TMA_ALIGNMENT == 0 for x in (cols, *steps))


def heuristic(
    a: Any, b: Any, out: Any, a_major: str, b_major: str, acc_dtype: nv.DType, epilogue_op: Any, sms: int,
    direct_store: bool | str,
) -> dict[str, Any]:  # fmt: skip
    """The model's choice."""
    shape = _shape(a, b, out, a_major, b_major, acc_dtype, epilogue_op, direct_store)
    return {"config": choose(shape, _crowded(out, epilogue_op), sms)}


def shape_class(a: Any, out: Any, a_major: str) -> list[int]:
    """Batches, M, N, K, such that all of a class have as many tiles: M and N rounded up to tiles of 128, up to 256 of
    64, up to 64 to a power of two; K to the nearest power of two. Whether rows of N start on the grid of 128 bytes,
    which decides as much as sizes do; and whether TMA can store these."""
    *batches, m, n = out.shape
    k = a.shape[-1 if a_major == "k" else -2]
    on_grid = n * out.dtype.bytes % 128 == 0
    return [math.prod(batches), _tiles(m), _tiles(n), 1 << round(math.log2(k)), int(on_grid), int(whole(out))]


def _tiles(extent: int) -> int:
    if extent <= 64:
        return 1 << (extent - 1).bit_length()
    tile = 64 if extent <= 256 else 128
    return tile * nv.cdiv(extent, tile)


def _can_run(
    config: Any, a: Any, b: Any, out: Any, a_major: str, b_major: str, acc_dtype: nv.DType, epilogue_op: Any,
    direct_store: bool | str,
) -> bool:  # fmt: skip
    shape = _shape(a, b, out, a_major, b_major, acc_dtype, epilogue_op, direct_store)
    return config in _all(replace(shape, m=0, n=0, k=0, batches=1, grids=None), _crowded(out, epilogue_op))


@functools.cache
def _all(shape: Shape, crowded: bool) -> frozenset[Config]:
    return frozenset(allowed(shape, crowded))


def _is_near(
    config: Any, a: Any, b: Any, out: Any, a_major: str, b_major: str, acc_dtype: nv.DType, epilogue_op: Any, sms: int,
    direct_store: bool | str,
) -> bool:  # fmt: skip
    shape = _shape(a, b, out, a_major, b_major, acc_dtype, epilogue_op, direct_store)
    best = choose(shape, _crowded(out, epilogue_op), sms)
    return cycles(config, shape, sms) <= WORTH_TRYING * cycles(best, shape, sms)


def _crowded(out: Any, epilogue_op: Any) -> bool:
    """Whether an epilogue needs more registers than the largest tiles leave."""
    function = getattr(epilogue_op, "function", None)
    if isinstance(function, LinearCombination):
        return function.is_crowded(out.shape[-1])
    return epilogue_op is not None


def _finish(epilogue_op: Any) -> LinearCombination:
    """What an epilogue computes, as far as it is known here."""
    function = getattr(epilogue_op, "function", None)
    return function if isinstance(function, LinearCombination) else LinearCombination()


_MAJORS = "k", "mn"


def _every() -> list[Config]:
    lists = itertools.product((nv.e4m3, nv.f16, nv.f32), _MAJORS, _MAJORS)
    return list(dict.fromkeys(itertools.chain.from_iterable(listed(*each) for each in lists)))


SPACE = (
    nv.Space(config=_every)
    .where(_can_run, "its types fit into an SM, and its epilogue has registers")
    .where(_is_near, "the model thinks it nearly as fast as its choice")
)

tuned_matmul = nv.autotune(SPACE, heuristic=heuristic, shape_class=shape_class, table="matmul")(
    nv.jit(tensor_core.matmul)
)
