"""Dispatch: which kernel computes a product, and how it sees the arrays. Worked out once for all calls alike.

    GEMV            one column or one row, but for large matrices of 16-bit types
    small           16-bit types, so few multiplications that the way to the first one is most of the time
    short           16-bit types, of so short a K that the result takes longest to write
    gathered        16-bit types that TMA can't read, beside few rows or columns: copies would take longer
    tensor cores    f16, bf16, f32 (as tf32), 8-bit types; operands that TMA or wgmma can't read are copied first
    simple          f64, and small products that would need a copy
    empty sums      K is 0
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import nvdsl as nv
from nvdsl import sim
from nvdsl.errors import ArgumentError
from nvdsl.kernels.blocks.direct_epilogue import VECTORS
from nvdsl.kernels.blocks.elementwise import Elementwise
from nvdsl.kernels.blocks.linear_combination import LinearCombination
from nvdsl.kernels.blocks.realigned import VECTOR, WORDS
from nvdsl.kernels.gemm import blockscaled, flat, gathered, gemv, realigned, short, simple, small
from nvdsl.kernels.gemm.argument_view import ArgumentView
from nvdsl.kernels.gemm.bound_kernel import BoundKernel
from nvdsl.kernels.gemm.config import Config
from nvdsl.kernels.gemm.dynamic import dynamic, unit
from nvdsl.kernels.gemm.launch import sms
from nvdsl.kernels.gemm.packing import Packing, packing_of, words_of
from nvdsl.kernels.gemm.problem import TMA_ALIGNMENT, GemmProblem, Matrix, check_block_scaled, fits_tma, offsets
from nvdsl.kernels.gemm.tuned import tuned_matmul

AXES = {"a": "mk", "b": "kn", "out": "mn"}
"""The names of the extents, where nothing is turned."""
EXTENTS = "zrc", "yqd"
"""The same of the first operand that is copied, and of the second one."""
SIMPLE_PRODUCTS = 1 << 21
"""Multiplications up to which a product that would need a copy is computed without tensor cores: the simple kernel then
takes a few microseconds, no more than the copy and its memory would."""
STREAMED = 1 << 24
"""Bytes of a matrix of 16-bit types from which on its product with a vector is one of few rows."""
LARGE = 1 << 21
"""Elements of a larger operand that TMA reads from which on it takes longer to read it otherwise than to copy the
smaller one."""
REALIGNED, REALIGNED_K = 3 << 24, 4096
"""Bytes of an operand of 8 or 32 bits off TMA's grid from which on it is read as it lies beside few rows or columns;
and bytes of its rows, at least. Copies take longer there, as memory is what they wait for."""
FEW = 1 << 16
"""Elements of a result up to which threads of the simple kernel share one: half as many as a Hopper GPU runs."""
FLAT_K = 16
"""K beyond which they do. A short K takes a thread about as long as the launch of a kernel."""
FLAT, FLAT_ALIGNED = 1 << 13, 1 << 15
"""Blocks times K up to which a product of 16-bit types with such a K is computed without tensor cores; and where there
is nothing to copy, blocks times the square of K, but in the simulator, which executes each thread's instructions."""
SHARED_PRODUCTS = 1 << 20
"""Multiplications of 16-bit types up to which threads share elements beyond that K; half as many up to a K of 32."""
SLICE_TIME, COPY_TIME, COPY_RATE = 0.2, 3.0, 2.5e6
"""Microseconds in which a block multiplies 128 bytes of K, and of a copy's launch; bytes that it reads and writes in
one. Kernels with swapped operands don't cut K: where few blocks have a long one, a copy takes less."""


