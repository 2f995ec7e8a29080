import numpy as np
import pytest

import nvdsl as nv
from nvdsl.ir.walk import constant, find
from nvdsl.mlir import ir
from nvdsl.values.traced import Unsigned
from nvdsl.verify.evaluate import evaluate
from tests.unit.kernels import array, refused_body, trace


def test_what_an_array_knows():
    def body(x, y):
        assert x.bytes == 4 * 6 * 2 and nv.smem(96, nv.f32).bytes == 384 and x[1:3, ::2].bytes == 2 * 3 * 2
        assert (x.shape, x.strides, x.ndim, len(x), x.dtype) == ((4, 6), (6, 1), 2, 4, nv.f16)
        assert (y.shape, y.strides, y.dtype) == ((4, 6), (10, 1), nv.u8)
        assert repr(x) == "Array(shape=(4, 6), dtype=f16)"

    trace(body, array(nv.f16, 4, 6), array(nv.u8, 4, 6, strides=(10, 1)))


def test_unsigned_elements_stay_unsigned_through_views():
    def body(x):
        assert isinstance(x[0, 0], Unsigned)
        part = x[2:4, 0:3]
        assert part.dtype is nv.u16
        assert isinstance(part[0, 0], Unsigned)

    trace(body, array(nv.u16, 8, 8))


def test_subscripts_are_in_the_order_of_the_axes():
    def body(x):
        x[3, nv.thread_id.x] = x[nv.thread_id.x, 1]

    module = trace(body, array(nv.f32, 8, 8))
    (load,), (store,) = find(module, "memref.load"), find(module, "memref.store")
    assert [evaluate(i, 5) for i in list(load.operands)[1:]] == [5, 1]
    assert [evaluate(i, 5) for i in list(store.operands)[2:]] == [3, 5]


@pytest.mark.parametrize(("dtype", "op"), [(nv.f16, "arith.truncf"), (nv.f64, "arith.extf")])
def test_a_store_converts_to_the_arrays_dtype(dtype, op):
    def body(x, y):
        y[0] = x[0]

    module = trace(body, array(nv.f32, 4), array(dtype, 4))
    assert len(find(module, op)) == 1


BAD_SUBSCRIPTS = {
    "too few": lambda x: x[0],
    "too many": lambda x: x[0, 0, 0],
    "past the end": lambda x: x[0, 6],
    "negative": lambda x: x[-1, 0],
    "slice past the end": lambda x: x[0:5, 0:6],
    "slice from a negative start": lambda x: x[-2:, 0:6],
    "empty slice": lambda x: x[3:1, 0:6],
    "slice with a step of 0": lambda x: x[0:4:0, 0:6],
    "slice backwards": lambda x: x[::-1, 0:6],
    "slice with a traced step": lambda x: x[:: nv.thread_id.x, 0:6],
    "slice with a traced stop": lambda x: x[0 : nv.thread_id.x, 0:6],
    "slice without a stop": lambda x: x[nv.thread_id.x :, 0:6],
    "slice of another value": lambda x: x[nv.thread_id.x : nv.thread_id.y + 2, 0:6],
    "slice that ends before": lambda x: x[nv.thread_id.x : nv.thread_id.x - 2, 0:6],
    "slice past the end by steps": lambda x: x[0:6:5, 0:6],
    "slice that is assigned": lambda x: x.__setitem__((slice(0, 2), 0), 1.0),
    "view past the end": lambda x: x.view((2, nv.thread_id.x), (4, 2)),
    "view wider than the array": lambda x: x.view((0, nv.thread_id.x), (4, 7)),
    "view of another rank": lambda x: x.view((0,), (4,)),
    "view of nothing": lambda x: x.view((0, 0), (4, 0)),
}


@pytest.mark.parametrize("use", BAD_SUBSCRIPTS.values(), ids=list(BAD_SUBSCRIPTS))
def test_subscripts_that_are_refused(use):
    def body(x):
        use(x)

    with pytest.raises(nv.TraceError) as caught:
        trace(body, array(nv.f32, 4, 6))
    assert caught.value.where.file == __file__
    assert caught.value.rule and caught.value.fix


