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
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import nvdsl as nv
from nvdsl import sim
from nvdsl.kernels.blocks.elementwise import Elementwise
from nvdsl.kernels.blocks.linear_combination import LinearCombination
from nvdsl.kernels.gemm import flat, residues, roads, short, simple, small, small_words
from nvdsl.kernels.gemm.binding import bind
from nvdsl.kernels.gemm.bound_kernel import BoundKernel
from nvdsl.kernels.gemm.config import Config
from nvdsl.kernels.gemm.estimates import Seen, microseconds
from nvdsl.kernels.gemm.factors import readable, repeats
from nvdsl.kernels.gemm.launch import sms
from nvdsl.kernels.gemm.problem import TMA_ALIGNMENT, GemmProblem, Matrix, check_block_scaled, fits_tma

SIMPLE_PRODUCTS = 1 << 21
"""Multiplications up to which a product that would need a copy is computed without tensor cores: the simple kernel then
takes a few microseconds, no more than the copy and its memory would."""
STREAMED = 1 << 24
"""Bytes of a matrix of 16-bit types from which on its product with a vector is one of few rows."""
LARGE = 1 << 21
"""Elements of a larger operand that TMA reads from which on it takes longer to read it otherwise than to copy the
smaller one."""
RESIDUES, RESIDUES_WIDE, RESIDUES_K = 1 << 25, 3 << 24, 2048
"""Bytes of an operand off TMA's grid from which on it is read by TMA as it lies, beside few rows or columns, and beside
more than fit into a narrow tile; and bytes of its rows, at least."""
RESIDUES_OF_16 = 3 << 23
"""The first two of 16-bit types, of which it is compared with other roads."""
RESIDUES_NARROW, RESIDUES_PAIRS = 640, 1536
"""The latter of A beside columns for a narrow tile, and where threads would load it by pairs of elements."""
REALIGNED, REALIGNED_K = 3 << 24, 4096
"""The same for operands of 8 or 32 bits of which TMA can't: threads load them, where copies take longer."""
WITHOUT_TENSOR_MAPS = 4.8
"""Microseconds that tensor cores take at least, with tensor maps: a road that takes less isn't compared with them."""
BY_ELEMENTS, BY_STRIPS, BY_WARPS = 1 << 24, 512, 1 << 14
"""Up to which roads are compared at all: multiplications by single elements; K of strips; slices of tiles of warps."""
FLAT, FLAT_ALIGNED = 1 << 13, 1 << 15
"""Blocks times K up to which a product of 8 bits with a K of up to `simple.FLAT_K` takes no tensor cores; and
where there is nothing to copy, blocks times the square of K."""
SHARED_PRODUCTS, DEEP = 1 << 20, 256
"""Multiplications of 8 bits up to which threads share elements beyond that K; half as many up to a K of 32. And from
which K on products are computed so, or by warps, if TMA can read the operands and store the result."""
TILES, TILES_SHORT, NARROW, LONG = (4, 12), 3, 128, 384
"""Slices of tiles of warps that an SM may have, of bytes that are read one by one, and of those that TMA can read; and
of either up to such a K; and slices from which on parts of K are to have SMs of their own."""
SHORT, SECTOR, WRITTEN = (32, 16), 32, 16 << 20
"""K of bytes up to which such a product takes as long as its result takes to write, and where TMA reads the operands
and stores whole sectors, of so many bytes; and bytes of a result from which on tensor cores write it faster."""
SIMULATED_PRODUCTS, SIMULATED_K, SIMULATED_WORK, SIMULATED_PART = 1 << 13, 16, 132, short.SMALL_PART
"""In the simulator, which executes each thread's instructions, and multiplies the tiles of wgmma at once: blocks times
K of a short one up to which operands off TMA's grid are multiplied by elements; that short K, with which others are
multiplied by warps; slices of tiles up to which products of another K are; and the size of warps' parts of tiles."""


def find(problem: GemmProblem, finish: LinearCombination, config: Config | None, target: str | None) -> BoundKernel:
    """The kernel of a problem. Raises ArgumentError where ``config`` can't compute it."""
    if 0 in problem.result:
        return BoundKernel(problem, finish, None, {}, (), 0, {}, {})
    options = shared(problem, finish)
    for road in wanted(problem, config, target):
        if found := road(problem, finish, options, target):
            return found
    return roads.tensor_cores(problem, finish, options, target, config)


