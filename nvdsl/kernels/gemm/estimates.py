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
    ``pairs``: threads can copy these in pairs; ``stored``: TMA can store the result; ``whole``: as whole sectors;
    ``copied``: megabytes that are copied for the tensor cores; ``clocks``: of these, in thousands, once they begin."""

    m: int
    n: int
    k: int
    batches: int
    sms: int
    aligned: bool
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
        return Seen(m, n, k, problem.batches, sms, not copied, pairs, stored, whole, megabytes, clocks)

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
    count, slices = x.batches * min(small.tiles(x.m, x.n), small.tiles(x.n, x.m)), nv.cdiv(x.k, small.SLICE)
    shared, tiles = small.WARPS * (small.SPLIT if small.at_once(count, x.sms) else 1), count / x.sms
    own, all_slices, odd = slices / shared, tiles * slices, not x.aligned
    return 1, own * x.aligned, own * odd, tiles, all_slices * x.aligned, all_slices * odd


def _by_vectors(x: Seen) -> Terms:
    """Rows off the grid. The longer side's operand is read by each tile of the other one. A tile is shared by a
    cluster's warps, of which no more run than there are for each tile."""
    m, n = max(x.m, x.n), min(x.m, x.n)
    tiles, slices, split = small_words.tiles(m, n, x.k), small_words.slices(x.k), small_words.split(m, n, x.k, x.sms)
    resident = small.RESIDENT * small.WARPS * x.sms / (tiles * split)
    each = nv.cdiv(slices, split)
    warps = 1 << int(gemv.exponent(min(int(resident), 2 * each - 1), small.WARPS))
    own = nv.cdiv(each, warps) * max(warps / resident, 1.0)
    return 1, own, tiles / x.sms, tiles * slices / x.sms, x.written * (x.n > x.m)


def _by_tiles(part: int, fast: Callable[[Seen], bool]) -> Callable[[Seen], Terms]:
    """Of kernels whose tiles have warps of ``part`` rows and columns. ``fast``: whether more than one element is read
    at a time."""

    def terms(x: Seen) -> Terms:
        tiles = x.batches * nv.cdiv(x.m, short.DOWN * part) * nv.cdiv(x.n, short.ACROSS * part) / x.sms
        rounds = max(tiles, 1.0)
        odd = not fast(x)
        one = x.k * odd, x.k * (not odd)
        return 1, *one, rounds, rounds * one[1], rounds * one[0], x.written * (not x.stored), x.written

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
    loaded = rows * (64 + width) * slices / x.sms
    parts = int(parts_of(rows, slices, 1, 2 * x.sms, gathered.PAIRS[0].parts, gathered.LEAST))
    own, odd = nv.cdiv(slices, parts) * max(rows * parts / x.sms, 1.0) * (64 + width) / 64, not x.pairs
    turned = x.written * (x.n > x.m)  # neighbours of a column are stored
    return 1, turned, math.log2(parts), rows / x.sms, own * x.pairs, own * odd, loaded * x.pairs, loaded * odd


def _by_residues(x: Seen) -> Terms:
    """The longer side's operand is read by TMA, the other one is copied for each residue. Parts of K are summed in
    memory."""
    m, n = max(x.m, x.n), min(x.m, x.n)
    turns, wide = residues.period(x.k, 2), n > residues.NARROW
    tiles, at_once = turns * nv.cdiv(nv.cdiv(m, turns), residues.HIGH[0]), x.sms * (1 if wide else 2)
    uneven = nv.cdiv(tiles, at_once) * at_once / tiles if tiles > at_once else 1.0
    parts = int(parts_of(tiles, nv.cdiv(x.k, 64), 1, at_once, 128, residues.LEAST))
    read = 2 * m * x.k / MILLION * uneven
    return 1, 2 * turns * n * x.k / MILLION, read * (not wide), read * wide, math.log2(parts)


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
    "simple": (3.704, 0.03031, 0.1985, 0.02127, 0.5435, 0.2449, 0.0, 0.1644),
    "by_warps": (5.438, 0.3592, 1.061, 0.02054, 0.1263, 0.1284),
    "by_vectors": (6.115, 0.2301, 0.0, 0.06902, 4.449),
    "by_strips 16": (4.12, 0.02305, 0.004605, 0.2409, 0.01049, 0.01498, 0.2707, 0.0),
    "by_strips 32": (4.384, 0.02791, 0.007664, 0.3395, 0.01463, 0.02721, 0.1773, 0.1221),
    "by_runs": (4.648, 0.00456, 0.0, 0.3057, 0.006557, 0.0106, 0.1735, 0.1343, 0.00191, 0.004543, 0.6014),
    "by_threads": (5.591, 6.752, 0.5313, 0.08534, 0.01564, 0.6209, 0.005207, 0.0),
    "by_residues": (15.96, 0.4834, 0.2696, 0.366, 0.8338),
    "tensor_cores": (0.0, 0.3998, 0.6972, 0.1478, 1.059, 0.4214, 0.03504, 0.3603, 0.08697, 0.1918),
}
"""What each term of a road counts. Median errors are 3 to 9 %."""


def microseconds(road: str, x: Seen) -> float:
    """Of a single call."""
    return sum(constant * term for constant, term in zip(MICROSECONDS[road], TERMS[road](x), strict=True))
