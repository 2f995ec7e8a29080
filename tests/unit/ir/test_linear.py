"""nvdsl/ir/linear.py and ranges.py: what is known of an index while tracing."""

import pytest

import nvdsl as nv
from nvdsl.ir.linear import linear
from nvdsl.ir.ranges import largest
from tests.unit.kernels import array, trace


def known(function, **launch):
    """What ``function`` gives in a kernel, of an argument that may be anything."""
    found = []

    def body(x):
        found.append(function(nv.i32(x[0])))

    trace(body, array(nv.f32, 8), **launch)
    return found[0]


def test_sums_of_multiples():
    def of(any_):
        t = nv.thread_id.x
        one = linear((nv.index(t) * 3 + 4) * 2 - 8 + any_ * 6 - 6 * any_)
        return one.constant, [count for _, count in one.terms.values()], one.step()

    assert known(of) == (0, [6], 6)


def test_the_same_ids_are_one_value():
    assert known(lambda _: linear(nv.thread_id.x * 4 + 7).plus(linear(4 * nv.thread_id.x), -1).constant) == 7
    assert known(lambda _: bool(linear(nv.thread_id.x).plus(linear(nv.thread_id.y), -1).terms))


@pytest.mark.parametrize(("function", "expected"), [
    (lambda x: linear((x & -8) * 2).step(), 16), (lambda x: linear(x * x).step(), 1),
    (lambda x: linear(x * 4 * (x * 6)).step(), 24), (lambda x: linear(x << 5).step(), 32),
    (lambda x: linear(5).step(), 0),
])  # fmt: skip
def test_what_an_index_is_a_multiple_of(function, expected):
    assert known(function) == expected


@pytest.mark.parametrize(("function", "expected"), [
    (lambda x: 7, 7), (lambda x: -1, None), (lambda x: x, None), (lambda x: nv.thread_id.x, 95),
    (lambda x: nv.thread_id.y, 0), (lambda x: nv.block_id.x * 64 + nv.thread_id.x % 32, 64 * 5 + 31),
    (lambda x: nv.block_id.y // 2 * 10 + 3, 13), (lambda x: nv.warp_id(), 2), (lambda x: nv.cluster_rank(), 1),
    (lambda x: nv.cluster_block_id.x, 1), (lambda x: nv.min(x, 4), None), (lambda x: nv.min(nv.thread_id.x, 4), 4),
    (lambda x: x & 15, 15), (lambda x: nv.thread_id.x - 1, None), (lambda x: 100 - nv.thread_id.x, None),
    (lambda x: nv.thread_id.x * nv.block_id.x, 95 * 5), (lambda x: nv.select(x > 0, nv.thread_id.x, 3), 95),
    (lambda x: nv.u32(nv.thread_id.x) % 10, 9), (lambda x: nv.index(nv.thread_id.x) >> 2, 23), (lambda x: x % 8, 7),
])  # fmt: skip
def test_the_largest_that_an_index_can_be(function, expected):
    assert known(lambda x: largest(function(x)), grid=(6, 3), block=96, cluster=2) == expected


def test_variables_of_loops():
    @nv.jit
    def host(x):
        @nv.kernel(grid=1, block=32)
        def body():
            for k in nv.range(2, 20, 4):
                assert (largest(k * 8), linear(k).step()) == (19 * 8, 2)
            for k in nv.range(nv.i32(x[0])):
                assert largest(k) is None

        body()

    host.trace(nv.ShapeDtype((8,), nv.f32))
