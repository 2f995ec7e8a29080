"""How threads share a row, for every length."""

import pytest

import nvdsl as nv
from nvdsl.hopper import arch
from nvdsl.kernels.gemm.launch import resident_clusters
from nvdsl.kernels.rows.beside import access_to_copies
from nvdsl.kernels.rows.choose import choose
from nvdsl.kernels.rows.choose_persistent import choose_persistent
from nvdsl.kernels.rows.config import MOST_COLUMNS

LENGTHS = [*range(1, 300), *(2**k + d for k in range(9, 19) for d in (-1, 0, 8) if 2**k + d <= MOST_COLUMNS)]


def covers(config, cols):
    """Whether the accesses of all blocks cover a row, none of them twice, and the last block has the fewest columns."""
    extent = cols + (0 if config.wrapped else config.slack)
    each = -(-extent // (config.cluster * config.unit)) * config.unit if config.cluster > 1 else extent
    last = cols - (config.cluster - 1) * each
    assert 0 < last <= each <= config.part and config.part - each < 8 * config.width + config.unit
    assert config.full * config.width <= last and config.full <= config.steps
    assert config.full == config.steps or last < (config.full + 1) * config.width
    assert not config.ragged or config.full and cols % config.grain == 0
    assert config.frame % config.wide == 0 and config.frame <= config.width  # so that one access is before the row


@pytest.mark.parametrize("arrays", [1, 2])
def test_rows_that_are_written_elsewhere_than_they_are_read_go_through_shared_memory(arrays):
    for cols in LENGTHS:
        for passes in (2, 3):
            config = choose(cols, 2, 1, arrays=arrays, passes=passes, apart=True)
            covers(config, cols)
            assert config.apart == (cols > 512) and (not config.apart or (config.keep, config.wide) == ("shared", 8))
            for grain, most in ((2, 2048), (4, 8192)):
                if cols % grain == 0:
                    assert choose(cols, 2, grain, arrays=arrays, passes=passes, apart=True).apart == (cols > most)


@pytest.mark.parametrize(
    ("cols", "dtypes", "size"),
    [(1551, [nv.f32] * 2, 16), (8054, [nv.f32] * 2, 8), (10_003, [nv.f32] * 2, 4), (13_001, [nv.f32] * 2, 16),
     (8054, [nv.f32], 16), (39_399, [nv.f32], 16), (17_001, [nv.f32], 16), (8054, [nv.bf16] * 2, 8),
     (8054, [nv.f32, nv.bf16], 16)],
)  # fmt: skip
def test_copies_of_weights_are_read_by_as_many_bytes_as_leave_them_in_l1(cols, dtypes, size):
    config = choose(cols, 2, cols, passes=3, beside=len(dtypes), alike=True)
    assert config.ragged and access_to_copies(cols, dtypes, config) == size


def test_rows_of_a_warp_or_two_that_begin_anywhere_are_in_registers_of_few_threads_without_elements():
    for cols in range(513, 2049):
        if cols % 8:
            for written in (False, True):
                config = choose(cols, 2, 1, alike=True, written=written)
                assert config.keep == "registers" and config.part < 1.26 * cols


@pytest.mark.parametrize("itemsize", [2, 4])
@pytest.mark.parametrize("multiple", [1, 2, 16])
@pytest.mark.parametrize("arrays", [1, 2])
@pytest.mark.parametrize("alike", [False, True])
def test_the_accesses_cover_a_row_and_are_aligned(itemsize, multiple, arrays, alike):
    for cols in LENGTHS:
        for passes in (2, 3):
            config = choose(cols, itemsize, multiple, arrays=arrays, passes=passes, alike=alike)
            covers(config, cols)
            assert not config.apart
            assert config.wide * itemsize <= 16 and cols % config.grain == multiple % config.grain == 0
            assert config.wide == config.grain or alike and config.wide * itemsize == 16
            assert config.threads % config.lanes == 0 and config.threads <= 512 and config.cluster in (1, 2, 4, 8)
            assert config.groups == 1 or config.lanes <= 32  # several warps would meet at a named barrier of their own
            assert config.keep != "registers" or arrays * config.steps * config.wide <= 64
            taken = arrays * itemsize * config.groups * config.part * config.blocks_per_sm
            assert config.keep != "shared" or config.wide * itemsize >= 4 and taken <= arch.MAX_SMEM_PER_BLOCK


def test_long_rows_of_two_arrays_of_f32_are_loaded_again():
    assert choose(262_144, 4, 16, arrays=2).keep == "memory"
    assert choose(262_144, 4, 16).keep == choose(262_144, 2, 16, arrays=2).keep == "shared"


@pytest.mark.parametrize("arrays", [2, 3])
@pytest.mark.parametrize("itemsize", [2, 4])
@pytest.mark.parametrize("beside", [0, 2, 4])
def test_the_ring_of_a_gradient_fits_into_shared_memory(itemsize, arrays, beside):
    for cols in LENGTHS:
        config = choose_persistent(cols, itemsize, 16, arrays=arrays, beside=beside, alike=True)
        covers(config, cols)
        assert config.groups == 1 or config.cluster == 1  # a cluster shares one row
        slot = arrays * itemsize * config.part * config.groups
        more = 4 * config.groups * config.width * (config.groups > 1) + beside * config.part * config.weights
        more += config.threads * config.cluster  # what warps tell each other
        assert config.keep != "shared" or 2 <= config.slots
        assert config.keep != "shared" or config.blocks_per_sm * (config.slots * slot + more + 1280) <= 228 * 1024
        most = 64 // (itemsize if config.wide * itemsize >= 4 else 4)
        assert config.keep == "memory" or config.steps * config.wide <= (48 if config.ragged else most)
        running = resident_clusters(config.cluster, sms=132) * config.blocks_per_sm
        assert running >= config.period  # or some of as many would wait for the others to end
        assert config.keep != "memory" or cols > 8 * 512 * most // 2


def test_a_model_s_rows_need_few_kernels():
    """Lengths that are multiples of 128 share what they can: where whole accesses end is what differs."""
    assert len({choose(cols, 2, cols) for cols in range(128, 16_384 + 1, 128)}) <= 64
