"""Memory: every kind of atomic, vector transfers, views with offsets, bounds of copies, races of copies."""

import numpy as np
import pytest

import nvdsl as nv
from nvdsl import sim
from nvdsl.hopper.tensor_maps import TensorMap
from nvdsl.mlir import ir
from nvdsl.mlir.dialects import arith, llvm, memref, vector
from nvdsl.ops import memory, pointer, tma
from nvdsl.sim import boxes
from nvdsl.values.traced import const
from tests.sim import orders_global
from tests.sim.simulate import run, verdict, zeros
from tests.unit.kernels.strided import strided

LEVELS = [sim.Options(level=level) for level in sim.options.LEVELS]


@nv.jit
def combined(x, out, *, kind, shared):
    """Each lane combines its number with one element, which another lane's number is in, too."""

    @nv.kernel(grid=1, block=32)
    def kernel():
        s = nv.smem((16,), x.dtype)
        t = nv.thread_id.x
        if t < 16:
            s[t] = out[t]
        nv.sync_threads()
        memref.atomic_rmw(getattr(arith.AtomicRMWKind, kind), x[t], s if shared else out, [nv.index(t // 2)])
        nv.sync_threads()
        if shared:
            if t < 16:
                out[t] = s[t]

    kernel()


KINDS = {
    "addf": np.add, "addi": np.add, "andi": np.bitwise_and, "ori": np.bitwise_or, "xori": np.bitwise_xor,
    "maxs": np.maximum, "mins": np.minimum, "maxu": np.maximum, "minu": np.minimum, "maximumf": np.maximum,
    "minimumf": np.minimum, "muli": np.multiply, "mulf": np.multiply, "maxnumf": np.fmax, "minnumf": np.fmin,
    "assign": lambda old, new: new,
}  # fmt: skip


@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize("kind", KINDS)
def test_atomics_of_memrefs(kind, shared):
    dtype = np.float32 if kind.endswith("f") else np.int32
    x = np.random.default_rng(0).integers(-5, 6, 32).astype(dtype)
    start = np.random.default_rng(1).integers(-5, 6, 16).astype(dtype)
    seen = np.uint32 if kind.endswith("u") else dtype
    expected = start.copy()
    for lane in range(32):
        old, new = expected.view(seen)[lane // 2], x.view(seen)[lane]
        expected.view(seen)[lane // 2] = KINDS[kind](old, new)
    out = start.copy()
    run(combined, x, out, kind=kind, shared=shared)
    np.testing.assert_array_equal(out, expected)


@nv.jit
def counted(x, out, *, kind):
    @nv.kernel(grid=1, block=32)
    def kernel():
        at = pointer.address_of(out, space=pointer.GLOBAL)
        llvm.atomicrmw(
            getattr(llvm.AtomicBinOp, kind), at, x[nv.thread_id.x], llvm.AtomicOrdering.monotonic, syncscope="device"
        )

    kernel()


INTEGERS = {
    "add": np.add, "sub": np.subtract, "_and": np.bitwise_and, "_or": np.bitwise_or, "_xor": np.bitwise_xor,
    "max": np.maximum, "min": np.minimum, "umax": np.maximum, "umin": np.minimum, "xchg": lambda old, new: new,
    "uinc_wrap": lambda old, new: 0 if old >= new else old + 1,
    "udec_wrap": lambda old, new: new if old == 0 or old > new else old - 1,
}  # fmt: skip


@pytest.mark.parametrize("kind", INTEGERS)
def test_atomics_of_pointers(kind):
    x = np.random.default_rng(0).integers(-9, 9, 32).astype(np.int32)
    out, expected = np.full(4, 5, np.int32), np.full(1, 5, np.int32)
    seen = np.uint32 if kind.startswith("u") else np.int32
    for one in x.view(seen):
        expected.view(seen)[0] = INTEGERS[kind](expected.view(seen)[0], one)
    run(counted, x, out, kind=kind)
    assert out[0] == expected[0] and out[1] == 5


@nv.jit
def raised(x, out):
    """The largest of what comes, times two: by a region."""

    @nv.kernel(grid=1, block=32)
    def kernel():
        twice = x[nv.thread_id.x] * 2
        op = memref.GenericAtomicRMWOp(nv.i32.ir, out, [nv.index(nv.thread_id.x // 16)])
        block = op.regions[0].blocks.append(nv.i32.ir)
        with ir.InsertionPoint(block):
            memref.atomic_yield(arith.maxsi(block.arguments[0], twice))

    kernel()


def test_atomics_by_a_region():
    x, out = np.random.default_rng(0).integers(-50, 50, 32).astype(np.int32), zeros(2, dtype=np.int32)
    run(raised, x, out)
    assert out.tolist() == [max(0, 2 * x[:16].max()), max(0, 2 * x[16:].max())]


@nv.jit
def flagged(out, *, ordinary):
    """Two blocks: one adds to a counter, the other sets it."""

    @nv.kernel(grid=2, block=32)
    def kernel():
        if nv.thread_id.x == 0:
            if nv.block_id.x == 0:
                memref.atomic_rmw(arith.AtomicRMWKind.addi, const(1, nv.i32), out, [const(0)])
            elif ordinary:
                out[0] = 7
            else:
                memref.atomic_rmw(arith.AtomicRMWKind.addi, const(1, nv.i32), out, [const(0)])

    kernel()


def test_an_ordinary_store_beside_an_atomic_is_a_race():
    assert verdict(flagged, zeros(4, dtype=np.int32), ordinary=False) is None
    assert verdict(flagged, zeros(4, dtype=np.int32), ordinary=True).kind == "waw"


@nv.jit
def moved(x, out):
    """Vectors of four, of which the last one is partly outside."""

    @nv.kernel(grid=1, block=32)
    def kernel():
        kind = ir.VectorType.get([4], nv.f32.ir)
        along = ir.AffineMapAttr.get(ir.AffineMap.get_minor_identity(1, 1))
        at = [nv.index(nv.thread_id.x * 4)]
        read = vector.transfer_read(kind, x, at, along, const(-1.0, nv.f32), [False])
        vector.transfer_write(None, read, out, at, along, [False])

    kernel()


@pytest.mark.parametrize("options", LEVELS)
def test_transfers_stop_at_the_end(options):
    x, out = np.arange(126, dtype=np.float32), zeros(126)
    run(moved, x, out, options=options)
    np.testing.assert_array_equal(out, x)


@nv.jit
def viewed(out):
    """A view whose start only the kernel knows, by its pointer."""

    @nv.kernel(grid=1, block=32)
    def kernel():
        line = nv.smem((64,), nv.f32)
        t = nv.thread_id.x
        line[t] = nv.f32(t)
        line[t + 32] = nv.f32(t + 32)
        nv.sync_warp()
        part = line.view((t,), (16,))
        out[t] = llvm.load(nv.f32.ir, pointer.address_of(part, 12), alignment=4)

    kernel()


@pytest.mark.parametrize("options", LEVELS)
def test_pointers_into_views(options):
    out = zeros(32)
    run(viewed, out, options=options)
    np.testing.assert_array_equal(out, np.arange(32) + 3)


def test_a_narrow_box_takes_whole_lines():
    """Rows of 32 bytes with a swizzle of 128 bytes: each takes 128 bytes of shared memory."""
    shape = {"element": "f16", "shape": (64, 16), "strides": (16, 1), "box": (64, 16)}
    for swizzle, size in (("none", 2048), ("swizzle_32b", 2048), ("swizzle_64b", 4096), ("swizzle_128b", 8192)):
        box = boxes.Box(boxes.MapArgument(TensorMap(**shape, swizzle=swizzle), 0), (0, 0))
        first, last = box.extent(2048)
        assert box.bytes == 2048
        assert 2048 <= first and 2048 + size - 128 < last <= 2048 + size, swizzle


@nv.jit
def line(x, *, size):
    @nv.kernel(grid=1, block=32)
    def kernel():
        full = nv.Mbarriers(1, arrivals=1)[0]
        s = nv.smem((256,), nv.f32)
        if nv.thread_id.x == 0:
            full.arrive_expect_tx(size)
            tma.bulk_load(s, x, size, full)
        full.wait(0)

    kernel()


def test_a_line_stays_in_its_array():
    assert verdict(line, zeros(64), size=256) is None
    error = verdict(line, zeros(64), size=272)
    assert error.kind == "out-of-bounds" and "global memory" in str(error)


@nv.jit
def later(x, *, start, size):
    @nv.kernel(grid=1, block=32)
    def kernel():
        if nv.thread_id.x == 0:
            memory.bulk_prefetch(x, (1, start), size)

    kernel()


def test_a_prefetch_of_bytes_has_the_rules_of_a_copy():
    assert verdict(later, zeros(2, 64), start=4, size=240) is None
    error = verdict(later, zeros(2, 64), start=4, size=256)
    assert error.kind == "out-of-bounds" and "bulk prefetch" in str(error) and "of 256 bytes" in str(error)
    error = verdict(later, zeros(2, 64), start=2, size=16)
    assert error.kind == "misaligned" and "round the first column down" in str(error)
    error = verdict(later, zeros(2, 64), start=4, size=24)
    assert error.kind == "misaligned" and "round the bytes down" in str(error)


@nv.jit
def chosen(x, y, out):
    @nv.kernel(grid=1, block=32)
    def kernel():
        t = nv.thread_id.x
        z = x if t % 8 < 4 else y
        z[t] = z[t] + 1
        z.atomic_add(t, 1)
        nv.sync_warp()
        out.store_vector((x if t % 2 == 0 else y).vector((t // 4 * 4,), 4), (t, 0))

    kernel()


def test_lanes_may_choose_among_arrays():
    for options in LEVELS:
        x, y, out = np.arange(32, dtype=np.int32), np.arange(100, 132, dtype=np.int32), zeros(32, 4)
        run(chosen, x, y, out, options=options)
        first, t = np.arange(32) % 8 < 4, np.arange(32)
        assert (x == t + 2 * first).all() and (y == 100 + t + 2 * ~first).all()
        assert (out == np.where(t[:, None] % 2 == 0, x.reshape(-1, 4)[t // 4], y.reshape(-1, 4)[t // 4])).all()


@nv.jit
def twice_stored(out, *, apart):
    """Two blocks store tiles in bulk that overlap, or not."""
    out_tma = nv.TMA(out, tile=(16, 64))

    @nv.kernel(grid=2, block=64)
    def kernel():
        tile = nv.smem((16, 64), out.dtype)
        for i in nv.range(16):
            tile[i, nv.thread_id.x] = 1.0
        nv.fence_proxy_async()
        nv.sync_threads()
        if nv.thread_id.x == 0:
            out_tma.store(tile, (nv.block_id.x * apart, 0))
            tma.bulk_commit_group()
            tma.bulk_wait_group(0)

    kernel()


@pytest.mark.parametrize(("apart", "kind"), [(16, None), (15, "waw"), (0, "waw")])
def test_bulk_stores_of_blocks_that_overlap(apart, kind):
    error = verdict(twice_stored, zeros(32, 64), apart=apart)
    assert (error and error.kind) == kind, str(error)


@nv.jit
def loaded_and_stored(x, *, wait):
    """A tile is loaded, and its source stored to by ordinary stores."""
    x_tma = nv.TMA(x, tile=(16, 64))

    @nv.kernel(grid=1, block=64)
    def kernel():
        tile = nv.smem((16, 64), x.dtype)
        full = nv.Mbarriers(1, arrivals=1)[0]
        t = nv.thread_id.x
        if t == 0:
            full.arrive_expect_tx(tile.bytes)
            x_tma.load(tile, full, (0, 0))
        if wait:
            full.wait(0)
        x[3, t] = 1.0
        full.wait(0)

    kernel()


def test_the_source_of_a_load_is_read_until_its_phase_completes():
    assert verdict(loaded_and_stored, zeros(16, 64), wait=True) is None
    for order, kind in (("forward", "raw"), ("reverse", "war")):  # which of the two comes first is open
        error = verdict(loaded_and_stored, zeros(16, 64), wait=False, options=sim.Options(order=order))
        assert error.kind == kind, str(error)


def test_what_a_bulk_store_wrote_is_there_after_the_wait():
    for options in (sim.Options(), sim.Options(order="reverse"), *map(sim.Options.random, range(4))):
        out, copy = zeros(16, 64), zeros(16, 64)
        run(orders_global.stored_and_read, out, copy, wait=True, read=False, meet=True, options=options)
        np.testing.assert_array_equal(copy, np.repeat(np.arange(16.0)[:, None], 64, axis=1))


@nv.jit
def stored_in_boxes(out, *, cols, add):
    """Boxes of 64 elements over ``out``, of which the tensor map has the first ``cols``."""
    out_tma = nv.TMA(out[:cols], tile=64)

    @nv.kernel(grid=2, block=64)
    def kernel():
        tile, t = nv.smem((64,), out.dtype), nv.thread_id.x
        tile[t] = 1.0
        nv.fence_proxy_async()
        nv.sync_threads()
        if t == 0:
            (out_tma.reduce_add if add else out_tma.store)(tile, (nv.block_id.x * 64,))
            tma.bulk_commit_group()
            tma.bulk_wait_group(0)

    kernel()


@pytest.mark.parametrize("add", [False, True], ids=["store", "reduction"])
def test_a_store_that_leaves_the_allocation(add, monkeypatch):
    out = zeros(104, dtype=np.float16)
    stored_in_boxes(out, cols=97, add=add, target="sim")
    assert out.tolist() == [1] * 104  # the array's padding is written over
    monkeypatch.setenv("NVDSL_VERIFY", "off")
    error = verdict(stored_in_boxes, zeros(101, dtype=np.float16), cols=97, add=add)
    assert error.kind == "out-of-bounds"
    assert "writes 6 bytes past the end of global allocation 0, which has 202" in str(error)
    assert "whole 16 bytes" in error.rule


@nv.jit
def one_at_a_time(x, y):
    xs, ys = strided(x, (8, 4), (1, 8)), strided(y, (8, 4), (1, 8))

    @nv.kernel(grid=1, block=32)
    def kernel():
        place = nv.thread_id.x // 4, nv.thread_id.x % 4
        ys.store_vector(xs.vector(place, 1) * 2, place)

    kernel()


def test_a_vector_of_one_element_may_lie_in_an_array_of_any_strides():
    for options in LEVELS:
        x, y = np.arange(32, dtype=np.int32), zeros(32)
        run(one_at_a_time, x, y, options=options)
        assert (y == 2 * x).all()
