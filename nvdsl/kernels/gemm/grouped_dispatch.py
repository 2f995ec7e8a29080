"""Which kernel computes a grouped product, and how it sees the arrays.

    a (M, K), b (groups, K, N)      groups of rows      `grouped`       out (M, N)
    a (M, K), b (K, N)              groups along K      `grouped_k`     out (groups, M, N)
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import nvdsl as nv
from nvdsl.driver.array_spec import packed_strides
from nvdsl.errors import ArgumentError
from nvdsl.hopper import arch
from nvdsl.kernels.blocks.elementwise import Elementwise
from nvdsl.kernels.blocks.linear_combination import LinearCombination
from nvdsl.kernels.gemm import blockscaled, grouped, grouped_k, simple
from nvdsl.kernels.gemm.binding import AXES, bind
from nvdsl.kernels.gemm.bound_kernel import BoundKernel
from nvdsl.kernels.gemm.config import Config
from nvdsl.kernels.gemm.factors import readable, refuse
from nvdsl.kernels.gemm.launch import resident_blocks, sms
from nvdsl.kernels.gemm.model import Shape, cycles
from nvdsl.kernels.gemm.problem import TMA_ALIGNMENT, GemmProblem, Matrix, blocks, fits_tma, repeated, types
from nvdsl.kernels.gemm.tiles import has_registers, with_stages

TILES = {
    ("cooperative", 1): ((64, 128), (64, 256)),
    ("cooperative", 2): ((128, 128), (128, 256), (256, 128)),
    ("pingpong", 2): ((64, 128), (64, 256), (128, 128), (128, 192)),
}
"""(schedule, consumer warpgroups): tiles that are chosen from. Each is compiled on its own."""

SHORT, WIDE = 16, Config(256, 192)
"""What groups along K of so few elements, in the mean, are computed by: they take as long as their results to write,
and the fewest tiles were 5 % faster on an H200."""


SAVED = 0.1
"""Of a group's last tile, what is saved where a consumer has none of the rows: on an H200 128 x 256 was the faster tile
with 8 groups of 1,024 rows, and not with 64 of 512."""


def find_grouped(
    given: dict[str, Matrix],
    finish: LinearCombination,
    acc_dtype: nv.DType | None,
    out_dtype: nv.DType | None,
    config: Config | None,
    target: str | None,
) -> BoundKernel:
    """The kernel of a grouped product. ``given``: the arrays by name: a, b, offsets, and those that are optional.

    Raises ArgumentError for what does not fit together.
    """
    offsets = given.pop("offsets")
    check(given, offsets)
    groups = offsets.shape[0]
    if is_block_scaled(given):
        return _find_block_scaled(given, offsets, finish, acc_dtype, out_dtype, config, target)
    acc_dtype, out_dtype = types(given["a"].dtype, given["b"].dtype, acc_dtype, out_dtype, given.get("out"))
    along_k = len(given["b"].shape) == 2
    problem = problem_of(given, groups, acc_dtype, out_dtype)
    if 0 in problem.result:
        return BoundKernel(problem, finish, None, {}, (), 0, {}, {})
    if groups == 0:
        problem, finish = replace(problem, others=()), LinearCombination()
    options: dict[str, Any] = {"acc_dtype": acc_dtype, "epilogue_op": _epilogue(problem, finish, clips=along_k)}
    arrays, axes = {"out": problem.out}, {**AXES, "offsets": "g"}
    if problem.a.shape[-1] == 0 and along_k:
        return bind(problem, finish, simple.empty_sums, options, arrays, axes, with_batch=True)
    arrays = {"offsets": offsets, **arrays}
    if problem.a.shape[-1] == 0 or groups == 0:
        bound = bind(problem, finish, grouped.empty_sums, options, arrays, axes, unbatched=("c", "scale_a"))
        return with_groups(bound, groups)

    if along_k:
        a, b, function = problem.a.transposed, problem.b, grouped_k.matmul
        axes |= {"a": "km"}
        _, m, n = problem.result
        shape = Shape(m, n, max(a.shape[0] // groups, 1), a.dtype, out_dtype, acc_dtype, groups, "mn")
    else:
        a, function = problem.a, grouped.matmul
        b, near = readable(problem.b, k_axis=0)
        options["b_major"] = "k" if near == 0 else "mn"
        axes |= {"b": "nk" if near == 0 else "kn"}
        m, n = problem.result
        shape = Shape(
            nv.cdiv(m, groups), n, a.shape[-1], a.dtype, out_dtype, acc_dtype, groups, "k", options["b_major"]
        )
    if config is None:
        config = choose(shape, finish.is_crowded(problem.result[-1]), sms(target))
    config = replace(config, tile_k=128 // a.dtype.bytes)
    check_config(config, shape, along_k)
    options |= {
        "config": config, "blocks": resident_blocks(config, sms(target)), "direct_store": not fits_tma(problem.out)
    }  # fmt: skip
    arrays = {"a": a, "b": b, **arrays}
    packed = [name for name in "ab" if not arrays[name].fits_tma(1) or along_k and _is_odd_row(arrays[name])]
    unbatched = () if along_k else ("c", "scale_a")
    bound = bind(problem, finish, function, options, arrays, axes, packed=packed, unbatched=unbatched)
    return with_groups(bound, groups)


def _epilogue(problem: GemmProblem, finish: LinearCombination, clips: bool = False) -> Elementwise | None:
    aligned = all(x.fits_tma(1) for name, x in problem.others if name == "c")
    return None if finish.does_nothing else Elementwise(finish, aligned, clips=clips)


def _is_odd_row(matrix: Matrix) -> bool:
    """Whether it is one row that does not end at a multiple of 16 bytes. Windows of it have a step from row to row."""
    return matrix.shape[0] == 1 and matrix.shape[1] * matrix.dtype.bytes % TMA_ALIGNMENT != 0


def is_block_scaled(given: dict[str, Matrix]) -> bool:
    """Whether scale_a and scale_b have an element for each 128 along K, and 128 columns of a group's b."""
    a, b, scale_a, scale_b = (given.get(name) for name in ("a", "b", "scale_a", "scale_b"))
    if not (a and b and scale_a and scale_b) or len(b.shape) != 3:
        return False
    slices, columns = blocks(b.shape[-1], a.shape[-1])
    return (
        scale_a.shape == (a.shape[0], slices)
        and scale_b.shape == (b.shape[0], slices, columns)
        and slices * columns != 1
    )


