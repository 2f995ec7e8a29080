"""Global memory between blocks and launches, and which blocks are there at a time: each kernel with and without its
mistake."""

import inspect
import time

import numpy as np
import pytest

import nvdsl as nv
from nvdsl import sim
from nvdsl.hopper.occupancy import resident_clusters
from nvdsl.mlir import ir
from nvdsl.mlir.dialects import arith, llvm, memref
from nvdsl.ops import cluster, memory
from nvdsl.ops.pointer import GLOBAL, address_of
from nvdsl.sim.histories import Histories, Touch
from nvdsl.sim.report import Access
from nvdsl.values.traced import const, wrap
from tests.sim.simulate import SCHEDULES, run, traced, verdict, verdict_of, zeros

EVERY = SCHEDULES[:8]


def ints(*shape):
    return np.zeros(shape, np.int32)


def clean(kernel, *arrays, **switches):
    program = traced(kernel, *arrays, **switches)
    for options in EVERY:
        for array in arrays:
            array[...] = 0
        error = verdict_of(program, options)
        assert error is None, f"{options}: {error}"


def reported(kernel, marks, kinds, *arrays, **switches):
    """In every schedule, at one of the marked lines."""
    lines, first = inspect.getsourcelines(kernel._function)
    program = traced(kernel, *arrays, **switches)
    for options in EVERY:
        for array in arrays:
            array[...] = 0
        error = verdict_of(program, options)
        assert error is not None, options
        assert error.kind in kinds, f"{options}: {error}"
        assert any(mark in lines[error.where.line - first] for mark in marks), f"{options}: {error}"


# --- all readers, all atomics


@nv.jit
def shifted(x, y, *, in_place):
    """Each block reads the first element of the next one, which is read by that one last."""
    target = x if in_place else y

    @nv.kernel(grid=3, block=32)
    def body():
        i = nv.block_id.x * 32 + nv.thread_id.x
        a, b = x[i], x[(i + 32) % 96]  # READ
        nv.sync_threads()
        target[i] = a + b  # WRITE

    body()


def test_a_reader_that_is_not_the_last():
    clean(shifted, zeros(96), zeros(96), in_place=False)
    reported(shifted, ["READ", "WRITE"], ["war", "raw"], zeros(96), zeros(96), in_place=True)


@nv.jit
def summed(x, total, out, *, last):
    """All blocks add; who reads the sum?"""

    @nv.kernel(grid=4, block=32)
    def body():
        t, me = nv.thread_id.x, nv.block_id.x
        memref.atomic_rmw(arith.AtomicRMWKind.addf, x[me * 32 + t], total, [nv.index(t)])  # ADD
        if last == "index":
            if me == 3:
                out[t] = total[t]  # SUM

    body()
    if last == "launch":

        @nv.kernel(grid=1, block=32)
        def finish():
            out[nv.thread_id.x] = total[nv.thread_id.x]

        finish()


def test_an_atomic_that_is_not_the_last():
    clean(summed, zeros(128), zeros(32), zeros(32), last="launch")
    reported(summed, ["SUM", "ADD"], ["raw", "war"], zeros(128), zeros(32), zeros(32), last="index")


@nv.jit
def polled_and_cleared(flag, out, *, atomic):
    """Block 1 lowers the flag that block 2 may still look at."""

    @nv.kernel(grid=3, block=32)
    def body():
        t, me = nv.thread_id.x, nv.block_id.x
        if t == 0:
            if me == 0:
                memory.store_release(flag, 0, 1)
            elif me == 1:
                if atomic:
                    memory.store_release(flag, 0, 2)
                else:
                    flag[0] = 2  # CLEAR
            else:
                out[0] = memory.load_acquire(flag, 0)  # LOOK

    body()


def test_an_ordinary_store_beside_an_atomic_load():
    clean(polled_and_cleared, ints(4), ints(4), atomic=True)
    marks = ["CLEAR", "LOOK", "store_release"]
    reported(polled_and_cleared, marks, ["war", "raw", "waw"], ints(4), ints(4), atomic=False)


