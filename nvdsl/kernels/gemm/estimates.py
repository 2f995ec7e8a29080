"""How long each road to a product of 16-bit types takes: what `dispatch` compares where several kernels can compute it.

Microseconds are a sum of a few terms. How much each counts was fitted to single calls of random products on an H200
(`benchmarks/fit_roads.py`, from what `benchmarks/bench_roads.py` timed).
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import nvdsl as nv
from nvdsl.kernels.gemm import flat, gathered, gemv, residues, short, simple, small, small_words
from nvdsl.kernels.gemm.choose import COMMON, allowed, key
from nvdsl.kernels.gemm.factors import factors
from nvdsl.kernels.gemm.model import Shape, grid, times
from nvdsl.kernels.gemm.problem import TMA_ALIGNMENT, GemmProblem, fits_tma
from nvdsl.kernels.gemm.splitk_parts import parts as parts_of

THOUSAND, MILLION = 1e3, 1e6
CACHED, SECTOR = 24.0, 32
"""Megabytes of copies that are in L2 yet when they are read; and of a result, whose rows start or end within sectors of
so many bytes, that are there yet when the other part of a sector is written."""


@dataclass(frozen=True)
class Seen:
    """A product whose result has contiguous rows, on so many ``sms``. ``aligned``: TMA can read its operands;
    ``along_k``: and K is contiguous in them; ``pairs``: threads can copy them in pairs; ``stored``: TMA can store the
    result; ``whole``: as whole sectors; ``copied``: megabytes that are copied for the tensor cores; ``clocks``: of
    these, in thousands, once they begin."""

    m: int
    n: int
    k: int
    batches: int
    sms: int
    aligned: bool
    along_k: bool
    pairs: bool
    stored: bool
    whole: bool
    copied: float
    clocks: Callable[[], float]

    @staticmethod
    def of(problem: GemmProblem, sms: int) -> Seen:
        m, n, k = problem.sizes
        (a, a_axis), (b, b_axis) = factors(problem, None)
        stored, copied = fits_tma(problem.out), [x for x in (a, b) if not x.fits_tma(1)]
        megabytes = sum(x.shape[-1] * x.shape[-2] * x.dtype.bytes for x in copied) * problem.batches / MILLION
        majors = "k" if a_axis == 1 else "mn", "k" if b_axis == 0 else "mn"

        @functools.cache
        def clocks() -> float:
            grids = [int(grid(-(-x.strides[-2] * x.dtype.bytes // TMA_ALIGNMENT) * TMA_ALIGNMENT)) for x in (a, b)]
            of_all = problem.a.dtype, problem.out_dtype, problem.acc_dtype, problem.batches, *majors
            shape = Shape(m, n, k, *of_all, (grids[0], grids[1]), not stored)
            return float(times(_common(shape), shape, sms).min()) / THOUSAND

        pairs = gathered.in_pairs(a) and gathered.in_pairs(b)
        whole = stored and problem.out.strides[-2] * problem.out.dtype.bytes % SECTOR == 0
        along_k = not copied and majors == ("k", "k")
        return Seen(m, n, k, problem.batches, sms, not copied, along_k, pairs, stored, whole, megabytes, clocks)

    @property
    def written(self) -> float:
        """Megabytes of the result."""
        return 2 * self.batches * self.m * self.n / MILLION


_TILES = frozenset(key[:3] for key in COMMON)


def _common(shape: Shape) -> tuple:
    return _of_kind(allowed(shape, False, _TILES))


@functools.lru_cache(maxsize=64)
def _of_kind(found: tuple) -> tuple:
    return tuple(config for config in found if key(config) in COMMON)


Terms = tuple[float, ...]


def _simple(x: Seen) -> Terms:
    """A thread for each element; or several, which add up."""
    blocks, elements = x.batches * simple.blocks(x.m, x.n) / x.sms, x.batches * x.m * x.n
    if elements <= simple.FEW and x.k > simple.FLAT_K:
        rounds = elements / x.sms / THOUSAND
        return 1, 0, 0, 0, 1, x.k / THOUSAND, rounds, rounds * x.k
    return 1, x.k, blocks, blocks * x.k, 0, 0, 0, 0


def _by_warps(x: Seen) -> Terms:
    """The larger operand is read once from memory."""
    count, slices = x.batches * min(small.tiles(x.m, x.n), small.tiles(x.n, x.m)), nv.cdiv(x.k, small.SLICE)
    split, odd = small.split(x.k, x.along_k, count, x.sms), not x.along_k
    own, read = _of_a_warp(count, slices, split, x.sms), 2 * x.batches * max(x.m, x.n) * x.k / MILLION
    return 1, own * x.along_k, own * odd, count / x.sms, read * x.along_k, read * odd, split > 1


def _of_a_warp(tiles: int, slices: int, split: int, sms: int) -> float:
    """Slices that a warp reads, one after the other, and that it waits for others to read: a tile is shared by the
    warps of so many blocks, of which no more run than there are for each."""
    resident = small.RESIDENT * small.WARPS * sms / (tiles * split)
    each = nv.cdiv(slices, split)
    warps = 1 << int(gemv.exponent(min(int(resident), 2 * each - 1), small.WARPS))
    return nv.cdiv(each, warps) * max(warps / resident, 1.0)


def _by_vectors(x: Seen) -> Terms:
    """Rows off the grid. The longer side's operand is read once from memory, and by each tile of the other one."""
    m, n = max(x.m, x.n), min(x.m, x.n)
    tiles, slices, split = small_words.tiles(m, n, x.k), small_words.slices(x.k), small_words.split(m, n, x.k, x.sms)
    own, read = _of_a_warp(tiles, slices, split, x.sms), 2 * m * x.k / MILLION
    return 1, own, tiles / x.sms, tiles * slices / x.sms, read, split > 1


