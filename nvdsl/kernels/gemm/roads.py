"""Each kernel's road to a product: how it sees the arrays, whatever they are. `dispatch` says which one is taken.

A road is given the product, its epilogue, the options that all kernels share, and the target. It is None where its
kernel can't compute the product.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from nvdsl import sim
from nvdsl.kernels.blocks.either_epilogue import EITHER
from nvdsl.kernels.blocks.linear_combination import LinearCombination
from nvdsl.kernels.blocks.realigned import VECTOR, WORDS
from nvdsl.kernels.gemm import flat, gathered, gemv, gemv_words, realigned, residues, short, small, small_words
from nvdsl.kernels.gemm import simple as by_elements
from nvdsl.kernels.gemm.binding import AXES, bind
from nvdsl.kernels.gemm.bound_kernel import BoundKernel
from nvdsl.kernels.gemm.choose import mixed
from nvdsl.kernels.gemm.config import Config
from nvdsl.kernels.gemm.factors import check_config, direct_store, factors, nearer, nearest, readable
from nvdsl.kernels.gemm.launch import sms
from nvdsl.kernels.gemm.packing import words_of
from nvdsl.kernels.gemm.problem import TMA_ALIGNMENT, GemmProblem, Matrix, fits_tma
from nvdsl.kernels.gemm.tuned import tuned_matmul

Options = dict[str, Any]
COPIED = 4
"""Elements of a large operand for each one of the copies that `residues` makes of the other one, at least."""
Road = Callable[..., BoundKernel | None]


def upright(problem: GemmProblem) -> tuple[GemmProblem, bool]:
    """The product, or its transpose where the result's columns are contiguous and its rows are not; and whether it is
    the transpose."""
    row, column = (extent == 1 for extent in problem.sizes[:2])
    rows, cols = problem.out.strides[-2:]
    turned = rows == 1 and (cols != 1 or column and not row)
    return problem.transposed if turned else problem, turned


def empty_sums(problem: GemmProblem, finish: LinearCombination, options: Options, target: str | None) -> BoundKernel:
    """K is 0."""
    return bind(problem, finish, by_elements.empty_sums, options, {"out": problem.out}, AXES, with_batch=True)


def simple(problem: GemmProblem, finish: LinearCombination, options: Options, target: str | None) -> BoundKernel:
    """A thread for each element, or several of them."""
    arrays = {"a": problem.a, "b": problem.b, "out": problem.out}
    options = options | {"sms": 1 if sim.wanted(target) else sms(target)}  # it executes one block after the other
    return bind(problem, finish, by_elements.matmul, options, arrays, AXES, with_batch=True)


def vector(problem: GemmProblem, finish: LinearCombination, options: Options, target: str | None) -> BoundKernel:
    """A product of one column; of one row, that is its transpose."""
    turned = problem.sizes[1] != 1
    problem = problem.transposed if turned else problem
    m, _, _ = problem.sizes
    a, near = nearest(problem.a, (1, 0))
    b = problem.b.transposed
    if near == 1 and _in_words(a, b):
        arrays = {"a": a, "a words": _run(words_of(a)), "b": b, "b words": _run(words_of(b)), "out": problem.out}
        axes = {"a": "mk", "a words": "vw", "b": "nk", "b words": "ux", "out": "mn"}
        vectors = ["a words", "b words"]
        return bind(
            problem, finish, gemv_words.rows, options | {"sms": sms(target)}, arrays, axes, vectors=vectors,
            with_batch=True, turned=turned,
        )  # fmt: skip
    arrays = {"a": a, "b": b, "out": problem.out}
    whole = near == 1 or m % (TMA_ALIGNMENT // a.dtype.bytes) == 0
    vectors = [name for name, x, fits in (("a", a, whole), ("b", b, True)) if fits and x.fits_tma(1)]
    axes = {"a": "mk" if near == 1 else "km", "b": "nk", "out": "mn"}
    function = gemv.rows if near == 1 else gemv.columns
    return bind(
        problem, finish, function, options | {"sms": sms(target)}, arrays, axes, vectors=vectors, with_batch=True,
        turned=turned,
    )  # fmt: skip


def _in_words(a: Matrix, b: Matrix) -> bool:
    """Whether a matrix off the grid of 16 bytes is read by whole vectors, beside a vector."""
    small = math.prod(a.shape) * a.dtype.bytes < gemv_words.MOST
    return small and not a.fits_tma(1) and _without_gaps(a) and _without_gaps(b)


def _run(words: Matrix) -> Matrix:
    """One row of them all."""
    count = math.prod(words.shape)
    return replace(words, shape=(1, count), strides=(WORDS, 1))


def by_warps(problem: GemmProblem, finish: LinearCombination, options: Options, target: str | None) -> BoundKernel:
    """A small product by mma.sync, or its transpose, whichever has fewer tiles."""
    m, n, k = problem.sizes
    turned = small.tiles(n, m) < small.tiles(m, n)
    problem = problem.transposed if turned else problem
    arrays = {"a": problem.a, "b": problem.b.transposed, "out": problem.out}
    aligned = k % small.EACH == 0 and all(arrays[name].fits_tma(1) for name in "ab")
    options = options | {"split": small.blocks_of_tile(problem, aligned, target), "sms": sms(target)}
    axes, gathers = {"a": "mk", "b": "nk", "out": "mn"}, dict.fromkeys("ab", int(all(_near(arrays[x]) for x in "ab")))
    return bind(
        problem, finish, small.matmul, options, arrays, axes, gathers=gathers, with_batch=True, turned=turned,
    )  # fmt: skip


def by_vectors(
    problem: GemmProblem, finish: LinearCombination, options: Options, target: str | None
) -> BoundKernel | None:
    """The same of rows off the grid of 16 bytes. The larger operand is A, of which more is read at a time."""
    problem, turned = larger_first(problem)
    a, b = problem.a, problem.b.transposed
    if not small_words.takes(problem):
        return None
    arrays = {"a": a, "a words": _run(words_of(a)), "b": b, "b words": _run(words_of(b)), "out": problem.out}
    axes = {"a": "mk", "a words": "vw", "b": "nk", "b words": "ux", "out": "mn"}
    options = options | {"split": small_words.split(*problem.sizes, sms(target)), "sms": sms(target)}
    return bind(
        problem, finish, small_words.matmul, options, arrays, axes, vectors=["a words", "b words"], with_batch=True,
        turned=turned,
    )  # fmt: skip


def _near(x: Matrix) -> bool:
    """Whether a kernel may ask where an array's rows start, to access several elements at a time."""
    return x.aligned and x.strides[-1] == 1