def test_histories_of_many_readers_are_shared_and_short():
    class Block:
        rank = 0

        class cluster:
            number = 0

    histories = Histories()
    number = 0
    for epoch in range(1000):
        access = Access("warp", "load", "generic", None)
        number = histories.after(number, histories.add(Touch(Block, epoch % 4, epoch, access, False)))
    assert len(histories.since(number)) == 4, "of each thread the last one"
    store = histories.add(Touch(Block, 0, 2000, Access("warp", "store", "generic", None), True))
    assert histories.since(histories.after(number, store)) == ()
    kept = histories.keep([0, 1, number])
    assert kept[0] == 0 and kept[1] == 1 and len(histories) == 3


@nv.jit
def moved(a, b):
    @nv.kernel(grid=2, block=32)
    def body():
        i = nv.block_id.x * 32 + nv.thread_id.x
        b[i] = a[(i + 32) % 64]

    body()


def test_one_array_by_two_names():
    x = np.arange(64, dtype=np.float32)
    assert verdict(moved, x, x.copy()) is None
    assert verdict(moved, x, x).kind in ("raw", "war")


# --- what nobody wrote


@nv.jit
def workspace(x, out, *, make, use):
    work = {"zeros": nv.zeros, "empty": nv.empty}[make]((64,), nv.i32)
    if make == "empty" and use == "written":

        @nv.kernel(grid=1, block=64)
        def fill():
            work[nv.thread_id.x] = 0

        fill()

    @nv.kernel(grid=2, block=64)
    def body():
        t = nv.thread_id.x
        if use == "load":
            out[nv.block_id.x * 64 + t] = work[t]  # USE
        elif use == "flag":
            if nv.block_id.x == 0:
                if t == 0:
                    memory.store_release(work, 0, 1)
            else:
                if t == 0:
                    while memory.load_acquire(work, 0) != 1:  # USE
                        pass
        else:
            memref.atomic_rmw(arith.AtomicRMWKind.addi, x[t], work, [nv.index(t)])  # USE

    body()


@pytest.mark.parametrize("use", ["load", "add", "flag"])
def test_scratch_that_nobody_wrote(use):
    clean(workspace, ints(64), ints(128), make="zeros", use=use)
    reported(workspace, ["USE"], ["uninitialized"], ints(64), ints(128), make="empty", use=use)


def test_scratch_that_a_launch_before_wrote():
    clean(workspace, ints(64), ints(128), make="empty", use="written")


@nv.jit
def loaded(x, out, *, rows, used):
    """A box of scratch of which some rows were written: who doesn't use the others is right."""
    work = nv.empty((16, 64), nv.f32)

    @nv.kernel(grid=1, block=64)
    def fill():
        for i in nv.range(rows):
            work[i, nv.thread_id.x] = x[i, nv.thread_id.x]

    fill()
    work_tma = nv.TMA(work, tile=(16, 64))

    @nv.kernel(grid=1, block=64)
    def body():
        tile = nv.smem((16, 64), nv.f32)
        full = nv.Mbarriers(1, arrivals=1)[0]
        t = nv.thread_id.x
        if t == 0:
            full.arrive_expect_tx(tile.bytes)
            work_tma.load(tile, full, (0, 0))  # COPY
        full.wait(0)
        for i in nv.range(used):
            out[i, t] = tile[i, t]  # USE

    body()


@pytest.mark.parametrize(("rows", "used", "mark"), [(16, 16, ""), (12, 12, ""), (12, 13, "USE"), (0, 1, "COPY")])
def test_a_copy_of_what_nobody_wrote(rows, used, mark):
    arrays = zeros(16, 64), zeros(16, 64)
    if mark:
        reported(loaded, [mark], ["uninitialized"], *arrays, rows=rows, used=used)
    else:
        clean(loaded, *arrays, rows=rows, used=used)