def _by_tiles(part: int, fast: Callable[[Seen], bool]) -> Callable[[Seen], Terms]:
    """Of kernels whose tiles have warps of ``part`` rows and columns. ``fast``: whether more than one element is read
    at a time."""

    def terms(x: Seen) -> Terms:
        tiles = x.batches * nv.cdiv(x.m, short.DOWN * part) * nv.cdiv(x.n, short.ACROSS * part) / x.sms
        rounds = max(tiles, 1.0)
        odd = not fast(x)
        one = x.k * odd, x.k * (not odd)
        return 1, *one, rounds, rounds * one[1], rounds * one[0], rounds * (not x.stored), x.written

    return terms


def _by_runs(x: Seen) -> Terms:
    """A large K has one slot, and rows of some begin in the same banks."""
    *terms, even, odd, off, written = _by_tiles(short.PART, lambda x: x.k % short.PAIR == 0)(x)
    rounds, ways = terms[3], flat.ways(x.k)
    return *terms, even, odd, off, written, even * ways, odd * ways, rounds * (2 * x.k > flat.MOST)


def _by_threads(x: Seen) -> Terms:
    """The longer side is read by 64 rows, beside all of the other one. Parts of K are summed in memory."""
    rows, slices = x.batches * nv.cdiv(max(x.m, x.n), 64), nv.cdiv(x.k, 64)
    few = min(x.m, x.n)
    width = next((tile.tile_n for tile in gathered.PAIRS if few <= tile.tile_n), nv.cdiv(few, 64) * 64)
    wide, loaded = width / 64, rows * (64 + width) * slices / x.sms
    parts = int(parts_of(rows, slices, 1, 2 * x.sms, gathered.PAIRS[0].parts, gathered.LEAST))
    own, handed = nv.cdiv(slices, parts) * max(rows * parts / x.sms, 1.0), math.log2(parts)
    turned = x.written * (x.n > x.m)  # neighbours of a column are stored
    each = loaded * x.pairs, own * (1 + wide) * (not x.pairs)
    return 1, turned, handed, handed * wide, wide, rows / x.sms * wide, *each


def _by_residues(x: Seen) -> Terms:
    """The longer side's operand is read by TMA, the other one is copied for each residue. Parts of K are summed in
    memory."""
    m, n = max(x.m, x.n), min(x.m, x.n)
    turns, wide = residues.period(x.k, 2), n > residues.NARROW
    tiles, at_once = turns * nv.cdiv(nv.cdiv(m, turns), residues.HIGH[0]), x.sms * (1 if wide else 2)
    uneven = nv.cdiv(tiles, at_once) * at_once / tiles if tiles > at_once else 1.0
    parts = int(parts_of(tiles, nv.cdiv(x.k, 64), 1, at_once, 128, residues.LEAST))
    read = 2 * m * x.k / MILLION * uneven
    apart = x.written * (x.n > x.m)  # results of a residue lie apart
    return 1, 2 * turns * n * x.k / MILLION, read * (not wide), read * wide, math.log2(parts), apart


def _tensor_cores(x: Seen) -> Terms:
    beyond = max(x.copied - CACHED, 0.0)
    direct, tiles = not x.stored, min(x.batches * nv.cdiv(x.m, 64) * nv.cdiv(x.n, 64) / x.sms, 1.0)
    parted = math.log2(max(x.k / 64 * (1 - tiles), 1))
    cut = max(x.written - CACHED, 0.0) * (not x.whole)
    return 1, x.clocks(), tiles, parted, x.copied > 0, x.copied, beyond, x.written * direct, x.written, cut


TERMS: Mapping[str, Callable[[Seen], Terms]] = {
    "simple": _simple,
    "by_warps": _by_warps,
    "by_vectors": _by_vectors,
    "by_strips 16": _by_tiles(short.SMALL_PART, lambda x: x.pairs),
    "by_strips 32": _by_tiles(short.PART, lambda x: x.pairs),
    "by_runs": _by_runs,
    "by_threads": _by_threads,
    "by_residues": _by_residues,
    "tensor_cores": _tensor_cores,
}
MICROSECONDS: Mapping[str, Terms] = {
    "simple": (3.637, 0.03793, 0.2279, 0.02296, 0.5816, 0.2437, 1.064, 0.1369),
    "by_warps": (4.428, 0.4788, 1.068, 0.188, 0.254, 0.3899, 1.005),
    "by_vectors": (5.3, 0.2852, 0.1072, 0.02275, 0.1908, 0.9561),
    "by_strips 16": (4.011, 0.03116, 0.005579, 0.2586, 0.009318, 0.01285, 0.1523, 0.1099),
    "by_strips 32": (4.436, 0.02509, 0.00156, 0.3025, 0.01855, 0.0344, 0.3536, 0.07554),
    "by_runs": (4.665, 0.006796, 0.009755, 0.1824, 0.006598, 0.02161, 0.3513, 0.2036, 0.001412, 0.0, 0.1221),
    "by_threads": (4.974, 4.765, 0.4027, 0.6636, 1.824, 0.559, 0.0056, 0.6228),
    "by_residues": (15.77, 1.107, 0.264, 0.2802, 0.6116, 5.048),
    "tensor_cores": (0.0, 0.4035, 0.5166, 0.1441, 1.129, 0.406, 0.08816, 0.4397, 0.07079, 0.1913),
}
"""What each term of a road counts. Median errors are 3 to 9 %."""


def microseconds(road: str, x: Seen) -> float:
    """Of a single call."""
    return sum(constant * term for constant, term in zip(MICROSECONDS[road], TERMS[road](x), strict=True))
