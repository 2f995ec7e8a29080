"""How long each road to a product of 16-bit types takes: what `dispatch` compares where several kernels can compute it.

Microseconds are a sum of a few terms. How much each counts was fitted to single calls of random products on an H200
(`benchmarks/fit_roads.py`, from what `benchmarks/bench_roads.py` timed).
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping

import nvdsl as nv
from nvdsl.errors.records import dataclass
from nvdsl.kernels.gemm import flat, gathered, gemv, residues, short, simple, small, small_words
from nvdsl.kernels.gemm.choose import COMMON, allowed, key, thin_cycles
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
    ``along_k``: K is contiguous in them; ``pairs``: threads can copy them in pairs; ``stored``: TMA can store the
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
            return min(float(times(_common(shape), shape, sms).min()), thin_cycles(shape, sms)) / THOUSAND

        pairs = gathered.in_pairs(a) and gathered.in_pairs(b)
        whole = stored and problem.out.strides[-2] * problem.out.dtype.bytes % SECTOR == 0
        along_k = majors == ("k", "k")
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
        rounds, apart = elements / x.sms / THOUSAND, not x.along_k
        return 1, 0, 0, 0, 1, x.k / THOUSAND, rounds, rounds * x.k, apart * x.k / THOUSAND, apart * rounds * x.k
    return 1, x.k, blocks, blocks * x.k, 0, 0, 0, 0, 0, 0


def _by_warps(x: Seen) -> Terms:
    """The larger operand is read once from memory."""
    count, slices = x.batches * min(small.tiles(x.m, x.n), small.tiles(x.n, x.m)), nv.cdiv(x.k, small.SLICE)
    vectors = x.aligned and x.along_k
    split, odd, apart = small.split(x.k, vectors, count, x.sms), x.along_k and not x.aligned, not x.along_k
    own, read = _of_a_warp(count, slices, split, x.sms), 2 * x.batches * max(x.m, x.n) * x.k / MILLION
    kinds = vectors, odd, apart
    return 1, *(own * x for x in kinds), count / x.sms, *(read * x for x in kinds), split > 1


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
    "simple": (3.659, 0.03389, 0.2145, 0.02794, 0.5592, 0.2389, 0.8321, 0.1448, 0.04807, 0.05521),
    "by_warps": (4.433, 0.4796, 1.056, 1.035, 0.1833, 0.2929, 0.4047, 0.4208, 1.016),
    "by_vectors": (5.281, 0.2885, 0.112, 0.02025, 0.199, 0.9881),
    "by_strips 16": (4.017, 0.0314, 0.00521, 0.258, 0.009402, 0.01278, 0.1484, 0.1337),
    "by_strips 32": (4.511, 0.03069, 0.004887, 0.0, 0.01623, 0.02896, 0.3657, 0.2583),
    "by_runs": (4.704, 0.0086, 0.009133, 0.1484, 0.005789, 0.007846, 0.3625, 0.2183, 0.001636, 0.006093, 0.1738),
    "by_threads": (5.08, 5.198, 0.3926, 0.7237, 1.673, 0.3077, 0.005571, 0.624),
    "by_residues": (14.46, 0.9965, 0.2673, 0.2804, 0.9383, 6.705),
    "tensor_cores": (0.0, 0.3994, 0.6778, 0.1595, 1.075, 0.4124, 0.08629, 0.4449, 0.07387, 0.1018),
}
"""What each term of a road counts. Median errors are 3 to 9 %."""


def microseconds(road: str, x: Seen) -> float:
    """Of a single call."""
    return sum(constant * term for constant, term in zip(MICROSECONDS[road], TERMS[road](x), strict=True))
