"""Shared memory that nothing wrote, and what becomes of it: in TMA stores, in vectors, in the sums of a wgmma."""

import inspect
import itertools

import numpy as np
import pytest

import nvdsl as nv
from nvdsl import sim
from nvdsl.lang.accumulator import pack_pair
from nvdsl.mlir.dialects import gpu, llvm, nvvm
from nvdsl.values.traced import wrap
from tests.exhaustive import sample
from tests.sim.simulate import run, traced, verdict, verdict_of, zeros

LEVELS = sim.options.LEVELS


def here(kernel, text="# here"):
    lines, first = inspect.getsourcelines(kernel._function)
    return first + next(i for i, one in enumerate(lines) if text in one)


def reported(kernel, *arguments, level="traced", **how):
    """The error's kind where it is at the line; None where there is none."""
    error = verdict_of(traced(kernel, *arguments, **how), sim.Options(level=level))
    if error is None:
        return None
    assert error.where.line == here(kernel), error
    return error.kind


@nv.jit
def staged(out, *, rows):
    """A TMA store of 16 rows, of which ``rows`` were filled."""
    out_tma = nv.TMA(out, tile=(16, 64))

    @nv.kernel(grid=1, block=64)
    def body():
        tile = nv.smem((16, 64), out.dtype)
        t = nv.thread_id.x
        for i in nv.range(rows):
            tile[i, t] = 1.0
        nv.fence_proxy_async()
        nv.sync_threads()
        if t == 0:
            out_tma.store(tile, (0, 0))  # here
            nv.bulk_commit_group()
            nv.bulk_wait_group(0)

    body()


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize(("rows", "extent", "kind"), [(16, 16, None), (15, 16, "uninitialized"), (12, 12, None)])
def test_a_tma_store(rows, extent, kind, level):
    """Rows beyond the array are not read."""
    assert reported(staged, zeros(extent, 64), rows=rows, level=level) == kind


@nv.jit
def bulk(out, *, elements):
    @nv.kernel(grid=1, block=32)
    def body():
        line = nv.smem((64,), nv.f32)
        t = nv.thread_id.x
        for i in nv.range(0, elements, 32):
            line[i + t] = 1.0
        nv.fence_proxy_async()
        nv.sync_warp()
        if t == 0:
            nv.bulk_store(out, line, 256)  # here
            nv.bulk_commit_group()
            nv.bulk_wait_group(0)

    body()


def test_a_bulk_store():
    assert reported(bulk, zeros(64), elements=64) is None
    assert reported(bulk, zeros(64), elements=32) == "uninitialized"


@nv.jit
def quads(out, *, used):
    """Of each four elements the first three are written."""

    @nv.kernel(grid=1, block=32)
    def body():
        line = nv.smem((128,), nv.f32)
        t = nv.thread_id.x
        for i in nv.range(3):
            line[4 * t + i] = nv.f32(i)
        nv.sync_warp()
        four = line.load_vector((4 * t,), 4)  # here
        total = four[0]
        for i in range(1, used):
            total = total + four[i]
        out[t] = total

    body()


@pytest.mark.parametrize("level", LEVELS)
def test_elements_of_a_vector_that_nobody_uses(level):
    assert reported(quads, zeros(32), used=3, level=level) is None
    assert reported(quads, zeros(32), used=4, level=level) == "uninitialized"


# --- sums of a wgmma


def elements(acc, d, limit):
    for row, col, value in acc.elements():
        if row < limit[0] and col < limit[1]:
            d[row, col] = value  # elements


def stored(acc, d, limit):
    acc.store(d, (0, 0))  # stored


def scaled(acc, d, limit):
    elements(acc.map(lambda x: nv.max(x * 2.0, 0.0)), d, limit)


def selected(acc, d, limit):
    for row, col, value in acc.elements():
        kept = nv.select(row < limit[0], value, nv.f32(0.0))
        d[row, col] = nv.select(col < limit[1], kept, nv.f32(0.0))  # selected