def by_strips(
    problem: GemmProblem, finish: LinearCombination, options: Options, target: str | None, *, part: int
) -> BoundKernel:
    """A product of a short K, by threads that load and store, whatever strides are. ``part``: see `short.matmul`."""
    problem, turned = upright(problem)
    (a, a_axis), (b, b_axis) = nearer(problem.a, (1, 0)), nearer(problem.b, (0, 1))
    arrays = {"a": a, "b": b, "out": problem.out}
    gathers = {name: int(_near(x)) for name, x in arrays.items()}
    majors = {"a_major": "k" if a_axis == 1 else "mn", "b_major": "k" if b_axis == 0 else "mn"}
    options = options | majors | {"part": part, "sms": sms(target)}
    axes = {"a": "mk" if a_axis == 1 else "km", "b": "nk" if b_axis == 0 else "kn", "out": "mn"}
    return bind(
        problem, finish, short.matmul, options, arrays, axes, gathers=gathers, with_batch=True, turned=turned,
    )  # fmt: skip


def by_runs(
    problem: GemmProblem, finish: LinearCombination, options: Options, target: str | None
) -> BoundKernel | None:
    """The same of operands that are one run of memory each, which is what the kernel sees."""
    problem, turned = upright(problem)
    if not (flat.fits(problem.a, problem.b.transposed) and flat.holds(problem.sizes[2], problem.a.dtype)):
        return None
    arrays = {"a": _one_row(problem.a), "b": _one_row(problem.b.transposed), "out": problem.out}
    gathers = dict.fromkeys("ab", TMA_ALIGNMENT // problem.a.dtype.bytes) | {"out": int(_near(problem.out))}
    options = options | {"sms": sms(target)}
    axes = {"a": "up", "b": "vq", "out": "mn"}
    return bind(problem, finish, flat.matmul, options, arrays, axes, gathers=gathers, with_batch=True, turned=turned)


def _one_row(x: Matrix) -> Matrix:
    """An operand without gaps as one row."""
    shape = (*x.shape[:-2], 1, math.prod(x.shape[-2:]))
    return replace(x, shape=shape, strides=(*x.strides[:-2], TMA_ALIGNMENT, 1))


def larger_first(problem: GemmProblem) -> tuple[GemmProblem, bool]:
    """The product, or its transpose where B has more columns than A has rows; and whether it is the transpose."""
    m, n, _ = problem.sizes
    return problem.transposed if n > m else problem, n > m


def by_threads(
    problem: GemmProblem, finish: LinearCombination, options: Options, target: str | None
) -> BoundKernel | None:
    """By threads that load, whatever strides are. The larger operand is A."""
    problem, turned = larger_first(problem)
    a, a_axis = readable(problem.a, k_axis=1)
    b, b_axis = readable(problem.b, k_axis=0)
    pairs = gathered.in_pairs(a) and gathered.in_pairs(b)
    chosen = gathered.config(problem.sizes[1], pairs)
    if chosen is None or problem.a.dtype.bits != 16:
        return None
    if not pairs and (a_axis, b_axis) != (1, 0):
        return None  # a copy turns it faster
    arrays = {"a": a, "b": b, "out": problem.out}
    gathers = dict.fromkeys(arrays, 0) | (dict.fromkeys("ab", gathered.PAIR) if pairs else {})
    majors = {"a_major": "k" if a_axis == 1 else "mn", "b_major": "k" if b_axis == 0 else "mn"}
    options = options | majors | {"config": chosen, "sms": sms(target), "pairs": pairs}
    axes = {"a": "mk" if a_axis == 1 else "km", "b": "nk" if b_axis == 0 else "kn", "out": "mn"}
    return bind(problem, finish, gathered.matmul, options, arrays, axes, gathers=gathers, turned=turned)


def by_words(
    problem: GemmProblem, finish: LinearCombination, options: Options, target: str | None
) -> BoundKernel | None:
    """By threads that load the larger operand, whose rows start anywhere."""
    problem, turned = larger_first(problem)
    a, (b, b_axis) = problem.a, readable(problem.b, k_axis=0)
    b_major = "k" if b_axis == 0 else "mn"
    chosen = realigned.config(problem.sizes[1], a.dtype, b_major)
    least = VECTOR // a.dtype.bytes  # of `realigned`, in each row
    if chosen is None or not _without_gaps(a) or a.shape[-1] < least or a.fits_tma(1):
        return None
    both = not b.fits_tma(1) and b_axis == 0 and chosen.tile_n <= realigned.NARROW and _without_gaps(b)
    both = both and b.shape[-1] >= least
    arrays = {"a": a, "a words": words_of(a), "b": b}
    arrays |= ({"b words": words_of(b)} if both else {}) | {"out": problem.out}
    options = options | {"config": chosen, "sms": sms(target), "both": both, "b_major": b_major}
    axes = {"a": "mk", "a words": "vw", "b": "nk" if b_axis == 0 else "kn", "b words": "uw", "out": "mn"}
    packed = () if both or b.fits_tma(1) else ("b",)
    gathers = dict.fromkeys(arrays, 0) | dict.fromkeys(("a words", "b words"), WORDS)
    if not both:
        del gathers["b"]
    return bind(problem, finish, realigned.matmul, options, arrays, axes, packed=packed, gathers=gathers, turned=turned)


def by_residues(
    problem: GemmProblem, finish: LinearCombination, options: Options, target: str | None
) -> BoundKernel | None:
    """By TMA, which loads the rows of the larger operand in turns of those that start at one residue of its grid."""
    problem, turned = larger_first(problem)
    a, b, (m, n, k) = problem.a, problem.b.transposed, problem.sizes
    turns = residues.period(k, a.dtype.bytes)
    chosen = residues.config(m, n, a.dtype, turns, sms(target))
    fits = _without_gaps(a) and len(b.shape) == 2 and m >= turns and m * k < flat.LARGEST
    if chosen is None or not fits or turns == 1 or problem.others:
        return None
    if turns * n * COPIED > m:
        return None
    arrays = {"a": _one_row(a), "b": b, "out": problem.out}
    gathers = {"a": TMA_ALIGNMENT // a.dtype.bytes, "b": 0, "out": 0}
    options = options | {"config": chosen, "sms": sms(target)}
    axes = {"a": "up", "b": "nk", "out": "mn"}
    return bind(problem, finish, residues.matmul, options, arrays, axes, gathers=gathers, turned=turned)


def _without_gaps(matrix: Matrix) -> bool:
    """Whether a matrix is one piece of memory, row by row, from a multiple of 16 bytes on."""
    rows, cols = matrix.shape[-2:]
    whole = len(matrix.shape) == 2 and matrix.aligned and (rows == 1 or matrix.strides[0] == cols)
    return whole and matrix.strides[1] == 1


def tensor_cores(
    problem: GemmProblem, finish: LinearCombination, options: Options, target: str | None, config: Config | None = None
) -> BoundKernel:
    """By wgmma; what TMA or wgmma can't read is copied first. Raises ArgumentError where ``config`` can't compute it.
    """
    problem, turned = upright(problem)
    (a, a_axis), (b, b_axis) = factors(problem, config)
    k_major = a_axis == 1, b_axis == 0
    options = options | {
        "a_major": "k" if k_major[0] else "mn",
        "b_major": "k" if k_major[1] else "mn",
        "direct_store": direct_store(problem.out, config is None),
        "sms": sms(target),
    }
    if config is not None:
        majors = options["a_major"], options["b_major"]
        check_config(config, problem, *(majors if config.swap_ab else majors[::-1]))
        options["config"] = config
    axes = {"a": "mk" if k_major[0] else "km", "b": "nk" if k_major[1] else "kn", "out": "mn"}
    packed = [name for name, matrix in (("a", a), ("b", b)) if not matrix.fits_tma(1)]
    arrays = {"a": a, "b": b, "out": problem.out}
    either = None
    if options["direct_store"] == EITHER:
        either = mixed(a.dtype, problem.out_dtype) or not fits_tma(problem.out)
    return bind(problem, finish, tuned_matmul, options, arrays, axes, packed=packed, turned=turned, either=either)


ROADS: Mapping[str, Road] = {
    "simple": simple,
    "by_warps": by_warps,
    "by_vectors": by_vectors,
    **{f"by_strips {part}": functools.partial(by_strips, part=part) for part in (short.SMALL_PART, short.PART)},
    "by_runs": by_runs,
    "by_threads": by_threads,
    "by_residues": by_residues,
    "tensor_cores": tensor_cores,
}
"""Those of products of 16-bit types, by the names that `estimates` has for them."""