@nv.jit
def odd(x, out):
    """A copy of rows that end within a unit of four bytes, of which the rest is padding."""
    work = nv.empty((16, 72), nv.f16)[:, :67]

    @nv.kernel(grid=1, block=128)
    def fill():
        t = nv.thread_id.x
        if t < 67:
            for i in nv.range(16):
                work[i, t] = x[i, t]

    fill()
    work_tma = nv.TMA(work, tile=(16, 64))

    @nv.kernel(grid=1, block=64)
    def body():
        tile = nv.smem((16, 64), nv.f16)
        full = nv.Mbarriers(1, arrivals=1)[0]
        t = nv.thread_id.x
        if t == 0:
            full.arrive_expect_tx(tile.bytes)
            work_tma.load(tile, full, (0, 64))
        full.wait(0)
        if t < 2:
            for i in nv.range(16):
                out[i, t] = nv.f32(tile[i, 2 * t])

    body()


def test_padding_beside_the_last_element():
    x, out = np.ones((16, 72), np.float16), zeros(16, 64)
    assert verdict(odd, x, out) is None
    assert (out[:, :2] == 1).all()


@nv.jit
def numbered(out, *, last):
    """A counter that is to be 0 again."""
    count = nv.zeros(2, nv.i32, restored=True)  # ZEROS

    @nv.kernel(grid=2, block=32)
    def body():
        if nv.thread_id.x == 0:
            out[nv.block_id.x] = count.atomic_inc(1, last)

    body()


def test_zeros_that_are_restored():
    clean(numbered, ints(2), last=1)
    reported(numbered, ["ZEROS"], ["not-restored"], ints(2), last=2)


@nv.jit
def marked(out, *, value):
    """A flag that is up when it is a number that no memory has by chance."""
    flags = nv.empty(1, nv.i64, arbitrary=True)

    @nv.kernel(grid=2, block=32)
    def body():
        if nv.thread_id.x == 0:
            if nv.block_id.x == 0:
                memory.store_release(flags, 0, value)
            else:
                while memory.load_acquire(flags, 0) != value:
                    pass
                out[0] = 1

    body()


def test_memory_that_may_hold_anything():
    clean(marked, ints(4), value=0x5CE1_B0A7_3D92_F64B)


@nv.jit
def in_turns(out, *, acquire, scope="gpu", alone=False):
    """Three blocks, which add to one float after the other. ``alone``: in any order."""
    total, turn = nv.empty(1, nv.f32, in_turn=not alone), nv.zeros(1, nv.i32)

    @nv.kernel(grid=1, block=32)
    def begin():
        total[0] = 0.0

    @nv.kernel(grid=3, block=32)
    def body():
        if nv.thread_id.x == 0:
            if not alone:
                while turn.atomic_or(0, 0, order="acquire" if acquire else "relaxed") != nv.block_id.x:
                    pass
            total.atomic_add(0, 1.0, scope=scope)  # SUM
            memory.store_release(turn, 0, nv.block_id.x + 1)

    @nv.kernel(grid=1, block=32)
    def end():
        out[0] = nv.i32(total[0])

    begin(), body(), end()


def test_sums_in_turn():
    """Two atomics are no race, and yet the second one may come first."""
    clean(in_turns, ints(1), acquire=True)
    reported(in_turns, ["SUM"], ["out-of-turn"], ints(1), acquire=False)
    reported(in_turns, ["SUM"], ["scope"], ints(1), acquire=False, scope="cta")
    clean(in_turns, ints(1), acquire=False, alone=True)


@nv.jit
def reduced_in_turns(out, *, done):
    """The same by bulk reductions; ``done``: told of when they are."""
    total, turn = nv.empty((1, 32), nv.f32, in_turn=True), nv.zeros(1, nv.i32)
    tma = nv.TMA(total, tile=(1, 32))

    @nv.kernel(grid=1, block=32)
    def begin():
        total[0, nv.thread_id.x] = 0.0

    @nv.kernel(grid=2, block=32)
    def body():
        ones = nv.smem((1, 32), nv.f32)
        ones[0, nv.thread_id.x] = 1.0
        nv.fence_proxy_async()
        nv.sync_threads()
        if nv.thread_id.x == 0:
            while memory.load_acquire(turn, 0) != nv.block_id.x:
                pass
            tma.reduce_add(ones, (0, 0))  # SUM
            nv.bulk_commit_group()
            nv.bulk_wait_group(0, read=not done)
            memory.store_release(turn, 0, nv.block_id.x + 1)

    @nv.kernel(grid=1, block=32)
    def end():
        out[nv.thread_id.x] = nv.i32(total[0, nv.thread_id.x])

    begin(), body(), end()


