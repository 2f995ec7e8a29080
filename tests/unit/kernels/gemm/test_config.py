"""What a configuration uses, and what is refused before anything is compiled."""

import pytest

import nvdsl as nv
from nvdsl.hopper import arch
from nvdsl.kernels.blocks.epilogue import piece_widths
from nvdsl.kernels.gemm.config import REGISTERS, Config


def problems(dtype=nv.f16, out=nv.f16, acc=nv.f32, **fields):
    return Config(**fields).problems(dtype, out, acc)


@pytest.mark.parametrize("consumers", REGISTERS)
def test_registers_of_a_block_fit_into_an_sm(consumers):
    """A block is given a multiple of 8 a thread at its launch: 48 and 2 * 232, 65,536 in all, hung on an H200."""
    producer, consumer = REGISTERS[consumers]
    threads = 128 * (1 + consumers)
    assert 128 * (producer + consumers * consumer) <= arch.REGISTERS_PER_SM // threads // 8 * 8 * threads


def test_rows_of_a_consumer():
    assert (Config().rows, Config(schedule="pingpong").rows, Config(256, 128).rows) == (64, 128, 128)
    assert (Config().threads, Config(64, 128, consumers=1).threads) == (384, 256)


def test_shared_memory_is_counted():
    # 4 slots of (128 + 256) rows of 128 bytes, 2 consumers with 2 pieces of 8 KB, 8 barriers
    assert Config().smem_bytes(nv.f16) == 4 * 384 * 128 + 4 * 8192 + 8 * 8


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"tile_m": 96}, "48 rows a consumer"),
        ({"tile_n": 264}, "tile_n 264"),
        ({"tile_n": 204}, "tile_n 204"),
        ({"tile_k": 32}, "tile_k 32"),
        ({"stages": 1}, "1 stages"),
        ({"stages": 5}, "bytes of shared memory"),
        ({"tile_m": 256, "stages": 2}, "registers a consumer's thread"),
        ({"schedule": "other"}, "schedule is one of"),
        ({"schedule": "pingpong", "consumers": 3, "tile_n": 64}, "two consumers play ping-pong"),
        ({"schedule": "streamk", "tile_n": 128, "cluster_m": 2}, "without clusters"),
        ({"schedule": "splitk", "tile_n": 128, "split": 3}, "splitk with split 3"),
        ({"schedule": "splitk", "tile_n": 80, "split": 4}, "each of 4 blocks"),
        ({"schedule": "splitk", "tile_n": 128, "split": 2, "cluster_n": 2}, "without clusters"),
        ({"split": 2}, "cooperative with split 2"),
        ({"schedule": "pingpong", "tile_n": 128, "parts": 2}, "pingpong with parts 2"),
        ({"parts": 2, "swap_ab": True}, "parts 2 with swapped operands"),
        ({"schedule": "streamk", "tile_n": 128, "swap_ab": True}, "streamk with swapped operands"),
        ({"schedule": "pingpong", "tile_n": 128, "along": "n"}, "pingpong divides tiles along m"),
        ({"along": "k"}, "along is"),
        ({"tile_n": 152, "cluster_m": 2}, "each block loads"),
        ({"tile_m": 192, "consumers": 3, "tile_n": 208, "stages": 3}, "the sums of one wgmma"),
        ({"cluster_m": 3}, "a cluster of 3"),
        ({"in_flight": 2}, "groups in flight"),
        ({"store_buffers": 0}, "at least one"),
    ],
)
def test_what_can_not_run_is_named(fields, said):
    assert any(said in problem for problem in problems(**fields)), problems(**fields)


def test_the_default_can_run():
    assert problems() == [] and problems(nv.bf16, nv.bf16) == [] and problems(nv.e4m3, nv.f16, tile_k=128) == []


def test_everything_that_is_wrong_is_in_one_error():
    with pytest.raises(nv.ArgumentError) as caught:
        Config(tile_n=264, stages=1).check(nv.f16, nv.f16, nv.f32)
    assert "tile_n 264" in str(caught.value) and "1 stages" in str(caught.value)


@pytest.mark.parametrize("itemsize", [1, 2, 4])
@pytest.mark.parametrize("tile_n", range(32, 257, 32))
def test_pieces_fill_a_tile(tile_n, itemsize):
    widths = piece_widths(tile_n, itemsize)
    assert sum(widths) == tile_n and all(w * itemsize in (32, 64, 128) for w in widths)


def test_pieces_of_a_ragged_tile():
    assert (piece_widths(208, 2), piece_widths(112, 2)) == ([64, 64, 64, 16], [64, 32, 16])