def shared(problem: GemmProblem, finish: LinearCombination) -> dict[str, Any]:
    """The options that all kernels of a product share."""
    epilogue_op = None if finish.does_nothing else Elementwise(finish, _aligned(problem), repeats(problem), clips=True)
    return {"acc_dtype": problem.acc_dtype, "epilogue_op": epilogue_op}


def wanted(problem: GemmProblem, config: Config | None, target: str | None) -> Iterator[roads.Road]:
    """The roads that are faster than tensor cores with TMA, or the only ones, the best first."""
    m, n, k = problem.sizes
    if k == 0:
        yield roads.empty_sums
    if config is None and 1 in (m, n) and not _is_streamed(problem if m == 1 else problem.transposed):
        yield roads.vector
    if problem.a.dtype == nv.f64:
        yield roads.simple
    if config is not None:
        return
    few, rows, of_16 = min(m, n) <= residues.NARROW, RESIDUES_K, problem.a.dtype.bits == 16 and not sim.wanted(target)
    if few and n <= m:
        rows = RESIDUES_PAIRS if problem.a.dtype.bits == 16 and k % 2 == 0 else RESIDUES_NARROW
    large = _is_large_off_grid(problem, RESIDUES_OF_16 if of_16 else RESIDUES if few else RESIDUES_WIDE, rows)
    if large and not of_16:
        yield roads.by_residues
    words = _is_large_off_grid(problem, REALIGNED, REALIGNED_K)
    given, (problem, _) = problem, roads.upright(problem)
    seen, bits = Seen.of(problem, sms(target)), problem.a.dtype.bits
    larger = readable(given.a if m >= n else given.b.transposed, k_axis=1)[0]
    size = math.prod(larger.shape)
    threads = not seen.aligned and not (larger.fits_tma(1) and size >= LARGE)
    if bits > 16 and not seen.aligned and problem.batches * m * n * k <= SIMPLE_PRODUCTS:
        yield roads.simple
    elif bits <= 16 and sim.wanted(target):
        yield from _simulated(problem, seen)
    elif bits == 16:
        yield from (roads.ROADS[name] for name in fastest(problem, seen, threads, large))
    elif bits == 8:
        yield from _of_bytes(problem, seen)
    if bits != 16 and words:
        yield roads.by_words
    if threads:
        yield roads.by_threads


def fastest(problem: GemmProblem, seen: Seen, threads: bool, large: bool = False) -> list[str]:
    """The roads of a product of 16-bit types, the fastest first. ``threads``: whether threads that load are one;
    ``large``: whether an operand off TMA's grid is."""
    m, n, k = problem.sizes
    products, of_f32 = problem.batches * m * n * k, problem.acc_dtype == nv.f32
    work = problem.batches * small.tiles(m, n) * nv.cdiv(k, small.SLICE)
    # Each of these is a kernel that takes time to compile, so runs of memory have no other large tiles. Of columns
    # beside a row all the time goes into stores, and each layout would have tensor cores' own.
    outer, runs = k == 1 and of_f32, flat.fits(problem.a, problem.b.transposed)
    strips = of_f32 and k <= BY_STRIPS
    possible = {
        "simple": products <= BY_ELEMENTS,
        "by_warps": of_f32 and work <= BY_WARPS,
        "by_vectors": small_words.takes(problem),
        "by_threads": threads,
        "by_residues": large,
        "by_strips 16": strips,
        "by_strips 32": strips and not runs,
        "by_runs": of_f32 and runs and flat.holds(k, problem.a.dtype),
    }
    took = {name: microseconds(name, seen) for name, may in possible.items() if may}
    if not took or not outer and min(took.values()) > WITHOUT_TENSOR_MAPS:
        took["tensor_cores"] = microseconds("tensor_cores", seen)
    return sorted(took, key=took.__getitem__)


def _of_bytes(problem: GemmProblem, seen: Seen) -> Iterator[roads.Road]:
    """The roads of products of 8 bits that are faster than tensor cores with TMA."""
    m, n, k = problem.sizes
    suits, blocks = seen.aligned and seen.stored, problem.batches * simple.blocks(m, n)
    if k <= simple.FLAT_K:
        few = blocks * k * k <= FLAT_ALIGNED if suits else blocks * k <= FLAT
    else:
        most = SHARED_PRODUCTS // (2 if k <= 2 * simple.FLAT_K else 1)
        few = problem.batches * m * n * k <= most and (not suits or k >= DEEP)
    if few:
        yield roads.simple
    if not small.takes(problem):
        return
    slices, tiles = _work(problem)
    most = TILES[seen.aligned] if k > NARROW else TILES_SHORT
    if 1 < slices <= LONG and (not suits or k >= DEEP) and tiles * slices <= most * seen.sms:
        yield roads.by_warps
    written = problem.batches * m * n * problem.out.dtype.bytes
    whole = suits and n * problem.out.dtype.bytes % SECTOR == 0
    if written < WRITTEN and k <= SHORT[whole] and flat.fits(problem.a, problem.b.transposed):
        yield roads.by_runs