def find(problem: GemmProblem, finish: LinearCombination, config: Config | None, target: str | None) -> BoundKernel:
    """The kernel of a problem. Raises ArgumentError where ``config`` can't compute it."""
    epilogue_op = None if finish.does_nothing else Elementwise(finish, _aligned(problem), _turns(problem), clips=True)
    options: dict[str, Any] = {"acc_dtype": problem.acc_dtype, "epilogue_op": epilogue_op}
    if 0 in problem.result:
        return BoundKernel(problem, finish, None, {}, (), 0, {}, {})
    if problem.sizes[2] == 0:
        return bind(problem, finish, simple.empty_sums, options, {"out": problem.out}, AXES, with_batch=True)
    row, column = (extent == 1 for extent in problem.sizes[:2])
    streamed = _is_streamed(problem.transposed if column else problem)
    if config is None and (row or column) and not streamed:
        return _vector(problem, finish, options, sms(target))
    if problem.a.dtype == nv.f64:
        return _simple(problem, finish, options, target)
    rows, cols = problem.out.strides[-2:]
    turned = rows == 1 and (cols != 1 or column and not row)
    given, problem = problem, problem.transposed if turned else problem
    (a, a_axis), (b, b_axis) = factors(problem, config, sms(target))
    packed = [not matrix.fits_tma(1) for matrix in (a, b)]
    aligned, stored = not any(packed), fits_tma(problem.out)
    if config is None and _is_small(problem, aligned, stored, target):
        return _simple(given, finish, options, target)
    pairs = gathered.in_pairs(a) and gathered.in_pairs(b)
    if config is None and small.pays(problem, aligned, stored, pairs, target):
        return _small(given, finish, options, target)
    runs = flat.fits(problem.a, problem.b.transposed)
    if config is None and short.pays(problem, aligned, stored, pairs, runs, target):
        by_run = _flat if runs else _short
        return by_run(problem, finish, options | {"sms": sms(target)}, turned)
    if config is None and any(packed) and (kernel := _realigned(given, finish, options, sms(target))):
        return kernel
    if config is None and any(packed) and (kernel := _gathered(given, finish, options, sms(target))):
        return kernel
    k_major = a_axis == 1, b_axis == 0
    options |= {
        "a_major": "k" if k_major[0] else "mn",
        "b_major": "k" if k_major[1] else "mn",
        "direct_store": direct_store(problem.out),
        "sms": sms(target),
    }
    if config is not None:
        majors = options["a_major"], options["b_major"]
        check_config(config, problem, *(majors if config.swap_ab else majors[::-1]))
        options["config"] = config
    axes = {"a": "mk" if k_major[0] else "km", "b": "nk" if k_major[1] else "kn", "out": "mn"}
    return bind(
        problem, finish, tuned_matmul, options, {"a": a, "b": b, "out": problem.out}, axes,
        packed=[name for name, copied in zip("ab", packed, strict=True) if copied], turned=turned,
    )  # fmt: skip


def find_block_scaled(
    problem: GemmProblem, scale_a: Matrix, scale_b: Matrix, config: Config | None, target: Any
) -> BoundKernel:
    """The kernel of one product of 8-bit floats with a scale for each 128 elements along K. Raises ArgumentError."""
    check_block_scaled(problem, scale_a, scale_b)
    if 0 in problem.sizes:
        return find(problem, LinearCombination(), None, target)
    a, b = problem.a, problem.b.transposed
    options: dict[str, Any] = {"sms": sms(target), "direct_store": not fits_tma(problem.out)}
    m, n, _ = problem.sizes
    options["config"] = replace(config or blockscaled.choose(m, n, options["sms"]), tile_k=128)
    arrays = {"a": a, "b": b, "out": problem.out, "scale_a": scale_a, "scale_b": scale_b}
    packed = [name for name, matrix in (("a", a), ("b", b)) if not matrix.fits_tma(1)]
    axes = {"a": "mk", "b": "nk", "out": "mn", "scale_a": "ms", "scale_b": "st"}
    return bind(problem, LinearCombination(), blockscaled.gemm, options, arrays, axes, packed=packed)


def check_config(config: Config, problem: GemmProblem, b_major: str = "mn", a_major: str = "k") -> None:
    """Raises ArgumentError for one that can't compute the problem. The majors: as in `Config.problems`."""
    if reasons := _problems(config, problem, b_major, a_major):
        raise ArgumentError(
            f"{config} for a product of {problem.a.dtype.name}: " + "; ".join(reasons),
            fix="choose another configuration",
        )