def test_bulk_reductions_in_turn():
    clean(reduced_in_turns, ints(32), done=True)
    reported(reduced_in_turns, ["SUM"], ["out-of-turn"], ints(32), done=False)


# --- flags


@nv.jit
def flagged(flag, data, out, *, value):
    """Two launches that hand over by one flag. ``value``: of launch n."""

    def step(n):
        want = {"same": 1, "round": n + 1, "up": 1}[value]

        @nv.kernel(grid=2, block=64)
        def body():
            t = nv.thread_id.x
            if nv.block_id.x == 0:
                data[t] = t + 1000 * n  # DATA
                nv.sync_threads()
                if t == 0:
                    memory.store_release(flag, 0, n + 1 if value == "up" else want)
            else:
                if t == 0:
                    while memory.load_acquire(flag, 0) < want:  # LOOK
                        pass
                nv.sync_threads()
                out[n, t] = data[t]  # OUT

        body()

    step(0)
    step(1)


def test_a_flag_that_is_up_from_the_launch_before():
    clean(flagged, ints(4), ints(64), ints(2, 64), value="round")
    lines, first = inspect.getsourcelines(flagged._function)
    for value in ("same", "up"):
        error = verdict(flagged, ints(4), ints(64), ints(2, 64), value=value)
        assert error.kind == "stale-flag", error
        assert "# LOOK" in lines[error.where.line - first]
        for options in EVERY:
            if value == "same" or options.delivery != "eager":
                assert verdict_of(traced(flagged, ints(4), ints(64), ints(2, 64), value=value), options) is not None


@nv.jit
def polled(flag, data, out, *, same, loop):
    """The same with the load in a line of its own."""

    def step(n):
        want = 1 if same else n + 1

        @nv.kernel(grid=2, block=64)
        def body():
            t = nv.thread_id.x
            if nv.block_id.x == 0:
                data[t] = t + 1000 * n
                nv.sync_threads()
                if t == 0:
                    memory.store_release(flag, 0, want)
            else:
                if t == 0:
                    seen = memory.load_acquire(flag, 0)  # READ
                    if loop:
                        while (seen + 1) * 2 < 2 * want + 2:  # LOOP
                            seen = memory.load_acquire(flag, 0)
                    elif seen == want:  # BRANCH
                        out[n, 0] = data[1]
                if loop:
                    nv.sync_threads()
                    out[n, t] = data[t]

        body()

    step(0)
    step(1)


@pytest.mark.parametrize(("loop", "mark"), [(True, "LOOP"), (False, "BRANCH")])
def test_a_stale_flag_is_reported_where_it_decides(loop, mark):
    clean(polled, ints(4), ints(64), ints(2, 64), same=False, loop=loop)
    lines, first = inspect.getsourcelines(polled._function)
    error = verdict(polled, ints(4), ints(64), ints(2, 64), same=True, loop=loop)
    assert error.kind == "stale-flag", error
    assert f"# {mark}" in lines[error.where.line - first]
    read = next(i for i, line in enumerate(lines, first) if "# READ" in line)
    assert f":{read}" in error.details[0]


def test_a_flag_that_is_up_from_the_call_before():
    flag = ints(4)
    flag[0] = 1
    error = verdict(flagged, flag, ints(64), ints(2, 64), value="round")
    assert error.kind == "stale-flag"


@nv.jit
def averaged(x, most, counter, *, wait):
    """Both blocks see what is the greatest; one of them changes what it was made of."""

    @nv.kernel(grid=2, block=32)
    def body():
        b, t = nv.block_id.x, nv.thread_id.x
        for step in range(3):
            most.atomic_max(step, x[t] + b)  # LOOK
            nv.grid_sync(counter)
            if b == 0:
                x[t] = most[step]  # CHANGE
            if wait:
                nv.grid_sync(counter)

    body()