def _find_block_scaled(
    given: dict[str, Matrix],
    offsets: Matrix,
    finish: LinearCombination,
    acc_dtype: nv.DType | None,
    out_dtype: nv.DType | None,
    config: Config | None,
    target: str | None,
) -> BoundKernel:
    finish = replace(finish, scale_a=False, scale_b=False)
    given, scales = dict(given), {name: given[name] for name in ("scale_a", "scale_b")}
    for name in scales:
        del given[name]
    acc_dtype, out_dtype = types(given["a"].dtype, given["b"].dtype, acc_dtype, out_dtype, given.get("out"))
    if acc_dtype != nv.f32 or given["a"].dtype.bits != 8 or not given["a"].dtype.is_float:
        raise ArgumentError(
            f"scales for blocks of {given['a'].dtype.name}, with sums in {acc_dtype.name}",
            rule="e4m3 and e5m2 have scales for each 128 elements along K, and are summed in f32",
            fix="scale rows and columns: scale_a of (M, 1), scale_b of (groups, 1, N)",
        )
    if 0 in (*given["a"].shape, *given["b"].shape):  # nothing to scale
        return find_grouped(given | {"offsets": offsets}, finish, acc_dtype, out_dtype, config, target)
    groups = offsets.shape[0]
    problem = problem_of(given, groups, acc_dtype, out_dtype)
    a, b = problem.a, problem.b.transposed
    m, n = problem.result
    config = replace(config or blockscaled.choose(nv.cdiv(m, groups), n, sms(target), groups), tile_k=128)
    options = {
        "config": config, "blocks": resident_blocks(config, sms(target)), "direct_store": not fits_tma(problem.out),
        "epilogue_op": _epilogue(problem, finish),
    }  # fmt: skip
    arrays = {"a": a, "b": b, "offsets": offsets, **scales, "out": problem.out}
    axes = {"a": "mk", "b": "nk", "offsets": "g", "out": "mn", "scale_a": "ms", "scale_b": "st"}
    packed = [name for name, matrix in (("a", a), ("b", b)) if not matrix.fits_tma(1)]
    bound = bind(problem, finish, blockscaled.grouped, options, arrays, axes, packed=packed, unbatched=("c",))
    return with_groups(bound, groups)


