"""Tiles and threads: divisions, products, and thread-value layouts, made of composition and complement.

Sources: Cecka, arXiv 2603.02298, sections 3.5.1 and 3.5.2; CUTLASS, media/docs/cpp/cute/02_layout_algebra.md.
"""

from __future__ import annotations

from nvdsl.errors import layout_error
from nvdsl.layout import core
from nvdsl.layout.algebra import Tiler, check_tiler, composition
from nvdsl.layout.core import Layout
from nvdsl.layout.given import takes_layouts
from nvdsl.layout.inverses import complement, right_inverse
from nvdsl.layout.make import make_layout
from nvdsl.layout.nested import is_nested, is_static, product

ONE = Layout(1, 0)


@takes_layouts
def logical_divide(a: Layout, tiler: Tiler) -> Layout:
    """Split a layout into (the elements that the tiler selects, the tiles).

    This is ``composition(a, (tiler, complement(tiler, a.size)))``.

    A tuple of tilers divides mode by mode: ((tile0, rest0), (tile1, rest1)). A size that is no multiple of its tile is
    rounded up: the last tile reaches past the end.

    >>> str(logical_divide(Layout((4, 2, 3), (2, 1, 8)), Layout(4, 2)))
    '((2,2),(2,3)):((4,1),(2,8))'
    """
    if tiler is None:
        return a
    if is_nested(tiler):
        check_tiler(a, tiler)
        modes = [logical_divide(m, t) for m, t in zip(a, tiler, strict=False)]
        return make_layout(*modes, *list(a)[len(tiler) :])
    b = Layout(tiler) if not isinstance(tiler, Layout) else tiler
    return composition(a, make_layout(b, complement(b, a.size)))


@takes_layouts
def zipped_divide(a: Layout, tiler: Tiler) -> Layout:
    """Divide into ((tile0, tile1, ...), (rest0, rest1, ...)): one mode walks in a tile, the other over the tiles.

    ``a / tiler`` is the same.

    Modes of ``a`` without a tiler belong to the rest.

    >>> str(zipped_divide(Layout((8, 16), (16, 1)), (4, 8)))
    '((4,8),(2,2)):((16,1),(64,8))'
    """
    if not is_nested(tiler):
        return logical_divide(a, tiler) if tiler is not None else make_layout(ONE, a)
    check_tiler(a, tiler)
    parts = [zipped_divide(m, t) for m, t in zip(a, tiler, strict=False)]
    return make_layout(make_layout(*(p[0] for p in parts)), make_layout(*(p[1] for p in parts), *list(a)[len(tiler) :]))


@takes_layouts
def tiled_divide(a: Layout, tiler: Tiler) -> Layout:
    """Divide into ((tile0, tile1, ...), rest0, rest1, ...).

    >>> str(tiled_divide(Layout((8, 16), (16, 1)), (4, 8)))
    '((4,8),2,2):((16,1),64,8)'
    """
    tile, rest = zipped_divide(a, tiler)
    return make_layout(tile, *rest)


@takes_layouts
def flat_divide(a: Layout, tiler: Tiler) -> Layout:
    """Divide into (tile0, tile1, ..., rest0, rest1, ...).

    >>> str(flat_divide(Layout((8, 16), (16, 1)), (4, 8)))
    '(4,8,2,2):(16,1,64,8)'
    """
    tile, rest = zipped_divide(a, tiler)
    return make_layout(*tile, *rest)


@takes_layouts
def logical_product(a: Layout, grid: Tiler) -> Layout:
    """Repeat ``a`` where the grid says: (a, copies of a), that is ``(a, composition(complement(a), grid))``.

    ``grid``: a layout, or an int n for ``n:1``; a tuple multiplies mode by mode.

    >>> str(logical_product(Layout((2, 2), (4, 1)), 6))
    '((2,2),(2,3)):((4,1),(2,8))'
    """
    if grid is None:
        return a
    if is_nested(grid):
        check_tiler(a, grid)
        modes = [logical_product(m, g) for m, g in zip(a, grid, strict=False)]
        return make_layout(*modes, *list(a)[len(grid) :])
    b = Layout(grid) if not isinstance(grid, Layout) else grid
    bound = a.size * b.cosize
    copies = complement(a, bound)
    while is_static((copies.size, b.cosize)) and copies.size < b.cosize:  # a's holes take places, too
        bound *= 2
        copies = complement(a, bound)
    return make_layout(a, composition(copies, b))


@takes_layouts
def blocked_product(a: Layout, grid: Layout) -> Layout:
    """Make a grid of blocks. Mode i is (within the block, over the blocks).

    >>> str(blocked_product(Layout((2, 5), (5, 1)), Layout((3, 4), (1, 3))))
    '((2,3),(5,4)):((5,10),(1,30))'
    """
    within, across = logical_product(*_equal_ranks(a, grid))
    return make_layout(*(make_layout(x, y) for x, y in zip(within, across, strict=True)))


@takes_layouts
def raked_product(a: Layout, grid: Layout) -> Layout:
    """Make a grid of interleaved blocks. Mode i is (over the blocks, within the block).

    >>> str(raked_product(Layout((2, 5), (5, 1)), Layout((3, 4), (1, 3))))
    '((3,2),(4,5)):((10,5),(30,1))'
    """
    within, across = logical_product(*_equal_ranks(a, grid))
    return make_layout(*(make_layout(y, x) for x, y in zip(within, across, strict=True)))


def _equal_ranks(a: Layout, b: Layout) -> tuple[Layout, Layout]:
    rank = max(len(a), len(b))
    if rank == 1:
        return make_layout(a) if not is_nested(a.shape) else a, make_layout(b) if not is_nested(b.shape) else b
    return make_layout(*a, *[ONE] * (rank - len(a))), make_layout(*b, *[ONE] * (rank - len(b)))


@takes_layouts
def make_layout_tv(threads: Layout, values: Layout) -> tuple[tuple[int, ...], Layout]:
    """Say who copies what: returns (the shape of a tile, the thread-value layout in it).

    ``threads``: the threads over a grid, as a layout that gives the thread's number; ``values``: the elements of one
    thread, as a layout that gives the value's number. The thread-value layout takes (thread, value) to an index into
    the tile, which counts its first mode fastest: compose a tile of that shape with it.

    >>> shape, tv = make_layout_tv(Layout((32, 8), (8, 1)), Layout((1, 8), (8, 1)))   # 256 threads, 8 elements each
    >>> shape, str(tv)
    ((32, 64), '((8,32),8):((256,1),32)')
    """
    for name, layout in (("threads", threads), ("values", values)):
        count = layout.size
        if layout.is_coordinates or layout.has_bits or sorted(map(layout, range(count))) != list(range(count)):
            raise layout_error(
                f"{name} of a thread-value layout: {layout}",
                rule="each number from 0 on stands once: which thread, or which of its values, is there",
                fix="row_major(32, 8) for threads along rows, column_major(32, 8) for threads along columns",
            )
    whole = raked_product(threads, values)
    tv = composition(right_inverse(whole), Layout((threads.size, values.size), (1, threads.size)))
    return tuple(product(mode.shape) for mode in whole), tv


core.below["zipped_divide"] = zipped_divide
