"""Blocks that fit on an SM: the numbers of NVIDIA's occupancy calculator for compute capability 9.0."""

import pytest

from nvdsl.hopper.occupancy import occupancy


@pytest.mark.parametrize(
    ("threads", "registers", "smem", "blocks", "limit"),
    [
        (1024, 32, 0, 2, "threads"),
        (128, 32, 0, 16, "threads"),
        (32, 16, 0, 32, "blocks"),
        (128, 255, 0, 2, "registers"),
        (128, 128, 0, 4, "registers"),
        (128, 129, 0, 3, "registers"),
        (128, 41, 0, 10, "registers"),  # as with 48: what a warp gets is a multiple of 256
        (32, 255, 0, 8, "registers"),  # two warps fit in each quarter
        (256, 168, 0, 1, "registers"),  # 12 warps fit, a block needs 8
        (384, 168, 0, 1, "registers"),
        (1024, 65, 0, 0, "registers"),
        (128, 32, 232_448, 1, "shared memory"),
        (128, 32, 115_712, 2, "shared memory"),  # half of 228 KiB, less the KiB that each block costs
        (128, 32, 115_713, 1, "shared memory"),
        (128, 154, 98_328, 2, "shared memory"),  # chapter 4
    ],
)
def test_blocks(threads, registers, smem, blocks, limit):
    found = occupancy(threads, registers, smem)
    assert (found.blocks, found.limit) == (blocks, limit)
    assert found.warps == blocks * -(-threads // 32)
