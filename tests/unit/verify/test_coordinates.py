"""Coordinates of TMA copies: the innermost is a multiple of 16 bytes, those of stores are not negative."""

import numpy as np
import pytest

import nvdsl as nv
from nvdsl.errors import SimError
from nvdsl.ops.tma import L2_EVICT_LAST
from tests.unit.kernels import array
from tests.unit.verify.verdicts import line

OPS = ["load", "load with hint", "store", "store with hint", "reduce", "prefetch"]


def copy(at, op="load", dtype=nv.f16, grid=4, condition=None):
    """A host function with a copy of a box of 8x32 at the coordinates ``at(n)``, row and column."""

    def host(x, n: nv.i32):
        x_tma = nv.TMA(x, tile=(8, 32))
        hint = L2_EVICT_LAST if "hint" in op else None

        @nv.kernel(grid=grid, block=32)
        def kernel():
            tile = nv.smem((8, 32), dtype)
            full = nv.Mbarriers(1, arrivals=1)[0]
            if nv.thread_id.x == 0:
                if op.startswith("load"):
                    full.arrive_expect_tx(tile.bytes)
                    x_tma.load(tile, full, at(n), l2_hint=hint, predicate=condition)  # load
                elif op.startswith("store"):
                    x_tma.store(tile, at(n), l2_hint=hint)  # store
                elif op == "reduce":
                    x_tma.reduce_add(tile, at(n))  # reduce
                else:
                    x_tma.prefetch_tile(at(n))  # prefetch
            if op.startswith("load"):
                full.wait(0)

        kernel()

    def trace():
        nv.jit(host).trace(array(dtype, 64, 256), 3)

    trace.host = host
    return trace


def refused(trace, op="load"):
    with pytest.raises(nv.VerifyError) as caught:
        trace()
    error = caught.value
    assert error.where.line == line(trace.host, f"# {op.split()[0]}") and error.rule and error.fix, error
    return error


@pytest.mark.parametrize("op", OPS)
def test_the_innermost_coordinate_is_a_multiple_of_16_bytes(op):
    copy(lambda n: (3, 8), op)()
    copy(lambda n: (n, n), op)()
    error = refused(copy(lambda n: (3, 4), op), op)
    what = {"reduce": "TMA reduction"}.get(op, f"TMA {op.split()[0]}")
    assert error.message == f"the innermost coordinate of this {what} is 4, 8 bytes of f16"
    assert "a multiple of 16 bytes, here of 8 elements" in error.rule and "multiple of 8 before it" in error.fix


@pytest.mark.parametrize(("dtype", "multiple"), [(nv.i8, 16), (nv.f16, 8), (nv.f32, 4), (nv.f64, 2)])
def test_each_type_has_its_multiple(dtype, multiple):
    for column in (0, multiple, 3 * multiple, -multiple):
        copy(lambda n, c=column: (0, c), dtype=dtype)()
    for column in (1, multiple // 2, multiple + 1, -1):
        error = refused(copy(lambda n, c=column: (0, c), dtype=dtype))
        assert f"is {column}, {column * dtype.bytes} bytes" in error.message


@pytest.mark.parametrize(
    ("column", "found"),
    [
        (lambda n: nv.block_id.x * 64 + 1, "always 1 f16 past a multiple of 8"),
        (lambda n: nv.block_id.x * 60 + 2, "always 2 f16 past a multiple of 4"),
        (lambda n: n * 16 - 4, "always 4 f16 past a multiple of 8"),
    ],
)
def test_lowest_bits_are_enough(column, found):
    assert f"is {found}" in refused(copy(lambda n: (0, column(n)))).message


@pytest.mark.parametrize("column", [lambda n: n, lambda n: n * 4, lambda n: nv.block_id.x * 60, lambda n: n // 8 * 8])
def test_what_may_be_a_multiple_is_accepted(column):
    copy(lambda n: (1, column(n)))()


@pytest.mark.parametrize("op", OPS)
def test_what_goes_to_global_memory_has_no_negative_coordinate(op):
    for at, number in (((-1, 0), 1), ((0, -8), 0)):
        trace = copy(lambda n, at=at: at, op)
        if op.startswith(("store", "reduce")):
            error = refused(trace, op)
            assert f"coordinate {number} of this TMA" in error.message and f"is {min(at)}" in error.message
        else:
            trace()


def loop(columns, *, rounds=None, only=lambda i: True):
    """A host function that stores at the columns ``columns(i)``; ``rounds``: known when it is traced."""

    def host(x, n: nv.i32):
        x_tma = nv.TMA(x, tile=(8, 32))

        @nv.kernel(grid=1, block=32)
        def kernel():
            tile = nv.smem((8, 32), x.dtype)
            if nv.thread_id.x == 0:
                for i in nv.range(n if rounds is None else rounds):
                    if only(i):
                        x_tma.store(tile, (0, columns(i)))  # store

        kernel()

    def trace():
        nv.jit(host).trace(array(nv.f16, 64, 256), 3)

    trace.host = host
    return trace


def test_rounds_of_a_loop():
    loop(lambda i: i * 64)()
    loop(lambda i: i * 60)()  # there may be one round alone
    assert "is 60, 120 bytes" in refused(loop(lambda i: i * 60, rounds=4), "store").message
    loop(lambda i: i * 60, rounds=1)()
    assert "is 4, 8 bytes" in refused(loop(lambda i: i * 60 + 4, rounds=2), "store").message


def test_rounds_that_a_condition_leaves_out():
    loop(lambda i: i * 4, rounds=4, only=lambda i: i % 2 == 0)()
    assert "always 1 f16" in refused(loop(lambda i: i * 8 + 1, rounds=4, only=lambda i: i % 2 == 0), "store").message


def test_copies_that_no_thread_reaches():
    loop(lambda i: 1, rounds=0)()
    loop(lambda i: 1, only=lambda i: nv.thread_id.x > 0)()


def test_each_thread_has_its_own_coordinate():
    def host(x, *, known):
        x_tma = nv.TMA(x, tile=(8, 32))

        @nv.kernel(grid=1, block=32)
        def kernel():
            tile = nv.smem((8, 32), x.dtype)
            if nv.thread_id.x < 2:
                x_tma.store(tile, (0, nv.thread_id.x * known))  # store

        kernel()

    nv.jit(host).trace(array(nv.f16, 64, 256), known=8)
    with pytest.raises(nv.VerifyError, match="is 4, 8 bytes of f16"):
        nv.jit(host).trace(array(nv.f16, 64, 256), known=4)


def test_the_simulator_reports_the_rest():
    def host(x, n: nv.i32):
        x_tma = nv.TMA(x, tile=(8, 32))

        @nv.kernel(grid=1, block=32)
        def kernel():
            if nv.thread_id.x == 0:
                x_tma.prefetch_tile((0, n))  # prefetch

        kernel()

    x = np.zeros((64, 256), np.float16)
    nv.jit(host)(x, 8, target="sim")
    with pytest.raises(SimError, match="TMA prefetch by warp 0 .*innermost coordinate 3 is 6 bytes of f16") as caught:
        nv.jit(host)(x, 3, target="sim")
    assert caught.value.kind == "illegal-copy" and "start the box at 0," in caught.value.fix