@functools.lru_cache(maxsize=1 << 12)
def choose(shape: Shape, crowded: bool, sms: int = arch.SMS) -> Config:
    """The configuration of the fewest cycles, as if all groups were of one size."""

    def fits(config: Config) -> bool:
        whole = not crowded or has_registers(config, shape.acc)
        return whole and not config.problems(shape.dtype, shape.out, shape.acc)

    wide = with_stages(WIDE, shape.dtype)
    if shape.a_major == "mn" and shape.k <= SHORT and shape.m >= wide.tile_m and shape.n >= wide.tile_n and fits(wide):
        return wide
    return fastest(shape, fits, sms)


def fastest(shape: Shape, fits: Callable[[Config], bool], sms: int) -> Config:
    """Of `TILES`, those that fit."""
    rows = shape.a_major != "mn"
    tiles = [
        with_stages(
            Config(
                *tile, 128 // shape.dtype.bytes, schedule=schedule, consumers=consumers,
                group=12 if rows and tile == (128, 192) else 8,
            ),
            shape.dtype,
        )
        for (schedule, consumers), found in TILES.items()
        for tile in found
    ]  # fmt: skip

    def expected(config: Config) -> float:
        """Cycles, where groups end anywhere: each group's last tile takes about as long as a whole one."""
        if not rows:
            return float(cycles(config, shape, sms))
        used = 1 - SAVED * (1 - config.rows / config.tile_m)
        most, least = (replace(shape, m=shape.m + more) for more in (config.tile_m // 2, 0))
        return float(used * cycles(config, most, sms) + (1 - used) * cycles(config, least, sms))

    return min(filter(fits, tiles), key=expected)


def with_groups(bound: BoundKernel, groups: int) -> BoundKernel:
    """Told how many groups there are: b has them, and what the epilogue reads, whether the result has or not."""
    return replace(bound, sizes={**bound.sizes, "z": groups, "g": groups})


def check(given: dict[str, Matrix], offsets: Matrix) -> None:
    a, b = given["a"], given["b"]
    if offsets.dtype not in (nv.i32, nv.i64) or len(offsets.shape) != 1:
        raise ArgumentError(
            f"offsets of shape {offsets.shape}, {offsets.dtype.name}",
            rule="offsets are i32 (or i64) and have one axis: where each group ends",
            fix="offsets = counts.cumsum(0), as i32",
        )
    if len(a.shape) != 2 or len(b.shape) not in (2, 3):
        raise ArgumentError(
            f"a of shape {a.shape} and b of shape {b.shape}",
            rule="groups of rows: a is (M, K) and b (groups, K, N); groups along K: a is (M, K) and b (K, N)",
            fix="nv.matmul multiplies batches of equal size",
        )
    if a.dtype == nv.f64:
        raise ArgumentError(
            "groups of f64",
            rule="tensor cores compute groups, of f32 (as tf32) and types of 8 and 16 bits",
            fix="convert to f32, or call nv.matmul",
        )
    if a.shape[1] != b.shape[-2]:
        raise ArgumentError(
            f"a of shape {a.shape} times b of shape {b.shape}",
            rule=f"K is a's last axis ({a.shape[1]}) and b's last but one ({b.shape[-2]})",
            fix="transpose one of them: x.T costs nothing",
        )
    if len(b.shape) == 3 and b.shape[0] != offsets.shape[0]:
        raise ArgumentError(
            f"{offsets.shape[0]} offsets for a b of shape {b.shape}",
            rule="there is one offset for each matrix of b: where its group ends",
            fix="leave out the 0 at the start: offsets = counts.cumsum(0)",
        )
    if len(b.shape) == 2 and a.dtype.bits != 16 and 0 not in (*a.shape, *b.shape):
        raise ArgumentError(
            f"groups along K of {a.dtype.name}",
            rule="wgmma reads operands whose other axis is contiguous in 16-bit types only, and TMA starts anywhere "
            "along such an axis only",
            fix="convert both to f16 or bf16",
        )


def check_config(config: Config, shape: Shape, along_k: bool) -> None:
    reasons = config.problems(shape.dtype, shape.out, shape.acc)
    if config.schedule not in grouped.SCHEDULES:
        reasons.append(f"schedule {config.schedule!r}: one of {', '.join(grouped.SCHEDULES)}")
    if config.swap_ab:
        reasons.append("swapped operands: the rows of a tile are a group's")
    if along_k and config.along == "n" and config.cols % 64:
        reasons.append(f"{config.cols} columns a consumer: groups along K divide tiles at multiples of 64 columns")
    refuse(config, f"groups of {shape.dtype.name}", reasons)


def problem_of(given: dict[str, Matrix], groups: int, acc_dtype: nv.DType, out_dtype: nv.DType) -> GemmProblem:
    """Raises ArgumentError where the result, or what the epilogue reads, has another shape."""
    a, b = given["a"], given["b"]
    m, n = a.shape[0], b.shape[-1]
    along_k = len(b.shape) == 2
    result = (groups, m, n) if along_k else (m, n)
    out = given.get("out") or Matrix(out_dtype, result, packed_strides(result))
    if out.shape != result:
        raise ArgumentError(f"out of shape {out.shape} for a result of {result}", fix="pass one of that shape")
    if 0 not in result and any(extent > 1 and step == 0 for extent, step in zip(result, out.strides, strict=True)):
        raise ArgumentError("elements of out share memory (stride 0)", fix="pass an array of its own memory")
    others = []
    for name in ("scale_a", "scale_b", "c", "bias"):
        if name in given:
            x = given[name]
            of_group = not along_k and name in ("scale_b", "bias")  # an epilogue is told the group as its batch
            others.append((name, of_groups(name, x, groups, m, n) if of_group else repeated(name, x, result)))
    return GemmProblem(a, b, out, tuple(others), acc_dtype, result)


def of_groups(name: str, x: Matrix, groups: int, m: int, n: int) -> Matrix:
    """A row for each group, or one for all: with the result's rows as an axis along which it repeats."""
    shape, strides = x.shape, x.strides
    if len(shape) == 3 and shape[1] == 1:
        shape, strides = (shape[0], shape[2]), (strides[0], strides[2])
    shape, strides = (1,) * (2 - len(shape)) + shape, (0,) * (2 - len(strides)) + strides
    if len(shape) != 2 or shape[0] not in (1, groups) or shape[1] not in (1, n):
        raise ArgumentError(
            f"{name} of shape {x.shape} for {groups} groups and {n} columns",
            rule=f"{name} is one row for all groups, ({n},), or one for each, ({groups}, {n})",
            fix="reshape it",
        )
    steps = [0 if extent == 1 else step for extent, step in zip(shape, strides, strict=True)]
    return replace(x, shape=(groups, m, n), strides=(steps[0], 0, steps[1]))