def _work(problem: GemmProblem) -> tuple[int, int]:
    """Slices of K and tiles of warps."""
    m, n, k = problem.sizes
    return nv.cdiv(k, small.SLICE), problem.batches * min(small.tiles(m, n), small.tiles(n, m))


def _simulated(problem: GemmProblem, seen: Seen) -> Iterator[roads.Road]:
    """The roads of products of 8 and 16 bits that the simulator takes less time for."""
    m, n, k = problem.sizes
    if k <= SIMULATED_K and not seen.aligned and problem.batches * simple.blocks(m, n) * k <= SIMULATED_PRODUCTS:
        yield roads.simple
    if not small.takes(problem):
        return
    slices, tiles = _work(problem)
    if slices > 1 and not (seen.aligned and seen.stored and k < DEEP) and tiles * slices <= SIMULATED_WORK:
        yield roads.by_warps
    runs, of_16 = flat.fits(problem.a, problem.b.transposed), problem.a.dtype.bits == 16
    if k <= SIMULATED_K and runs and flat.holds(k, problem.a.dtype):
        yield roads.by_runs
    elif k <= SIMULATED_K and of_16:
        yield roads.ROADS[f"by_strips {SIMULATED_PART}"]


def find_block_scaled(
    problem: GemmProblem, finish: LinearCombination, scale_a: Matrix, scale_b: Matrix, config: Config | None,
    target: Any,
) -> BoundKernel:
    """The kernel of one product of 8-bit floats with a scale for each 128 elements along K. Raises ArgumentError."""
    from nvdsl.kernels.gemm import blockscaled  # with the kernels of groups

    check_block_scaled(problem, scale_a, scale_b)
    if 0 in problem.sizes:
        return find(problem, finish, None, target)
    a, b = problem.a, problem.b.transposed
    op = None if finish.does_nothing else Elementwise(finish, _aligned(problem))
    options: dict[str, Any] = {"sms": sms(target), "direct_store": not fits_tma(problem.out), "epilogue_op": op}
    m, n, _ = problem.sizes
    options["config"] = replace(config or blockscaled.choose(m, n, options["sms"]), tile_k=128)
    arrays = {"a": a, "b": b, "scale_a": scale_a, "scale_b": scale_b, "out": problem.out}
    packed = [name for name, matrix in (("a", a), ("b", b)) if not matrix.fits_tma(1)]
    axes = {"a": "mk", "b": "nk", "out": "mn", "scale_a": "ms", "scale_b": "st"}
    return bind(problem, finish, blockscaled.gemm, options, arrays, axes, packed=packed)


def _aligned(problem: GemmProblem) -> bool:
    """Whether two neighbours of C can be read together, see `Elementwise`. No other array is read so."""
    return all(matrix.fits_tma(1) for name, matrix in problem.others if name == "c")


def _is_large_off_grid(problem: GemmProblem, bytes: int, pitch: int) -> bool:
    """Whether the larger operand of tensor cores has so many bytes, so many along K, and rows off TMA's grid."""
    m, n, k = problem.sizes
    larger = problem.a if m >= n else problem.b.transposed
    rows = k * larger.dtype.bytes
    large = rows >= pitch and max(m, n) * rows >= bytes and larger.dtype != nv.f64
    return large and rows % TMA_ALIGNMENT > 0 and larger.strides[-1] == 1


def _is_streamed(problem: GemmProblem) -> bool:
    """Whether TMA brings a large matrix beside one row of A faster than threads read it."""
    _, n, k = problem.sizes
    a, b, out = problem.a, problem.b, problem.out
    large = problem.batches == 1 < n and a.dtype.bits == 16 and n * k * b.dtype.bytes >= STREAMED
    return large and a.fits_tma(1) and fits_tma(out) and (b.fits_tma(0) or b.fits_tma(1))