def test_a_race_beside_a_barrier_of_the_grid_is_no_stale_flag():
    clean(averaged, ints(32), ints(3), ints(1), wait=True)
    error = verdict(averaged, ints(32), ints(3), ints(1), wait=False)
    assert error.kind in ("raw", "war"), error
    lines, first = inspect.getsourcelines(averaged._function)
    assert any(mark in lines[error.where.line - first] for mark in ("# LOOK", "# CHANGE")), error


@nv.jit
def passed_on(y, flag, *, meet):
    """Each lane fences what it added; one of them tells the next block."""

    @nv.kernel(grid=3, block=32)
    def body():
        b, t = nv.block_id.x, nv.thread_id.x
        while flag.atomic_add(0, 0) != b:
            nv.nanosleep(20)
        nv.threadfence()
        y[t] = y[t] + b
        nv.threadfence()
        if meet:
            nv.sync_warp()
        if t == 0:
            flag.atomic_add(0, 1)  # TELL

    body()


def test_a_fence_of_every_lane_is_not_told_by_one_of_them():
    clean(passed_on, ints(32), ints(1), meet=True)
    reported(passed_on, ["TELL"], ["warp-sync"], ints(32), ints(1), meet=False)


# --- scopes


@nv.jit
def counted(counter, *, scope):
    @nv.kernel(grid=4, block=32, cluster=2)
    def body():
        at = address_of(counter, space=GLOBAL)
        order = {"ordering": llvm.AtomicOrdering.monotonic, "syncscope": scope}
        llvm.atomicrmw(llvm.AtomicBinOp.add, at, const(1, nv.i32), **order)  # ADD

    body()


@nv.jit
def raised(flag, data, out, *, release, acquire):
    @nv.kernel(grid=2, block=32)
    def body():
        t = nv.thread_id.x
        if nv.block_id.x == 0:
            data[t] = t
            nv.sync_warp()
            if t == 0:
                memory.store_release(flag, 0, 1, scope=release)  # STORE
        else:
            if t == 0:
                while memory.load_acquire(flag, 0, scope=acquire) == 0:  # LOAD
                    pass
            nv.sync_warp()
            out[t] = data[t]

    body()


def test_scopes():
    clean(counted, ints(4), scope="device")
    for scope in ("block", "cluster"):
        reported(counted, ["ADD"], ["scope"], ints(4), scope=scope)
    clean(raised, ints(4), ints(32), ints(32), release="gpu", acquire="sys")
    for release, acquire in (("cta", "gpu"), ("gpu", "cta"), ("gpu", "cluster")):
        switches = {"release": release, "acquire": acquire}
        reported(raised, ["STORE", "LOAD"], ["scope"], ints(4), ints(32), ints(32), **switches)


@nv.jit
def counted_in_block(counter):
    @nv.kernel(grid=2, block=64)
    def body():
        one = {"ordering": llvm.AtomicOrdering.monotonic, "syncscope": "block"}
        mine = nv.index(nv.block_id.x)
        i32 = ir.IntegerType.get_signless(32)
        at = llvm.getelementptr(
            ir.Type.parse("!llvm.ptr<1>"), address_of(counter, space=GLOBAL), [nv.i32(mine)], [-(2**31)], i32, None
        )
        llvm.atomicrmw(llvm.AtomicBinOp.add, at, const(1, nv.i32), **one)

    body()


def test_a_blocks_own_counter():
    counter = ints(4)
    assert verdict(counted_in_block, counter) is None
    assert counter[:2].tolist() == [64, 64]


# --- programmatic dependent launch