def branched(acc, d, limit):
    for row, col, value in acc.elements():
        kept = nv.f32(0.0)
        if row < limit[0] and col < limit[1]:
            kept = nv.f32(value)
        d[row, col] = kept  # branched


def added(acc, d, limit):
    """Each thread's own sum, of the elements that are there."""
    total = nv.f32(0.0)
    for row, col, value in acc.elements():
        if row < limit[0] and col < limit[1]:
            total = total + value
    d[nv.thread_id.x // 2, nv.thread_id.x % 2] = total  # added


@nv.jit
def padded(a, b, d, *, use, a_rows=48, b_rows=64, limit=(48, 64), acc_type=nv.f32, twice=False):
    """A's first ``a_rows`` rows and the first ``b_rows`` of B (N x K) are loaded."""
    a_tma, b_tma = nv.TMA(a, (a_rows, 64), swizzle=128), nv.TMA(b, (b_rows, 64), swizzle=128)

    @nv.kernel(grid=1, block=128)
    def body():
        A, B = nv.smem((64, 64), a.dtype, swizzle=128), nv.smem((64, 64), b.dtype, swizzle=128)
        full = nv.Mbarriers(1, arrivals=1)[0]
        if nv.thread_id.x == 0:
            full.arrive_expect_tx(a_tma.bytes + b_tma.bytes)
            a_tma.load(A.rows(0, a_rows), full, (0, 0))
            b_tma.load(B.rows(0, b_rows), full, (0, 0))
        full.wait(0)
        acc = nv.accumulator(64, 64, acc_type)
        acc += A @ B.T
        nv.wgmma_wait(0)
        if twice:
            acc = acc.map(lambda x: x + 1.0)
            acc += A @ B.T
            nv.wgmma_wait(0)
        use(acc, d, limit)

    body()


def sums(use, level="traced", **how):
    a, b = np.ones((64, 64), np.float16), np.ones((64, 64), np.float16)
    return verdict_of(traced(padded, a, b, zeros(64, 64), use=use, **how), sim.Options(level=level))


def looped(acc, d, limit):
    """Each thread's own sum, carried by a loop."""
    total = nv.f32(0.0)
    for i in nv.range(3):
        for row, col, value in acc.elements():
            if row < limit[0] and col < limit[1]:
                total = total + value * nv.f32(i)
    d[nv.thread_id.x // 2, nv.thread_id.x % 2] = total  # looped


def remade(acc, d, limit):
    """A loop carries the registers, and shifts them by one: the first two leave it."""
    (values,) = acc.registers()
    first, second = values[0], values[1]
    for _ in nv.range(2):
        first, second = second, first * 2.0
    for row, _, _ in list(acc.elements())[:1]:
        if row < limit[0]:
            d[row, nv.lane_id() % 4] = first + second


def mapped(acc, d, limit):
    """A loop carries the whole accumulator; a branch changes it."""
    for i in nv.range(2):
        if nv.block_id.x == i:
            acc = acc.map(lambda x: x * 2.0)
    elements(acc, d, limit)


def polled(acc, d, limit):
    """The same in a while loop; each lane leaves it in its turn."""
    row, _, value = next(iter(acc.elements()))
    turns, total = nv.i32(0), nv.f32(0.0)
    while turns < nv.lane_id() % 3 + 1:
        total = total + value
        turns += 1
    if row < limit[0]:
        d[row, nv.lane_id() % 4] = total


def reduced(acc, d, limit):
    """Each row's sum, over its four lanes; columns beyond the limit count as 0."""
    for half in range(2):
        total, row = nv.f32(0.0), nv.i32(0)
        for i, (at, col, value) in enumerate(acc.elements()):
            if i // 2 % 2 == half:
                total, row = total + nv.select(col < limit[1], value, nv.f32(0.0)), at
        for by in (1, 2):
            total = total + nv.shuffle_xor(total, by)
        if row < limit[0] and nv.lane_id() % 4 == 0:
            d[row, 0] = total


def maximum(acc, d, limit):
    """Through a loop, a shuffle and exp2 and scaling, as an online softmax does it."""
    row, _, value = next(iter(acc.elements()))
    top = nv.f32(0.0)
    for _ in nv.range(2):
        top = nv.max(top, value)
        top = nv.max(top, nv.shuffle_xor(top, 1))
    if row < limit[0]:
        d[row, nv.lane_id() % 4] = nv.math.exp2(top)


def upstream(acc, d, limit):
    """gpu.shuffle and redux.sync."""
    row, _, value = next(iter(acc.elements()))
    word = gpu.shuffle(value, nv.i32(4), nv.i32(32), gpu.ShuffleMode.XOR)[0]
    kept = nv.select(row < limit[0], nv.f32(word), nv.f32(0.0))
    all_rows = nvvm.redux_sync(nv.i32(kept), nvvm.ReductionKind.ADD, nv.i32(-1))
    if row < limit[0]:
        d[row, nv.lane_id() % 4] = nv.f32(nv.i32(all_rows))


USES = [elements, scaled, selected, branched, added, looped, remade, mapped, polled, reduced, maximum, upstream]


@pytest.mark.parametrize(("use", "how"), sample(itertools.product(USES, [
    {}, {"twice": True}, {"acc_type": nv.f16}, {"a_rows": 64, "b_rows": 40, "limit": (64, 40)},
    {"a_rows": 40, "b_rows": 24, "limit": (40, 24)},
]), 15), ids=lambda x: str(x) if isinstance(x, dict) else x.__name__)  # fmt: skip
def test_rows_and_columns_that_nobody_uses(use, how):
    assert sums(use, **how) is None


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("use", [looped, remade, mapped, polled, reduced, maximum, upstream], ids=lambda f: f.__name__)
def test_undefined_sums_that_move(use, level):
    """Through loops and between lanes."""
    error = sums(use, limit=(49, 64), level=level)
    assert error is not None and error.kind == "uninitialized", error


CAUGHT = [elements, scaled, selected]


@pytest.mark.parametrize("use", CAUGHT, ids=lambda f: f.__name__)
@pytest.mark.parametrize("how", [
    {"limit": (49, 64)}, {"limit": (64, 64)}, {"twice": True, "limit": (64, 64)},
    {"acc_type": nv.f16, "limit": (64, 8)}, {"a_rows": 64, "b_rows": 40, "limit": (64, 41)},
], ids=str)  # fmt: skip
def test_undefined_sums_that_are_stored(use, how):
    error = sums(use, **how)
    assert error is not None and error.kind == "uninitialized", error
    assert "wgmma reads" in error.message and "which nothing had written" in error.message


def test_a_whole_accumulator_is_stored():
    assert sums(stored).kind == "uninitialized"
    assert sums(stored, a_rows=64) is None


@nv.jit
def staged_sums(a, b, d, *, rows=48):
    """The sums go through shared memory: TMA stores them, and clips what is beyond the array."""
    a_tma, b_tma = nv.TMA(a, (rows, 64), swizzle=128), nv.TMA(b, (64, 64), swizzle=128)
    d_tma = nv.TMA(d, (64, 64), swizzle=128)

    @nv.kernel(grid=1, block=128)
    def body():
        A, B = nv.smem((64, 64), a.dtype, swizzle=128), nv.smem((64, 64), b.dtype, swizzle=128)
        D = nv.smem((64, 64), d.dtype, swizzle=128)
        full = nv.Mbarriers(1, arrivals=1)[0]
        thread = nv.thread_id.x
        if thread == 0:
            full.arrive_expect_tx(a_tma.bytes + b_tma.bytes)
            a_tma.load(A.rows(0, rows), full, (0, 0))
            b_tma.load(B, full, (0, 0))
        full.wait(0)
        acc = nv.accumulator(64, 64, nv.f32)
        acc += A @ B
        nv.wgmma_wait(0)
        (values,) = acc.registers()
        start = D.layout.offset(thread // 32 * 16 + thread % 16, thread % 32 // 16 * 8)
        for i in range(4):
            x = values[i * 8 : i * 8 + 8]
            packed = [pack_pair(low, high, nv.f16) for low, high in zip(x[::2], x[1::2], strict=True)]
            nv.stmatrix(D.pointer(start ^ (i * 32)), packed)
        nv.fence_proxy_async()
        nv.sync_threads()
        if thread == 0:
            d_tma.store(D, (0, 0))  # here
            nv.bulk_commit_group()
            nv.bulk_wait_group(0)

    body()


@pytest.mark.parametrize("level", LEVELS)
def test_undefined_sums_that_tma_stores(level):
    a, b = np.ones((64, 64), np.float16), np.ones((64, 64), np.float16)
    for rows, extent, kind in ((64, 64, None), (48, 48, None), (48, 64, "uninitialized")):
        assert reported(staged_sums, a, b, zeros(extent, 64, dtype=np.float16), rows=rows, level=level) == kind


@nv.jit
def chained(a, b, d, *, rows, kept):
    """S = A B is the A of the next product, in registers."""
    a_tma, b_tma = nv.TMA(a, (rows, 64), swizzle=128), nv.TMA(b, (64, 64), swizzle=128)

    @nv.kernel(grid=1, block=128)
    def body():
        A, B = nv.smem((64, 64), a.dtype, swizzle=128), nv.smem((64, 64), b.dtype, swizzle=128)
        full = nv.Mbarriers(1, arrivals=1)[0]
        if nv.thread_id.x == 0:
            full.arrive_expect_tx(a_tma.bytes + b_tma.bytes)
            a_tma.load(A.rows(0, rows), full, (0, 0))
            b_tma.load(B, full, (0, 0))
        full.wait(0)
        s = nv.accumulator(64, 64, nv.f32)
        s += A @ B
        nv.wgmma_wait(0)
        acc = nv.accumulator(64, 64, nv.f32)
        acc += s.fragment(nv.f16) @ B
        nv.wgmma_wait(0)
        for row, col, value in acc.elements():
            if row < kept:
                d[row, col] = value  # here

    body()


def test_undefined_sums_that_are_multiplied_again():
    a, b = np.ones((64, 64), np.float16), np.ones((64, 64), np.float16)
    for rows, kept, kind in ((64, 64, None), (48, 48, None), (48, 64, "uninitialized")):
        assert reported(chained, a, b, zeros(64, 64), rows=rows, kept=kept) == kind


@nv.jit
def nobodys(x, out, *, make):
    @nv.kernel(grid=1, block=1)
    def body():
        out[0] = wrap(make(x.dtype.ir), x.dtype)

    body()


@pytest.mark.parametrize("make", [llvm.mlir_undef, llvm.mlir_poison], ids=["undef", "poison"])
@pytest.mark.parametrize("dtype", [nv.f32, nv.bf16, nv.i32, nv.i8])
def test_numbers_that_are_undefined_are_no_zeros(dtype, make):
    """Zeros would often be the right ones."""
    x, out = np.zeros(1, dtype.numpy), np.zeros(1, dtype.numpy)
    run(nobodys, x, out, make=make)
    assert out[0] != 0


@nv.jit
def at_an_undefined_index(out):
    @nv.kernel(grid=1, block=1)
    def body():
        out[wrap(llvm.mlir_undef(nv.i32.ir), nv.i32)] = 1.0

    body()


def test_an_index_that_is_undefined():
    error = verdict(at_an_undefined_index, np.zeros(64, np.float32))
    assert error.kind == "out-of-bounds"