def _problems(config: Config, problem: GemmProblem, b_major: str, a_major: str) -> list[str]:
    sliced = replace(config, tile_k=128 // problem.a.dtype.bytes)
    return sliced.problems(problem.a.dtype, problem.out_dtype, problem.acc_dtype, b_major, a_major)


def direct_store(out: Matrix) -> bool | str:
    """Whether threads store a result, and how: see `VectorEpilogue`."""
    if fits_tma(out):
        return False
    whole = out.aligned and out.strides[-1] == 1 and len(out.shape) <= 3 and out.dtype.bits in (16, 32)
    return VECTORS if whole else True


def _aligned(problem: GemmProblem) -> bool:
    """Whether two neighbours of C can be read together, see `Elementwise`. No other array is read so."""
    return all(matrix.fits_tma(1) for name, matrix in problem.others if name == "c")


def _turns(problem: GemmProblem) -> bool:
    """Whether whatever the epilogue reads repeats along rows or columns, as far as a kernel is told, see `Elementwise`.
    """
    return all(0 in matrix.strides[-2:] for _, matrix in problem.others)


def _is_small(problem: GemmProblem, aligned: bool, stored: bool, target: str | None) -> bool:
    """Whether a kernel without tensor cores takes no longer than the launch of another one. ``aligned``: TMA can read
    the operands; ``stored``: and store the result."""
    m, n, k = problem.sizes
    products = problem.batches * m * n * k
    if problem.a.dtype.bits > 16:
        return not aligned and products <= SIMPLE_PRODUCTS
    suits, simulated = aligned and stored, sim.wanted(target)
    if k > FLAT_K:
        most = SHARED_PRODUCTS // (2 if k <= 2 * FLAT_K else 1)
        return products <= most and not simulated and (not suits or k >= small.DEEP)
    blocks = problem.batches * simple.blocks(m, n)
    if aligned and simulated:
        return False
    return blocks * k * k <= FLAT_ALIGNED if suits else blocks * k <= FLAT


def _simple(
    problem: GemmProblem, finish: LinearCombination, options: dict[str, Any], target: str | None
) -> BoundKernel:
    arrays = {"a": problem.a, "b": problem.b, "out": problem.out}
    if math.prod(problem.result) <= FEW and problem.sizes[2] > FLAT_K:
        options |= {"sms": 1 if sim.wanted(target) else sms(target)}  # it executes one block after the other
        return bind(problem, finish, simple.few, options, arrays, AXES, with_batch=True)
    return bind(problem, finish, simple.matmul, options, arrays, AXES, with_batch=True)


def _small(
    problem: GemmProblem, finish: LinearCombination, options: dict[str, Any], target: str | None
) -> BoundKernel:
    """A product by mma.sync, or its transpose, whichever has fewer tiles."""
    m, n, k = problem.sizes
    turned = small.tiles(n, m) < small.tiles(m, n)
    problem = problem.transposed if turned else problem
    arrays = {"a": problem.a, "b": problem.b.transposed, "out": problem.out}
    aligned = k % small.EACH == 0 and all(arrays[name].fits_tma(1) for name in "ab")
    options |= {"split": small.blocks_of_tile(problem, aligned, target)}
    axes = {"a": "mk", "b": "nk", "out": "mn"}
    return bind(
        problem, finish, small.matmul, options, arrays, axes, vectors="ab" if aligned else "", with_batch=True,
        turned=turned,
    )  # fmt: skip


def _short(
    problem: GemmProblem, finish: LinearCombination, options: dict[str, Any], turned: bool
) -> BoundKernel:
    """A product of a short K, by threads that load and store, whatever strides are."""
    (a, a_axis), (b, b_axis) = nearer(problem.a, (1, 0)), nearer(problem.b, (0, 1))
    pairs = gathered.in_pairs(a) and gathered.in_pairs(b)
    arrays = {"a": a, "b": b, "out": problem.out}
    gathers = dict.fromkeys("ab", gathered.PAIR if pairs else 1) | {"out": _whole(problem.out, False)}
    options = options | {
        "a_major": "k" if a_axis == 1 else "mn", "b_major": "k" if b_axis == 0 else "mn", "pairs": pairs,
    }  # fmt: skip
    axes = {"a": "mk" if a_axis == 1 else "km", "b": "nk" if b_axis == 0 else "kn", "out": "mn"}
    return bind(
        problem, finish, short.matmul, options, arrays, axes, gathers=gathers, with_batch=True, turned=turned,
    )  # fmt: skip


def _flat(problem: GemmProblem, finish: LinearCombination, options: dict[str, Any], turned: bool) -> BoundKernel:
    """The same of operands that are one run of memory each, which is what the kernel sees."""

    def run(x: Matrix) -> Matrix:
        shape = (*x.shape[:-2], 1, math.prod(x.shape[-2:]))
        return replace(x, shape=shape, strides=(*x.strides[:-2], TMA_ALIGNMENT, 1))

    arrays = {"a": run(problem.a), "b": run(problem.b.transposed), "out": problem.out}
    unit = math.gcd(problem.sizes[2], flat.WORD // problem.a.dtype.bytes)
    gathers = dict.fromkeys("ab", TMA_ALIGNMENT // problem.a.dtype.bytes) | {"out": _whole(problem.out, unit > 1)}
    options = options | {"unit": unit}
    axes = {"a": "up", "b": "vq", "out": "mn"}
    return bind(problem, finish, flat.matmul, options, arrays, axes, gathers=gathers, with_batch=True, turned=turned)


def _whole(out: Matrix, pairs: bool) -> int:
    """Elements that a thread stores to a result at a time. ``pairs``: where TMA can't store it, whether to look for
    two."""
    if fits_tma(out):
        return TMA_ALIGNMENT // out.dtype.bytes
    return gathered.PAIR if pairs and gathered.in_pairs(out) else 1


def _gathered(
    problem: GemmProblem, finish: LinearCombination, options: dict[str, Any], sms: int
) -> BoundKernel | None:
    """By threads that load, whatever strides are; None where copies are faster. The larger operand is A."""
    m, n, _ = problem.sizes
    turned = n > m
    problem = problem.transposed if turned else problem
    a, a_axis = readable(problem.a, k_axis=1)
    b, b_axis = readable(problem.b, k_axis=0)
    pairs = gathered.in_pairs(a) and gathered.in_pairs(b)
    chosen = gathered.config(min(m, n), pairs)
    if chosen is None or problem.a.dtype.bits != 16 or a.fits_tma(1) and math.prod(a.shape) >= LARGE:
        return None
    if not pairs and (a_axis, b_axis) != (1, 0):
        return None  # a copy turns it faster
    arrays = {"a": a, "b": b, "out": problem.out}
    gathers = dict.fromkeys(arrays, 1) | (dict.fromkeys("ab", gathered.PAIR) if pairs else {})
    majors = {"a_major": "k" if a_axis == 1 else "mn", "b_major": "k" if b_axis == 0 else "mn"}
    options = options | majors | {"config": chosen, "sms": sms, "pairs": pairs}
    axes = {"a": "mk" if a_axis == 1 else "km", "b": "nk" if b_axis == 0 else "kn", "out": "mn"}
    return bind(problem, finish, gathered.matmul, options, arrays, axes, gathers=gathers, turned=turned)


def _realigned(
    problem: GemmProblem, finish: LinearCombination, options: dict[str, Any], sms: int
) -> BoundKernel | None:
    """By threads that load the larger operand, whose rows start anywhere; None where that is no gain."""
    m, n, k = problem.sizes
    turned = n > m
    problem = problem.transposed if turned else problem
    a, (b, b_axis) = problem.a, readable(problem.b, k_axis=0)
    b_major = "k" if b_axis == 0 else "mn"
    chosen = realigned.config(min(m, n), a.dtype, b_major)
    bytes = a.dtype.bytes
    pays = bytes != 2 and math.prod(a.shape) * bytes >= REALIGNED and k * bytes >= REALIGNED_K
    if chosen is None or not _without_gaps(a) or a.fits_tma(1) or not pays:
        return None
    both = not b.fits_tma(1) and b_axis == 0 and chosen.tile_n <= realigned.NARROW and _without_gaps(b)
    arrays = {"a": a, "a words": words_of(a), "b": b}
    arrays |= ({"b words": words_of(b)} if both else {}) | {"out": problem.out}
    options = options | {"config": chosen, "sms": sms, "both": both, "b_major": b_major}
    axes = {"a": "mk", "a words": "vw", "b": "nk" if b_axis == 0 else "kn", "b words": "uw", "out": "mn"}
    packed = () if both or b.fits_tma(1) else ("b",)
    gathers = dict.fromkeys(arrays, 1) | dict.fromkeys(("a words", "b words"), WORDS)
    if not both:
        del gathers["b"]
    return bind(problem, finish, realigned.matmul, options, arrays, axes, packed=packed, gathers=gathers, turned=turned)


def _without_gaps(matrix: Matrix) -> bool:
    """Whether a matrix is one piece of memory, row by row, and has a whole vector of `realigned` in each."""
    rows, cols = matrix.shape[-2:]
    whole = len(matrix.shape) == 2 and matrix.aligned and matrix.strides == (cols, 1)
    return whole and cols * matrix.dtype.bytes >= VECTOR


def _is_streamed(problem: GemmProblem) -> bool:
    """Whether TMA brings a large matrix beside one row of A faster than threads read it."""
    _, n, k = problem.sizes
    a, b, out = problem.a, problem.b, problem.out
    large = problem.batches == 1 < n and a.dtype.bits == 16 and n * k * b.dtype.bytes >= STREAMED
    return large and a.fits_tma(1) and fits_tma(out) and (b.fits_tma(0) or b.fits_tma(1))


def _vector(problem: GemmProblem, finish: LinearCombination, options: dict[str, Any], sms: int) -> BoundKernel:
    """A product of one column; of one row, that is its transpose."""
    turned = problem.sizes[1] != 1
    problem = problem.transposed if turned else problem
    m, _, _ = problem.sizes
    a, near = nearest(problem.a, (1, 0))
    b = problem.b.transposed
    arrays = {"a": a, "b": b, "out": problem.out}
    whole = near == 1 or m % (TMA_ALIGNMENT // a.dtype.bytes) == 0
    vectors = [name for name, x, fits in (("a", a, whole), ("b", b, True)) if fits and x.fits_tma(1)]
    options |= {"sms": sms}
    axes = {"a": "mk" if near == 1 else "km", "b": "nk", "out": "mn"}
    function = gemv.rows if near == 1 else gemv.columns
    return bind(
        problem, finish, function, options, arrays, axes, vectors=vectors, with_batch=True, turned=turned,
    )  # fmt: skip


Factor = tuple[Matrix, int]
"""A factor with the axis last along which it is read, or its copy is; and which axis that is."""


def factors(problem: GemmProblem, config: Config | None, sms: int) -> tuple[Factor, Factor]:
    """A and B as a kernel reads them, see `readable`. One of two f32 factors may have another axis than K contiguous:
    the kernel takes it from registers, as its A. B is that where the transpose of the result is computed. ``config``:
    as the caller wants it, None where any is right."""
    a, b = readable(problem.a, k_axis=1), readable(problem.b, k_axis=0)
    m, n, k = problem.sizes
    tiles = problem.batches * nv.cdiv(m, 64) * nv.cdiv(n, 64)
    copied = COPY_TIME + 2 * n * k * problem.b.dtype.bytes / COPY_RATE
    few = config is None and tiles < sms and SLICE_TIME * k * problem.b.dtype.bytes / 128 > copied
    turns = fits_tma(problem.out) and _turns(problem) and not few

    def suits(swap: bool) -> bool:
        return config is None or config.swap_ab == swap and not _problems(config, problem, "k", "mn")

    if problem.a.dtype != nv.f32:
        return a, b
    found = [
        (matrix.shape[-1] * matrix.shape[-2], which)
        for which, matrix, copied in ((0, problem.a, a[0]), (1, problem.b.transposed, b[0]))
        if not copied.fits_tma(1) and matrix.fits_tma(0) and (which == 0 or turns) and suits(which == 1)
    ]
    if not found:
        return a, b
    return ((problem.a.transposed, 0), b) if max(found)[1] == 0 else (a, (problem.b, 1))


def readable(matrix: Matrix, k_axis: int) -> tuple[Matrix, int]:
    """A factor with the axis last along which it is read, or along which its copy is; and which axis that is.

    That is K where wgmma takes nothing else (all but 16-bit types), else the one for which no copy is needed.
    """
    return nearest(matrix, [k_axis, 1 - k_axis] if matrix.dtype.bits == 16 else [k_axis])


def nearest(matrix: Matrix, axes: Sequence[int]) -> tuple[Matrix, int]:
    """The matrix with that one of the axes last along which it is read best; and which one that is."""
    return nearer(matrix, [axis for axis in axes if matrix.fits_tma(axis)] or axes)


def nearer(matrix: Matrix, axes: Sequence[int]) -> tuple[Matrix, int]:
    """The matrix with that one of the axes last along which neighbours are nearest, the first of equals; and which."""
    near = min(axes, key=lambda axis: abs(matrix.strides[axis - 2]))
    return (matrix if near == 1 else matrix.transposed), near


def bind(
    problem: GemmProblem,
    finish: LinearCombination,
    function: Any,
    options: dict[str, Any],
    arrays: dict[str, Matrix],
    axes: Mapping[str, str],
    *,
    packed: Sequence[str] = (),
    gathers: Mapping[str, int] | None = None,
    vectors: Sequence[str] | None = None,
    with_batch: bool = False,
    turned: bool = False,
    unbatched: Sequence[str] = (),
) -> BoundKernel:
    """A kernel that sees the innermost batch axis, rows, columns: the others are launches.

    ``axes``: the names of each array's extents, a letter each. Where there is no batch, ``with_batch`` keeps an axis of
    one; what the epilogue reads has one always. A factor that serves all batches has none, or one of one. ``packed``:
    the factors that are copied first; ``gathers``: of those that threads read or write, the elements of which rows
    start at multiples, 1 where strides are any; ``vectors``: what alone is read 16 bytes at a time. ``unbatched``: what
    an epilogue reads that has no axis of batches, though others have. ``turned``: ``a`` is the product's B, and ``b``
    its A.
    """
    exchanged = {"a": "b", "b": "a"} if turned else {}
    others = {name: matrix for name, matrix in problem.others if name not in arrays}
    read = {name: others[name] for name in ("scale_a", "scale_b", "c", "bias") if name in others}
    named = [*arrays.items(), *read.items()]
    starts = list(offsets([matrix for _, matrix in named]))
    sizes = {"z": 1}
    for name, matrix in arrays.items():
        sizes |= dict(zip(axes[name], matrix.shape[-2:], strict=True))
    if len(arrays["out"].shape) > 2:
        sizes["z"] = arrays["out"].shape[-3]
    multiples = {"n": unit(sizes["n"])} if "c" in read else {}
    slots: list[tuple[str, ArgumentView]] = []
    packs: dict[str, Packing] = {}
    for i, (name, matrix) in enumerate(named):
        shape, strides = (1, *matrix.shape)[-3:], (0, *matrix.strides)[-3:]
        if name in "ab" and strides[0] == 0:
            shape = (1, *shape[1:])
        if not with_batch and (name in arrays or name in unbatched) and shape[0] == 1:
            shape, strides = shape[1:], strides[1:]
        seen = replace(matrix, shape=shape, strides=strides)
        letters = ("z" + axes.get(name, "mn"))[-len(shape) :]
        first = [start[i] for start in starts]
        array, *rest = name.split()
        given = " ".join([exchanged.get(array, array), *rest])
        if name in packed:
            packs[given], view = packing_of(seen, first, letters, EXTENTS[len(packs)])
        else:
            whole = name in "ab" or name in ("out", "c") and fits_tma(seen)
            whole = whole and not with_batch and seen.aligned
            near = not with_batch or seen.dtype == nv.f64  # the simple kernel is for small products but for f64
            if vectors is not None:
                whole = near = name in vectors
            grid = TMA_ALIGNMENT // seen.dtype.bytes if whole else 1
            if gathers is not None and name in gathers:
                grid = gathers[name]
                near = grid > 1
            spec = dynamic(seen, letters, grid=grid, multiples=multiples, near=near)
            view = replace(ArgumentView.of(seen, first, spec), retyped=bool(rest))
        slots.append((given, view))
    return BoundKernel(problem, finish, function, options, tuple(slots), len(starts), sizes, packs)