def view_offset(view):
    return ir.MemRefType(view.type).get_strides_and_offset()[1]


@pytest.mark.parametrize("key", [(None, slice(None)), (slice(None), None), None])
def test_repeating_an_array_names_the_vectors_that_can_be(key):
    error = refused_body(lambda x: x[key], array(nv.f32, 64))
    assert "None as an index" in str(error)
    assert "nv.column_vector(x, start, n)[None, :]" in str(error)
    assert "nv.row_vector(x, start, m)[:, None]" in str(error)


def test_slices_are_views_without_a_copy():
    def body(x):
        part = x[2:5, 4:8]
        assert part.shape == (3, 4)
        assert part.strides == (10, 1)
        assert view_offset(part) == 2 * 10 + 4
        row = x[6, 0:10]
        assert (row.shape, row.strides) == ((10,), (1,))
        assert view_offset(row) == 60
        every = x[1::2, 3:10:3]
        assert (every.shape, every.strides, view_offset(every)) == ((4, 3), (20, 3), 13)
        assert (x[1:, 2].shape, x[1:, 2].strides) == ((7,), (10,))
        row[3] = every[3, 2] + x[:, 9][7]
        part[0, 0] = 1.0

    module = trace(body, array(nv.f32, 8, 10))
    assert not find(module, "memref.alloc", "memref.copy")


def test_a_view_may_start_at_a_traced_place():
    def body(x):
        part = x.view((nv.thread_id.x, 2), (1, 4))
        assert part.shape == (1, 4)
        part[0, 3] = 1.0

    module = trace(body, array(nv.f32, 128, 10))
    (view,) = find(module, "memref.subview")
    assert [evaluate(i, 9) for i in list(view.operands)[1:]] == [9]
    assert list(view.attributes["static_offsets"])[1] == 2


def test_a_slice_may_start_at_a_traced_place_where_its_length_is_known():
    def body(x):
        t, row = nv.thread_id.x, nv.block_id.x * 4 + nv.thread_id.x // 32
        for k in nv.range(2):
            parts = x[t : t + 3], x[row : row + 8 : 2], x[k * 4 : (k + 1) * 4], x[t * 2 + 1 : 2 * nv.thread_id.x + 4]
            assert [part.shape for part in parts] == [(3,), (4,), (4,), (3,)]
            parts[1][3] = parts[0][2]

    module = trace(body, array(nv.f32, 128))
    starts = [view.operands[1] for view in find(module, "memref.subview")]
    assert len(starts) == 4 and evaluate(starts[0], 9) == 9 and evaluate(starts[3], 9) == 19


@pytest.mark.parametrize(
    ("dtype", "count"), [(nv.f32, 4), (nv.f16, 8), (nv.f16, 2), (nv.u8, 16), (nv.f64, 2), (nv.i8, 1)]
)
def test_vector_accesses_are_one_aligned_access(dtype, count):
    def body(x):
        x.store_vector(x.load_vector((1, 0), count), (2, 16))

    module = trace(body, array(dtype, 4, 32))
    (load,), (store,) = find(module, "vector.load"), find(module, "vector.store")
    for op in (load, store):
        assert ir.IntegerAttr(op.attributes["alignment"]).value == count * dtype.bytes
    assert [constant(i) for i in list(load.operands)[1:]] == [1, 0]
    assert [constant(i) for i in list(store.operands)[2:]] == [2, 16]
    assert ir.VectorType(load.results[0].type).shape == [count]


@pytest.mark.parametrize(("dtype", "count"), [(nv.f32, 8), (nv.f32, 3), (nv.f16, 6), (nv.f64, 4)])
def test_vector_accesses_of_no_such_width_are_refused(dtype, count):
    def body(x):
        x.load_vector((0, 0), count)

    error = refused_body(body, array(dtype, 4, 32))
    assert f"{count * dtype.bytes} bytes" in error.message


def test_vector_accesses_need_contiguous_elements():
    def body(x):
        x.load_vector((0, 0), 4)

    error = refused_body(body, array(nv.f32, 4, 32, strides=(1, 4)))
    assert "stride 4" in error.message


