"""expect_tx against the bytes of the copies that complete on the same mbarrier."""

import pytest

import nvdsl as nv
from nvdsl.ops import tma
from tests.unit.kernels import array
from tests.unit.verify.verdicts import accepted, line, verdict

X = array(nv.f32, 64, 64)


def load(expected, *, guard=lambda: nv.thread_id.x == 0, second=True, arrivals=1):
    """The host function of a kernel that loads two tiles of 4,096 bytes, or one, onto one barrier."""

    def loads(x):
        x_tma = nv.TMA(x, tile=(16, 64))

        @nv.kernel(grid=1, block=64)
        def kernel():
            one, two = nv.smem((16, 64), nv.f32), nv.smem((16, 64), nv.f32)
            full = nv.Mbarriers(1, arrivals=arrivals)[0]
            if guard():
                full.arrive_expect_tx(expected)
                x_tma.load(one, full, (0, 0))
                if second:
                    x_tma.load(two, full, (16, 0))
            full.wait(0)

        kernel()

    return loads


def check(function, at="", *arguments):
    """Traces; with ``at`` the verdict must be at that line."""
    if not at:
        nv.jit(function).trace(*arguments or (X,))
        return None
    with pytest.raises(nv.VerifyError) as caught:
        nv.jit(function).trace(*arguments or (X,))
    assert caught.value.where.line == line(function, at), caught.value
    return caught.value


def test_the_sum_of_the_boxes_is_expected():
    check(load(8192))
    check(load(4096, second=False))


@pytest.mark.parametrize("expected", [8176, 8208, 4096, 16])
def test_another_number_is_refused(expected):
    function = load(expected)
    error = check(function, "full.arrive_expect_tx(expected)")
    one, two = line(function, "x_tma.load(one"), line(function, "x_tma.load(two")
    assert f"expects {expected:,} bytes" in error.message
    assert f"4,096 (line {one}) + 4,096 (line {two}) = 8,192" in error.message
    assert "expect 8,192 bytes" in error.fix


def test_every_thread_that_expects_counts():
    """Two warps' first lanes each expect and load: twice of both is as good; one of them alone expects too little."""
    check(load(8192, guard=lambda: nv.lane_id() == 0, arrivals=2))
    function = load(4096, guard=lambda: nv.lane_id() == 0, arrivals=2)
    error = check(function, "full.arrive_expect_tx(expected)")
    assert "expects 8,192 bytes" in error.message and "= 16,384" in error.message


def roles(expect_by, load_by):
    def split(x):
        x_tma = nv.TMA(x, tile=(16, 64))

        @nv.kernel(grid=1, block=64)
        def kernel():
            one = nv.smem((16, 64), nv.f32)
            full = nv.Mbarriers(1, arrivals=1)[0]
            if expect_by():
                full.arrive_expect_tx(4096)
            nv.sync_threads()
            if load_by():
                x_tma.load(one, full, (0, 0))
            full.wait(0)

        kernel()

    return split


def test_other_threads_may_load_than_expect():
    check(roles(lambda: nv.thread_id.x == 0, lambda: nv.thread_id.x == 32))
    error = check(roles(lambda: nv.thread_id.x == 0, lambda: nv.lane_id() == 0), "full.arrive_expect_tx(4096)")
    assert "expects 4,096 bytes, and the copies that complete on it bring 8,192" in error.message


def test_what_is_loaded_under_a_condition_of_run_time_is_not_counted():
    def either(x, n):
        x_tma = nv.TMA(x, tile=(16, 64))

        @nv.kernel(grid=1, block=64)
        def kernel():
            one = nv.smem((16, 64), nv.f32)
            full = nv.Mbarriers(1, arrivals=1)[0]
            if nv.thread_id.x == 0:
                full.arrive_expect_tx(4096)
                if n > 3:
                    x_tma.load(one, full, (0, 0))
                else:
                    x_tma.load(one, full, (16, 0))
            full.wait(0)

        kernel()

    check(either, "", X, 4)


