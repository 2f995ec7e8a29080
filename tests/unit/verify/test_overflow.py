"""Sums and products of ids that are no i32 in the last thread of a grid too large to simulate."""

import pytest

import nvdsl as nv

LARGE = nv.ShapeDtype((1 << 33,), nv.f32)


def position(x, _):
    i = nv.block_id.x * 64 + nv.thread_id.x  # here
    if i < 1000:
        x[i] = 1.0


def product(x, rows):
    x[nv.block_id.x * (rows * 64)] = 1.0  # here


def loop(x, rows):
    for i in nv.range(nv.block_id.x * rows * 64, (1 << 31) - 1):  # here
        x[i] = 1.0


WRAPS = {  # body: (blocks, the most without a report)
    position: 1 << 25,
    product: 512,
    loop: 512,
}


def wide(x, rows):
    x[nv.i64(nv.block_id.x) * rows * 64] = 1.0


def hashed(x, _):
    x[nv.i32((nv.block_id.x * 1000003 ^ 77) % 64)] = nv.f32(nv.block_id.x * 1000003)


def guarded(x, rows):
    if nv.block_id.x < 10:
        x[nv.block_id.x * rows * 64] = 1.0


def verdict(body, blocks, rows=65536):
    @nv.jit
    def f(x):
        @nv.kernel(grid=blocks, block=64)
        def kernel():
            body(x, rows)

        kernel()

    try:
        f.trace(LARGE)
    except nv.VerifyError as error:
        return error
    return None


@pytest.mark.parametrize("body", WRAPS, ids=lambda body: body.__name__)
def test_ids_that_wrap_around(body):
    error = verdict(body, WRAPS[body] + 1)
    assert error is not None and "beyond i32" in str(error) and "nv.i64(nv.block_id.x)" in str(error)
    line = open(error.where.file).read().splitlines()[error.where.line - 1]
    assert "# here" in line
    assert verdict(body, WRAPS[body]) is None


@pytest.mark.parametrize("body", [wide, hashed, guarded], ids=lambda body: body.__name__)
def test_what_may_wrap_or_does_not(body):
    assert verdict(body, 1 << 20) is None