def test_vectors_keep_the_arrays_type_and_are_stored_converted():
    def body(x, y):
        v = x.vector((0, 4), 4)
        assert (v.dtype, type(v), len(v)) == (nv.u8, Unsigned, 4)
        y.store_vector(v, 0)

    module = trace(body, array(nv.u8, 4, 32), array(nv.f32, 8))
    assert len(find(module, "arith.uitofp")) == 1


MISALIGNED = {
    "known start": (array(nv.f32, 8, 32), lambda x, t: x.vector((0, 2), 4)),
    "known rest": (array(nv.f32, 8, 32), lambda x, t: x.vector((t, t * 4 + 1), 4)),
    "known rest of the lane": (array(nv.f32, 8, 32), lambda x, t: x.vector((0, (t & -4) + 2), 4)),
    "view that starts between": (array(nv.f32, 8, 32), lambda x, t: x[:, 2:].vector((t, 4), 4)),
    "rows that start between": (array(nv.f16, 8, 100), lambda x, t: x.vector((t, 8), 8)),
    "rows of a view": (array(nv.f16, 8, 128, strides=(100, 1)), lambda x, t: x.vector((t, t * 8), 8)),
    "known row": (array(nv.f16, 8, 100), lambda x, t: x.vector((1, 0), 8)),
    "store": (array(nv.f32, 8, 32), lambda x, t: x.store_vector(x.vector((0, 0), 4), (0, 1))),
}


@pytest.mark.parametrize(("of", "use"), MISALIGNED.values(), ids=list(MISALIGNED))
def test_vectors_that_are_surely_misaligned_are_refused(of, use):
    def body(x):
        use(x, nv.thread_id.x)

    with pytest.raises(nv.TraceError) as caught:
        trace(body, of)
    error = caught.value
    assert error.where.file == __file__
    assert "no multiple of" in error.message or "not every row starts" in error.message
    assert error.rule and error.fix


@pytest.mark.parametrize(
    "start",
    [lambda t, of: nv.select(t > 3, of[0].offset, of[1].offset), lambda t, of: nv.min(t // 64 * 8192, 8192)],
    ids=["one of two", "anywhere"],
)
def test_a_tile_may_start_where_the_run_says(start):
    """Its rows are a multiple of the vector apart, so nothing is known to be wrong."""
    found = []

    def body(x):
        t, tiles = nv.thread_id.x, nv.smem((2, 64, 32), nv.f32, swizzle=128)
        tile = nv.Tile(tiles.first.layout, nv.f32, start(t, tiles))
        found.append(tile.vector((t % 64, t % 8 * 4), 4))

    trace(body, array(nv.f32, 8, 32))
    assert found


def test_vectors_that_may_be_aligned_are_left_to_the_run():
    def body(x, y):
        t = nv.thread_id.x
        x.vector((t * 2, 0), 8)  # every other row
        x.vector((t, nv.select(t % 2 == 0, 0, 4)), 8)
        x.vector((nv.cluster_rank() * 2, (t & -8)), 8)
        x.vector((2, 0), 8)
        y.vector(t, 2)
        y.view((t,), (8,)).vector(1, 2)
        for k in nv.range(8, 64, 8):
            y.vector(k + t // 4 * 8, 8)

    trace(body, array(nv.f16, 8, 100), array(nv.f16, 128))


def test_vectors_of_bools_and_stores_of_no_vectors_are_refused():
    error = refused_body(lambda x: x.vector(0, 8), array(nv.bool_, 64))
    assert "nv.u8" in error.fix
    error = refused_body(lambda x: x.store_vector(x[0], 0), array(nv.f32, 64))
    assert "nv.vector" in error.fix


def test_memrefs_that_any_builder_makes_are_arrays():
    """LLVM-style code subscripts what gpu.alloc or memref.subview return."""
    from nvdsl.mlir.dialects import memref

    def body(x):
        raw = memref.subview(x, [0, 0], [2, 2], [1, 1])
        assert isinstance(raw, nv.Array)
        raw[1, 1] = np.float32(2.0)

    module = trace(body, array(nv.f32, 4, 4))
    assert len(find(module, "memref.store")) == 1
