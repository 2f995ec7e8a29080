"""Stream-K: every slice of every tile is computed once, work is even, and owners know who gives what."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

import nvdsl as nv
from nvdsl.kernels.split import Split

splits = st.builds(Split, st.integers(1, 40), st.integers(1, 9), st.integers(1, 12)).filter(
    lambda s: s.slices == 0 or s.slices >= s.blocks
)


def units(split, block):
    """(tile, first, last) of a block's units."""
    work, found = split.work(block), []
    while work.left:
        found.append((work.tile, work.first, work.last))
        work = work.next()
    return found


@given(splits)
@settings(max_examples=300)
def test_every_slice_is_computed_once(split):
    every = [unit for block in range(split.blocks) for unit in units(split, block)]
    found = sorted((tile, k) for tile, first, last in every for k in range(first, last))
    assert found == [(tile, k) for tile in range(split.tiles) for k in range(split.steps)]


@given(splits)
@settings(max_examples=100)
def test_work_is_even(split):
    work = [sum(last - first for _, first, last in units(split, block)) for block in range(split.blocks)]
    assert max(work) - min(work) <= 1 or split.slices == 0


@given(splits)
@settings(max_examples=200)
def test_what_does_not_start_a_tile_is_a_blocks_first_unit(split):
    """So it is given before anything is waited for, and by the consumer that has the first turn."""
    for block in range(split.blocks):
        for number, (_, first, _) in enumerate(units(split, block)):
            assert first == 0 or number == 0


@given(splits)
@settings(max_examples=200)
def test_the_owner_finds_the_other_slices_at_the_blocks_that_follow(split):
    given = {}
    for block in range(split.blocks):
        for tile, first, last in units(split, block):
            if first > 0:
                given[block] = (tile, first, last)
    for block in range(split.blocks):
        for tile, first, last in units(split, block):
            if first > 0:
                continue
            giver = block
            while last < split.steps:
                giver += 1
                assert given.pop(giver)[:2] == (tile, last)
                last += min(split.begin(giver + 1) - split.begin(giver), split.steps - last)
    assert not given


def test_no_tile_is_cut_where_the_blocks_come_out_even():
    assert Split(24, 8, 12).shared == 0
    assert Split(25, 8, 12).shared == 13
    assert Split(5, 8, 12).shared == 5


@nv.jit
def every_unit(out, *, split):
    @nv.kernel(grid=split.blocks, block=32)
    def kernel():
        work = split.work(nv.block_id.x)
        number = nv.i32(0)
        while work.left:
            if nv.thread_id.x == 0:
                out[nv.block_id.x, number, 0] = work.tile
                out[nv.block_id.x, number, 1] = work.first
                out[nv.block_id.x, number, 2] = work.last
            number += 1
            work = work.next()

    kernel()


def test_a_traced_block_has_the_same_units():
    split = Split(13, 5, 4)
    out = np.full((4, 8, 3), -1, np.int32)
    every_unit(out, split=split, target="sim")
    for block in range(4):
        assert [tuple(x) for x in out[block] if x[0] >= 0] == units(split, block)