def pipelined(first, later):
    """A prologue and a main loop that refills, each with its own expect_tx."""

    def ring(x, n):
        x_tma = nv.TMA(x, tile=(16, 64))

        @nv.kernel(grid=1, block=64)
        def kernel():
            tiles = nv.smem((2, 16, 64), nv.f32)
            full = nv.Mbarriers(2, arrivals=1)
            if nv.thread_id.x == 0:
                full[0].arrive_expect_tx(first)
                x_tma.load(tiles[0], full[0], (0, 0))
            for k in nv.range(n):
                slot = k % 2
                full[slot].wait((k // 2) & 1)
                nv.sync_threads()
                if nv.thread_id.x == 0 and k + 1 < n:
                    following = (k + 1) % 2
                    full[following].arrive_expect_tx(later)
                    x_tma.load(tiles[following], full[following], (k * 16, 0))

        kernel()

    return ring


def test_rings_are_followed_round_by_round():
    check(pipelined(4096, 4096), "", X, 4)
    check(pipelined(4096, 4112), "arrive_expect_tx(later)", X, 4)
    check(pipelined(4080, 4096), "arrive_expect_tx(first)", X, 4)
    check(pipelined(4112, 4080), "", X, 4)  # more here and less there: nobody knows what makes up for what


def test_copies_that_nothing_expects():
    def forgotten(x):
        x_tma = nv.TMA(x, tile=(16, 64))

        @nv.kernel(grid=1, block=64)
        def kernel():
            one = nv.smem((16, 64), nv.f32)
            full = nv.Mbarriers(2, arrivals=1)
            if nv.thread_id.x == 0:
                full[0].arrive_expect_tx(4096)
                x_tma.load(one, full[0], (0, 0))
                full[1].arrive()
                x_tma.load(one, full[1], (16, 0))
            full[0].wait(0)
            full[1].wait(0)

        kernel()

    error = check(forgotten, "x_tma.load(one, full[1]")
    assert "4,096 bytes that nothing expects here" in error.message


def multicast(expected, mask, leader_only=False):
    def shared(x):
        x_tma = nv.TMA(x, tile=(16, 64))

        @nv.kernel(grid=2, block=64, cluster=2)
        def kernel():
            one = nv.smem((16, 64), nv.f32)
            full = nv.Mbarriers(1, arrivals=1, sync=False)[0]
            nv.cluster_sync()
            if nv.thread_id.x == 0:
                full.arrive_expect_tx(expected)
                if not leader_only or nv.cluster_rank() == 0:
                    x_tma.load(one, full, (0, 0), multicast_mask=mask)
            full.wait(0)
            nv.cluster_sync()

        kernel()

    return shared


def test_multicast_brings_bytes_to_every_block_of_its_mask():
    check(multicast(8192, 0b11))
    check(multicast(4096, 0b11, leader_only=True))
    error = check(multicast(4096, 0b11), "full.arrive_expect_tx")
    assert "in block 0 of the cluster bring 8,192" in error.message
    error = check(multicast(4096, 0b01, leader_only=True), "full.arrive_expect_tx")
    assert "expects 4,096 bytes, and the copies that complete on it in block 1 of the cluster bring 0" in error.message
    assert "multicast_mask" in error.fix


def test_copies_without_a_tensor_map():
    def bulk(expected):
        def copies(x):
            @nv.kernel(grid=1, block=64)
            def kernel():
                data = nv.smem((64,), nv.f32)
                full = nv.Mbarriers(1, arrivals=1)[0]
                if nv.thread_id.x == 0:
                    full.arrive_expect_tx(expected)
                    tma.bulk_load(data, x, 256, full)
                full.wait(0)

            kernel()

        return copies

    check(bulk(256))
    assert "bring 256" in check(bulk(128), "full.arrive_expect_tx").message


def test_copies_with_a_cache_hint():
    def hinted(expected):
        def loads(x):
            x_tma = nv.TMA(x, tile=(16, 64))

            @nv.kernel(grid=1, block=64)
            def kernel():
                tile = nv.smem((16, 64), nv.f32)
                full = nv.Mbarriers(1, arrivals=1)[0]
                if nv.thread_id.x == 0:
                    full.arrive_expect_tx(expected)
                    x_tma.load(tile, full, (0, 0), l2_hint=tma.L2_EVICT_FIRST)
                full.wait(0)

            kernel()

        return loads

    check(hinted(4096))
    assert "bring 4,096" in check(hinted(2048), "full.arrive_expect_tx").message


def test_parts_of_a_kernel_are_let_through():
    def body():
        bar = nv.Mbarriers(1, arrivals=1)[0]
        if nv.thread_id.x == 0:
            bar.arrive_expect_tx(512)

    accepted(body)


def test_the_thin_form_with_its_predicate():
    def body(x):
        bars = nv.Mbarriers(1)
        first = nv.thread_id.x == 0
        bars[0].init(1, predicate=first)
        nv.sync_threads()
        data = nv.smem((64,), nv.f32)
        bars[0].arrive(txcount=512, predicate=first)
        if first:
            tma.bulk_load(data, x, 256, bars[0])
        bars[0].try_wait(0)

    error = verdict(body, "bars[0].arrive(", array(nv.f32, 64))
    assert "expects 512 bytes" in error.message and "bring 256" in error.message