@nv.jit
def chained(x, y, z, out, *, second_waits, plain):
    @nv.kernel(grid=1, block=32)
    def first():
        cluster.griddep_launch_dependents()
        y[nv.thread_id.x] = x[nv.thread_id.x] + 1.0

    @nv.kernel(grid=1, block=32, programmatic=True)
    def second():
        cluster.griddep_launch_dependents()
        if second_waits == "one":
            if nv.thread_id.x == 0:
                nv.griddep_wait()
        elif second_waits == "all":
            nv.griddep_wait()
        z[nv.thread_id.x] = x[nv.thread_id.x] * 3.0

    @nv.kernel(grid=1, block=32, programmatic=not plain)
    def third():
        if not plain:
            nv.griddep_wait()
        out[nv.thread_id.x] = y[nv.thread_id.x] + z[nv.thread_id.x]  # THIRD

    first()
    second()
    third()


@pytest.mark.parametrize(("second_waits", "plain", "right"), [
    ("all", False, True), ("one", False, True), ("none", False, False), ("none", True, True),
])  # fmt: skip
def test_a_launch_before_the_one_before(second_waits, plain, right):
    arrays = [zeros(32) for _ in range(4)]
    if right:
        clean(chained, *arrays, second_waits=second_waits, plain=plain)
    else:
        reported(chained, ["THIRD"], ["grid-dependency"], *arrays, second_waits=second_waits, plain=plain)


# --- which blocks are there, and in which order they start


@nv.jit
def meeting(counter, out, *, blocks, block, cluster, smem):
    """All blocks of the grid wait for each other."""

    @nv.kernel(grid=blocks, block=block, cluster=cluster)
    def body():
        big = nv.smem((smem,), nv.i32)
        if nv.thread_id.x == 0:
            big[0] = 1
            memref.atomic_rmw(arith.AtomicRMWKind.addi, const(1, nv.i32), counter, [const(0)])
            while memory.load_acquire(counter, 0) < blocks:  # WAIT
                pass
            out[nv.block_id.x] = big[0]

    body()


@pytest.mark.parametrize(
    ("blocks", "block", "cluster", "smem", "fits"),
    [
        (132, 32, 1, 50_000, True), (133, 32, 1, 50_000, False),  # one on each SM
        (264, 32, 1, 25_000, True), (265, 32, 1, 25_000, False),
        (132, 1024, 2, 50_000, True), (134, 1024, 2, 50_000, False),
        (120, 32, 4, 50_000, True), (124, 32, 4, 50_000, False),
        (120, 32, 8, 50_000, True), (128, 32, 8, 50_000, False),
    ],
)  # fmt: skip
def test_blocks_that_wait_for_all_others(blocks, block, cluster, smem, fits):
    counter, out = ints(4), ints(blocks)
    switches = {"blocks": blocks, "block": block, "cluster": cluster, "smem": smem}
    error = verdict(meeting, counter, out, **switches)
    if fits:
        assert error is None and out.all(), error
    else:
        assert error.kind == "deadlock" and "at a time" in str(error), error


def test_resident_clusters():
    assert [resident_clusters(size, 1) for size in (1, 2, 4, 8, 16)] == [132, 66, 30, 15, 7]
    assert resident_clusters(2, 2) == 132


@nv.jit
def ordered(flags, ticket, *, by):
    """Each block waits for the one before: by index, or by the ticket that it drew."""

    @nv.kernel(grid=40, block=1024)
    def body():
        big = nv.smem((50_000,), nv.i32)
        if nv.thread_id.x == 0:
            big[0] = nv.block_id.x
            if by == "ticket":
                drawn = memref.atomic_rmw(arith.AtomicRMWKind.addi, const(1, nv.i32), ticket, [const(0)])
                big[0] = wrap(drawn, nv.i32)
            me = big[0]
            if me > 0:
                while memory.load_acquire(flags, me - 1) == 0:
                    pass
            memory.store_release(flags, me, 1)

    body()


def test_blocks_start_in_any_order(monkeypatch):
    monkeypatch.setattr("nvdsl.sim.schedule.resident_clusters", lambda size, blocks: 10)
    for options in EVERY:
        assert verdict_of(traced(ordered, ints(40), ints(4), by="ticket"), options) is None
    found = {o.order: verdict_of(traced(ordered, ints(40), ints(4), by="index"), o) for o in EVERY[:6]}
    assert found["reverse"].kind == found["random"].kind == "deadlock"


