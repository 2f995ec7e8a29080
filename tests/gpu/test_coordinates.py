"""Which coordinates TMA takes: the H200's own answer is the simulator's.

An innermost coordinate that is no multiple of 16 bytes, and a negative one of a store, end the kernel with an illegal
instruction, and with it the process: each of them has one of its own.
"""

import numpy as np
import pytest

import nvdsl as nv
from nvdsl.errors import DeviceError, SimError
from nvdsl.testing import in_child, run_in_child

ROWS, COLS = 16, 256


@nv.jit
def copy(x, out, row: nv.i32, column: nv.i32, *, op="load", swizzle=0):
    """The box of 8 rows and 32 bytes at these coordinates of ``x``: loaded into ``out``, or stored from there."""
    cols = 32 // x.dtype.bytes
    x_tma = nv.TMA(x, tile=(8, cols), swizzle=swizzle)

    @nv.kernel(grid=1, block=32)
    def kernel():
        tile = nv.smem((8, cols), x.dtype, swizzle=swizzle)
        full = nv.Mbarriers(1, arrivals=1)[0]
        t = nv.thread_id.x
        if t < cols:
            for i in nv.range(8):
                tile[i, t] = out[i, t]
        nv.fence_proxy_async()
        nv.sync_threads()
        if t == 0:
            if op == "load":
                full.arrive_expect_tx(tile.bytes)
                x_tma.load(tile, full, (row, column))
            elif op == "prefetch":
                x_tma.prefetch_tile((row, column))
            else:
                (x_tma.store if op == "store" else x_tma.reduce_add)(tile, (row, column))
                nv.bulk_commit_group()
                nv.bulk_wait_group(0)
        if op == "load":
            full.wait(0)
        if t < cols:
            for i in nv.range(8):
                out[i, t] = tile[i, t]

    kernel()


def arrays(dtype):
    x = np.arange(ROWS * COLS).reshape(ROWS, COLS) % 100
    return x.astype(dtype.numpy), np.full((8, 32 // dtype.bytes), 2, dtype.numpy)


LEGAL = [
    (nv.f16, "load", 0, (3, 8)),
    (nv.f16, "load", 32, (5, 248)),
    (nv.f16, "load", 0, (-3, -8)),
    (nv.f16, "load", 0, (99, 1000)),
    (nv.f32, "load", 0, (1, 4)),
    (nv.i8, "load", 0, (0, -16)),
    (nv.f64, "load", 0, (15, 254)),
    (nv.f16, "store", 32, (13, 248)),
    (nv.f32, "store", 0, (99, 1000)),
    (nv.f16, "reduce", 0, (1, 16)),
    (nv.f16, "prefetch", 0, (-3, -8)),
]
ILLEGAL = [
    (nv.f16, "load", 0, (0, 241)),
    (nv.f16, "load", 32, (0, 4)),
    (nv.f32, "load", 0, (0, -2)),
    (nv.i8, "load", 0, (0, 8)),
    (nv.f64, "load", 0, (99, 1001)),
    (nv.f16, "prefetch", 0, (0, 4)),
    (nv.f16, "store", 0, (0, 4)),
    (nv.f16, "store", 0, (0, -8)),
    (nv.f16, "store", 0, (-1, 0)),
    (nv.f16, "reduce", 32, (0, 1)),
    (nv.f16, "reduce", 0, (-1, 0)),
]


@in_child(timeout=120)
def test_multiples_of_16_bytes_are_legal_and_give_what_the_simulator_gives():
    for dtype, op, swizzle, at in LEGAL:
        here, there = arrays(dtype), arrays(dtype)
        copy(*here, *at, op=op, swizzle=swizzle)
        copy(*there, *at, op=op, swizzle=swizzle, target="sim")
        for mine, expected in zip(here, there, strict=True):
            assert np.array_equal(mine, expected), (dtype.name, op, swizzle, at)


@pytest.mark.parametrize("number", range(len(ILLEGAL)))
def test_any_other_coordinate_is_an_illegal_instruction(number):
    assert run_in_child("tests.gpu.test_coordinates:reported", (number,), timeout=60).value == (True, True)


def reported(number):
    """Whether the simulator reports it, and the GPU."""
    dtype, op, swizzle, at = ILLEGAL[number]
    with pytest.raises(SimError) as there:
        copy(*arrays(dtype), *at, op=op, swizzle=swizzle, target="sim")
    with pytest.raises(DeviceError) as here:
        copy(*arrays(dtype), *at, op=op, swizzle=swizzle)
    return there.value.kind == "illegal-copy", "CUDA_ERROR_ILLEGAL_INSTRUCTION" in str(here.value)
