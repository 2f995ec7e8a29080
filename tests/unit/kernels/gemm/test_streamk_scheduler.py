"""Stream-K: every slice of every tile is computed once, work is even, and owners know who gives what."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import nvdsl as nv
from nvdsl.kernels.gemm.streamk_scheduler import UNEVEN, WORTH, StreamKScheduler

splits = st.builds(StreamKScheduler, st.integers(1, 40), st.integers(1, 30), st.integers(1, 12), st.integers(1, 8))


def units(split, block):
    return [split.unit(block, number) for number in range(split.units(block))]


@given(splits)
@settings(max_examples=300)
def test_every_slice_is_computed_once(split):
    every = [unit for block in range(split.blocks) for unit in units(split, block)]
    found = sorted((tile, k) for tile, first, last, _ in every for k in range(first, last))
    assert found == [(tile, k) for tile in range(split.tiles) for k in range(split.steps)]
    assert all(first < last for _, first, last, _ in every)


@given(splits)
@settings(max_examples=200)
def test_work_is_even(split):
    whole = split.whole * split.steps
    work = [sum(unit.last - unit.first for unit in units(split, block)) for block in range(split.blocks)]
    assert min(work) >= max(whole, 1) and max(work) == whole + split.longest
    line = split.cut * split.steps
    if split.is_cut:
        pieces = max(split.cut, line // split.least)
        if split.whole:
            pieces = max(split.cut, min(split.blocks, line // split.least))
            assert split.longest < line / pieces + 1 + split.steps / UNEVEN
        assert split.longest <= split.steps * (1 - 1 / WORTH)
        ends = [split.begin(piece) for piece in range(split.pieces + 1)]
        assert ends == sorted(ends) and ends[-1] == line


@given(splits)
@settings(max_examples=200)
def test_what_does_not_start_a_tile_is_a_blocks_first_unit(split):
    """So it is given before anything is waited for, and by the consumer that has the first turn."""
    for block in range(split.blocks):
        for number, (_, first, _, _) in enumerate(units(split, block)):
            assert first == 0 or number == 0


@given(splits)
@settings(max_examples=200)
def test_the_owner_finds_the_other_slices_at_the_blocks_before_it(split):
    given = {}
    for block in range(split.blocks):
        for tile, first, last, _ in units(split, block):
            if first > 0:
                given[block] = (tile, first, last)
    for block in range(split.blocks):
        for tile, first, last, _ in units(split, block):
            if first > 0:
                continue
            giver = block
            while last < split.steps:
                giver -= 1
                assert given.pop(giver)[:2] == (tile, last)
                last = split.unit(giver, 0).last
    assert not given


@given(splits)
@settings(max_examples=100)
def test_whole_tiles_come_in_rounds_of_all_blocks(split):
    for block in range(split.blocks):
        for tile, first, last, round in units(split, block):
            if tile >= split.cut:
                assert (first, last, tile) == (0, split.steps, split.cut + round * split.blocks + block)
            else:
                assert round == 0


def test_what_is_cut_and_how():
    assert not StreamKScheduler(264, 64, 132).is_cut  # full rounds
    for tiles, steps, ratio, longest in [
        (16, 112, (8, 1), 14),
        (24, 80, (5, 1), 16),
        (84, 96, (3, 2), 64),
        (72, 72, (7, 4), 42),
        (2, 64, (8, 1), 8),  # no less than 8 slices each
    ]:
        split = StreamKScheduler(3 * 132 + tiles, steps, 132)
        assert (split.cut, split.ratio, split.longest, split.is_cut) == (tiles, ratio, longest, True)
    assert not StreamKScheduler(132 + 2, 8, 132).is_cut
    assert not StreamKScheduler(132 + 100, 64, 132).is_cut
    assert StreamKScheduler(5, 8, 12).blocks == 5


@given(splits)
@settings(max_examples=100)
def test_the_length_of_the_next_unit(split):
    for block in range(split.blocks):
        for number, unit in enumerate(units(split, block)[1:]):
            assert split.following(block, number) == unit.last - unit.first


@nv.jit
def every_unit(out, tiles, steps, *, blocks, least):
    split = StreamKScheduler(tiles, steps, blocks, least)

    @nv.kernel(grid=split.blocks, block=32)
    def kernel():
        for number in nv.range(split.units(nv.block_id.x)):
            unit = split.unit(nv.block_id.x, number)
            if nv.thread_id.x == 0:
                for i, x in enumerate(unit):
                    out[nv.block_id.x, number, i] = x

    kernel()


@pytest.mark.parametrize(("tiles", "steps"), [(14, 9), (14, 30), (3, 25), (2, 1), (8, 4), (21, 7), (1, 64)])
def test_traced_numbers_have_the_same_units(tiles, steps):
    split = StreamKScheduler(tiles, steps, 4, 2)
    out = np.full((4, 8, 4), -1, np.int32)
    every_unit(out, tiles, steps, blocks=4, least=2, target="sim")
    for block in range(split.blocks):
        assert [tuple(x) for x in out[block] if x[0] >= 0] == units(split, block)
    assert (out[split.blocks :] == -1).all()