# --- loops that poll


@nv.jit
def waiting(flag, out, *, how):
    @nv.kernel(grid=1, block=256)
    def body():
        t = nv.thread_id.x
        if how == "load":
            while memory.load_acquire(flag, 0) == 0:  # POLL
                pass
        elif how == "sleep":
            while memory.load_acquire(flag, 0) == 0:  # POLL
                nv.nanosleep(100)
        elif how == "exchange":
            seen = nv.i32(0)
            while seen == 0:  # POLL
                seen = wrap(memref.atomic_rmw(arith.AtomicRMWKind.ori, const(0, nv.i32), flag, [const(0)]), nv.i32)
        else:
            n = nv.i32(0)
            while memory.load_acquire(flag, 0) == 0:  # POLL
                n += 1
            out[t] = n

    body()


@pytest.mark.parametrize("how", ["load", "sleep", "exchange"])
def test_a_flag_that_nobody_raises(how):
    start = time.process_time()
    error = verdict(waiting, ints(4), ints(256), how=how)
    assert error.kind == "deadlock", error
    lines, first = inspect.getsourcelines(waiting._function)
    assert "# POLL" in lines[error.where.line - first] or how == "sleep"
    assert time.process_time() - start < 3


def test_turns_that_differ_are_counted():
    start = time.process_time()
    error = verdict(waiting, ints(4), ints(256), how="count", options=sim.Options(steps=20_000))
    assert error.kind == "deadlock", error
    assert time.process_time() - start < 5


@nv.jit
def turning(x, out, *, turns):
    """A loop that computes when it ends, whatever it reads."""

    @nv.kernel(grid=1, block=32)
    def body():
        n, total = nv.i32(0), nv.i32(0)
        while nv.vote_any(n != turns):
            total = total * 3 + x[0] if n > 1 else total + 1
            n += 1
        out[nv.thread_id.x] = total

    body()


def test_a_loop_that_computes_is_no_poll():
    """And one that never ends is reported all the same."""
    few = sim.Options(steps=200)
    assert verdict(turning, ints(4), ints(32), turns=400, options=few) is None
    error = verdict(turning, ints(4), ints(32), turns=-1, options=few)
    assert error.kind == "deadlock" and "does it end?" in str(error)


@nv.jit
def until(flag, out, *, tries):
    """A loop that looks a number of times, and gives up."""

    @nv.kernel(grid=1, block=32)
    def body():
        n = nv.i32(0)
        seen = memory.load_acquire(flag, 0)
        while (seen == 0) & (n < tries):
            n += 1
            seen = memory.load_acquire(flag, 0)
        out[nv.thread_id.x] = n

    body()


def test_a_loop_that_gives_up_is_no_deadlock():
    out = ints(32)
    run(until, ints(4), out, tries=5000)
    assert (out == 5000).all()


# --- the same value by several


@nv.jit
def told_by_all(x, out, *, wrong):
    """Every thread of a block stores the block's sum, and every block that there was one; a second store in the same
    line, of other values, has no excuse, and none has a row that every block stores."""

    @nv.kernel(grid=2, block=64)
    def body():
        total = nv.block.sum(x[nv.thread_id.x])
        out[1 + nv.block_id.x] = total
        for i in nv.range(2):
            out[3 * i] = nv.select(wrong == "other" and i == 1, nv.block_id.x, 7)  # WRITE
        if wrong == "row":
            out[4 + nv.thread_id.x] = x[nv.thread_id.x]  # WRITE

    body()


def test_the_same_value_by_all():
    clean(told_by_all, ints(64), ints(68), wrong="")
    out = ints(68)
    run(told_by_all, np.ones(64, np.int32), out, wrong="")
    assert out[:4].tolist() == [7, 64, 64, 7]
    for wrong in ("other", "row"):
        reported(told_by_all, ["WRITE"], ["waw"], ints(64), ints(68), wrong=wrong)
