"""How threads share a row, for every length."""

import pytest

from nvdsl.kernels.rows.config import MOST_COLUMNS, choose, choose_persistent

LENGTHS = [*range(1, 300), *(2**k + d for k in range(9, 19) for d in (-1, 0, 8) if 2**k + d <= MOST_COLUMNS)]


@pytest.mark.parametrize("itemsize", [2, 4])
@pytest.mark.parametrize("multiple", [1, 2, 16])
def test_the_accesses_cover_a_row_and_are_aligned(itemsize, multiple):
    for cols in LENGTHS:
        config = choose(cols, itemsize, multiple)
        assert config.steps * config.stride >= cols > (config.steps - 8) * config.stride
        assert config.full * config.stride <= cols < (config.full + 1) * config.stride
        assert config.full <= config.steps
        assert config.wide * itemsize <= 16 and cols % config.wide == multiple % config.wide == 0
        assert config.threads % config.lanes == 0 and config.threads <= 512 and config.cluster in (1, 2, 4, 8)
        assert config.cluster == 1 or config.lanes == config.threads
        registers = config.steps * (-(-config.wide * itemsize // 4))
        assert registers <= 32 or config.lanes == 512 and registers <= 64


@pytest.mark.parametrize("itemsize", [2, 4])
def test_a_thread_holds_parts_of_several_arrays_only_where_registers_last(itemsize):
    for cols in LENGTHS:
        config = choose(cols, itemsize, cols, arrays=2)
        assert config.steps * config.stride >= cols and config.full * config.stride <= cols
        assert config.held is (2 * config.steps * config.wide <= 64)
    assert not choose(262_144, itemsize, 8, arrays=2).held


def test_packed_rows_leave_registers_for_more_blocks():
    for cols in LENGTHS:
        config = choose(cols, 2, cols, packed=True)
        assert config.steps * config.stride >= cols and config.full * config.stride <= cols
        assert config.packed is (cols % 2 == 0 and cols <= 65_536)
        if config.packed:
            assert config.cluster == 1 and config.steps * config.wide <= 80
            assert config.blocks_per_sm * config.threads == 1024
    assert not choose(1024, 4, 1024, packed=True).packed


def test_the_ring_of_a_gradient_fits_into_shared_memory():
    for cols in LENGTHS:
        for itemsize in (2, 4):
            config = choose_persistent(cols, itemsize, cols, alike=True)
            assert config.steps * config.stride >= cols and config.full * config.stride <= cols
            row = 2 * itemsize * config.steps * config.wide * config.lanes * config.groups
            assert config.blocks_per_sm * config.ahead * row <= 160 * 1024
            assert config.ahead == 0 or cols * itemsize % 16 == 0 and config.held
            assert config.held is (config.steps * config.wide <= 16)


def test_a_model_s_rows_need_few_kernels():
    """Lengths that are multiples of 128 share what they can: where whole accesses end is what differs."""
    assert len({choose(cols, 2, cols) for cols in range(128, 16_384 + 1, 128)}) <= 64
