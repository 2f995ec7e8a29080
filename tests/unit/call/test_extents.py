"""Dynamic extents: what annotations say, what a kernel is compiled for, and what a call is refused for."""

# ruff: noqa: F821, UP037  (the axes' names are no forward references)

from __future__ import annotations

from typing import Annotated, Optional

import numpy as np
import pytest

import nvdsl as nv
from nvdsl.call import extents, jit
from nvdsl.driver.array_spec import spec_of
from nvdsl.errors import TraceError
from nvdsl.lang.extents import Axes, Extent
from tests.unit.kernels import refused as error_of


def refused(function, *says):
    error = error_of(function)
    assert isinstance(error, nv.ArgumentError)
    for text in says:
        assert text in str(error)


def f32(*shape):
    return np.arange(np.prod(shape), dtype=np.float32).reshape(shape)


@nv.jit
def scaled(x: nv.Array["m", "k"], y: nv.Array["m", "k"], factor):
    """y = x * factor, one block a row."""
    m, k = x.shape

    @nv.kernel(grid=m, block=32)
    def kernel():
        row = nv.block_id.x
        for column in nv.range(nv.thread_id.x, k, 32):
            y[row, column] = x[row, column] * factor

    kernel()


def test_one_kernel_serves_every_size(monkeypatch):
    traced = []
    trace = jit.trace_function
    monkeypatch.setattr(jit, "trace_function", lambda *args: traced.append(args) or trace(*args))
    for shape in ((3, 5), (1, 1), (7, 64), (33, 2), (5, 1)):
        x, y = f32(*shape), np.zeros(shape, np.float32)
        scaled(x, y, 2.0, target="sim")
        assert np.array_equal(y, 2 * x)
    assert len(traced) == 1


@pytest.mark.parametrize("shape", [(0, 5), (5, 0), (0, 0)])
def test_no_elements(shape):
    scaled(f32(*shape), f32(*shape), 2.0, target="sim")


def test_a_signature_without_sizes_is_that_of_calls(compiled):
    named = nv.ShapeDtype(("m", "k"), nv.f32)
    first = scaled.compile(named, named, 1.0)
    assert scaled.compile(f32(4, 6), f32(4, 6), 1.0) is first
    assert scaled.compile(nv.ShapeDtype((9, "k"), nv.f32), named, 1.0) is first
    assert len(compiled) == 1


def test_names_without_an_annotation():
    @nv.jit
    def copy(x, y):
        @nv.kernel(grid=1, block=32)
        def kernel():
            for i in nv.range(nv.thread_id.x, x.shape[0], 32):
                y[i] = x[i]

        kernel()

    ptx = copy.compile(nv.ShapeDtype(("n",), nv.f32), nv.ShapeDtype(("n",), nv.f32)).ptx
    assert ptx.count(".param .u32") == 1 and ptx.count(".param .u64") == 2


@pytest.mark.parametrize(
    ("x", "y", "says"),
    [
        ((3, 5), (4, 5), ["m is 3 in x, of shape (3, 5), and 4 in y, of shape (4, 5) (axis 0)", "one extent"]),
        ((3, 5), (3, 6), ["k is 5 in x, of shape (3, 5), and 6 in y, of shape (3, 6) (axis 1)"]),
        ((3,), (3, 5), ["x has shape (3,), and is annotated (m, k)", "an array of 2 axes"]),
    ],
)
def test_extents_that_disagree(x, y, says):
    refused(lambda: scaled(f32(*x), f32(*y), 1.0, target="sim"), *says)


def test_promises_and_numbers():
    @nv.jit
    def empty(x: nv.Array["m % 4", 64], y: nv.Array["m % 6", ...]):
        pass

    given = f32(10, 64), f32(10, 1)
    refused(lambda: empty(*given, target="sim"), "m is 10 in x", "a multiple of 12", "pad the axis to 12")
    refused(lambda: empty(f32(12, 63), f32(12, 1), target="sim"), "axis 1 is 63, and annotated 64")
    empty(f32(12, 64), f32(12, 1), target="sim")


def test_axes_that_are_all_constants_are_counted():
    @nv.jit
    def function(x: nv.Array[..., ...]):
        pass

    function(f32(3, 5), target="sim")
    refused(lambda: function(f32(3), target="sim"), "x has shape (3,), and is annotated (..., ...)", "of 2 axes")


def test_an_extent_is_an_i32():
    @nv.jit
    def function(x: nv.Array["n"]):
        pass

    function.trace(nv.ShapeDtype((2**31 - 2**16,), nv.u8))
    refused(lambda: function.trace(nv.ShapeDtype((2**31,), nv.u8)), "n is 2,147,483,648", "an i32")


Rows = nv.Shaped[nv.Array, "m", "k"]


def test_an_annotation_may_be_another_name_for_one():
    def function(x: Rows, y: Rows | None, count: int):
        pass

    axes = Axes((Extent("m"), Extent("k")))
    assert nv.jit(function)._extents._axes == {"x": axes, "y": axes}


def test_forms_of_annotations():
    def function(
        a: nv.Array["m", "k % 8"],
        b: nv.Shaped[nv.Array, "m", "k%8"],
        c: Annotated[nv.Array, "m", 64],
        d: Optional[nv.Array[None, "n"]],  # noqa: UP045
        e: nv.Array["n"] | None,
        f: nv.Array,
        g: "int" = 1,
        h: nv.Array[..., ...] = None,
    ):
        pass

    found = nv.jit(function)._extents._axes
    m, k, n = Extent("m"), Extent("k", 8), Extent("n")
    assert found == {
        "a": Axes((m, k)), "b": Axes((m, k)), "c": Axes((m, 64)), "d": Axes((None, n)), "e": Axes((n,)),
        "h": Axes((None, None)),
    }  # fmt: skip


def test_an_annotation_may_use_what_surrounds_the_function():
    name = "rows"

    @nv.jit
    def function(x: nv.Array[name, "k"]):
        pass

    assert function._extents._axes["x"] == Axes((Extent("rows"), Extent("k")))


@pytest.mark.parametrize("entry", ["k %", "8", "k % 0", "", "a b", -1, 1.5, True, "% 8"])
def test_what_is_no_axis(entry):
    refused(lambda: nv.Array["m", entry], f"{entry!r} as an axis", 'nv.Array["m", "k % 8"]')


def test_annotations_that_are_refused():
    def unknown(x: nv.Array[missing]):
        pass

    def constant(*, x: nv.Array["m"]):
        pass

    refused(lambda: nv.jit(unknown), "the annotation of x of unknown", "'missing' is not defined")
    refused(lambda: nv.jit(constant), "x of constant is keyword-only")


def test_annotations_of_others_are_left_alone():
    def function(x: torch.Tensor[int], y: list[int], z: missing):
        pass

    assert nv.jit(function)._extents._axes == {}


M, K = Extent("m"), Extent("k", 8)


@pytest.mark.parametrize(
    ("shape", "strides", "dtype", "expected"),
    [
        ((5, 64), None, nv.f16, ("8", 1)),
        ((5, 64), (72, 1), nv.f16, ("8", 1)),  # padded: the same kernel
        ((5, 64), (65, 1), nv.f16, ("1", 1)),  # not as the promise lets one hope: another
        ((5, 64), (66, 1), nv.f16, ("2", 1)),
        ((5, 64), (68, 1), nv.f32, ("4", 1)),
        ((5, 64), (0, 1), nv.f16, ("8", 1)),  # one row, again and again
        ((8, 64), (1, 8), nv.f16, (1, "1")),  # transposed: m promises nothing
        ((1, 64), (7, 1), nv.f16, ("8", 1)),
        ((0, 64), None, nv.f16, ("8", 1)),
        ((5, 0), None, nv.f16, ("8", 1)),
        ((5, 64), (128, 2), nv.f16, ("8", "1")),  # every second element
    ],
)
def test_what_is_kept_of_strides(shape, strides, dtype, expected):
    bound = extents.Extents("f", {"x": Axes((M, K))}).bind(["x"], [spec_of(shape, dtype, strides)])
    found = bound.specs[0].strides
    assert found == tuple(extents.Stride(int(x)) if isinstance(x, str) else x for x in expected)


def test_packed_constants_make_constant_strides():
    axes = {"x": Axes((M, 4, 8))}
    packed = extents.Extents("f", axes).bind(["x"], [spec_of((5, 4, 8), nv.f32)])
    assert packed.specs[0].strides == (32, 8, 1) and packed.values == [5]
    padded = extents.Extents("f", axes).bind(["x"], [spec_of((5, 4, 8), nv.f32, (64, 8, 1))])
    assert padded.specs[0].strides == (extents.Stride(4), 8, 1) and padded.values == [5, 64]


def test_more_elements_than_an_i32_counts():
    """Addresses are computed in 64 bits: the row times the row's stride."""
    named = nv.ShapeDtype(("m", "k"), nv.f32)
    ptx = nv.jit(scaled.__wrapped__).compile(named, named, 1.0).ptx
    assert "mul.lo.s64" in ptx or "mad.lo.s64" in ptx
    assert "mul.lo.s32" not in ptx


def required(x):
    m, k = x.shape
    nv.require(m * 2 < k, "rows are too short", rule="two of them", fix="make them longer")
    nv.require_multiples(K=(k, 8))
    assert m != 3, "three rows"


@pytest.mark.parametrize(
    ("shape", "says"),
    [
        ((4, 8), ["rows are too short (m = 4, k = 8)", "rule: two of them", "fix:  make them longer"]),
        ((1, 12), ["K is not a multiple of 8 (k = 12)", "whole tiles"]),
        ((3, 16), ["three rows (m = 3)"]),
    ],
)
def test_requirements_are_checked_at_the_call(shape, says):
    @nv.jit
    def function(x: nv.Array["m", "k"]):
        required(x)

    function(f32(2, 8), target="sim")
    with pytest.raises(nv.ArgumentError) as caught:
        function(f32(*shape), target="sim")
    assert all(text in str(caught.value) for text in says)
    assert caught.value.where.line in range(*lines_of(required))


def lines_of(function):
    first = function.__code__.co_firstlineno
    return first, first + 6


def test_a_promise_makes_a_requirement_superfluous():
    @nv.jit
    def function(x: nv.Array["m % 16"]):
        nv.require_multiples(M=(x.shape[0], 8))

    assert "arith.remsi" not in str(function.trace(f32(32)))


def test_scratch_memory_of_dynamic_shape():
    @nv.jit
    def function(x: nv.Array["m", "k"], y: nv.Array["m", "k"]):
        m, k = x.shape
        twice, sums = nv.empty((m, k), nv.f32), nv.zeros((k, m, 2), nv.f32)

        @nv.kernel(grid=m, block=32)
        def write():
            row = nv.block_id.x
            for column in nv.range(nv.thread_id.x, k, 32):
                twice[row, column] = x[row, column] * 2.0
                sums[column, row, 1] = sums[column, row, 1] + x[row, column]

        @nv.kernel(grid=m, block=32)
        def read():
            row = nv.block_id.x
            for column in nv.range(nv.thread_id.x, k, 32):
                y[row, column] = twice[row, column] + sums[column, row, 0] + sums[column, row, 1]

        write()
        read()

    for shape in ((3, 5), (0, 4), (1, 33)):
        x, y = f32(*shape), np.zeros(shape, np.float32)
        function(x, y, target="sim")
        assert np.array_equal(y, 3 * x)


def test_scratch_memory_of_less_than_nothing_is_refused():
    @nv.jit
    def function(x: nv.Array["m"]):
        rest = nv.empty(x.shape[0] - 5, nv.f32)

        @nv.kernel(grid=1, block=1)
        def kernel():
            rest[0] = 1.0

        kernel()

    function(f32(6), target="sim")
    with pytest.raises(nv.ArgumentError, match="an array of -2 elements"):
        function(f32(3), target="sim")


def test_what_is_restored_has_a_static_shape():
    @nv.jit
    def function(x: nv.Array["m", "k"]):
        nv.zeros(x.shape[0], nv.i32, restored=True)

    with pytest.raises(TraceError, match=r"nv.zeros\(\(m,\), restored=True\)"):
        function.trace(f32(3, 4))


def test_views_of_dynamic_arrays():
    @nv.jit
    def function(x: nv.Array["m", "k"], y: nv.Array["m", "k"]):
        inner, target, column, even = x[1:, 2:], y[1:, 2:], x[:, 1], x[::2, :]

        @nv.kernel(grid=inner.shape[0], block=32)
        def kernel():
            row = nv.block_id.x
            part = inner.view((row, 0), (1, inner.shape[1]))
            for i in nv.range(nv.thread_id.x, inner.shape[1], 32):
                target[row, i] = part[0, i] + column[row] + even[row // 2, i]

        kernel()

    for rows, columns in ((3, 5), (9, 40), (1, 4), (2, 3)):
        x, y = f32(rows, columns), np.zeros((rows, columns), np.float32)
        function(x, y, target="sim")
        i, j = np.mgrid[: rows - 1, : columns - 2]
        expected = np.zeros_like(x)
        expected[1:, 2:] = x[i + 1, j + 2] + x[i, 1] + x[i // 2 * 2, j]
        assert np.array_equal(y, expected)


@pytest.mark.parametrize("rows", [3, 4])
def test_an_index_beyond_the_true_extent(rows):
    @nv.jit
    def function(x: nv.Array["m", "k"]):
        rest = x[1:, :]

        @nv.kernel(grid=3, block=1)
        def kernel():
            rest[nv.block_id.x, 0] = 1.0

        kernel()

    if rows == 4:
        function(f32(rows, 5), target="sim")
        return
    with pytest.raises(nv.errors.SimError) as caught:
        function(f32(rows, 5), target="sim")
    assert "index 2 on axis 0 of an array of 2 x 5" in str(caught.value)


NUMBERS = {
    "range": lambda m: list(range(m)),
    "length": lambda m: [0] * m,
    "smem": lambda m: nv.smem((m, 64), nv.f16),
    "accumulator": lambda m: nv.accumulator(nv.cdiv(m, 64) * 64, 64),
    "mbarriers": lambda m: nv.Mbarriers(m),
    "int": lambda m: int(m),
    "text": lambda m: f"{m}",
}


@pytest.mark.parametrize("use", NUMBERS.values(), ids=list(NUMBERS))
def test_where_a_number_is_needed_the_error_names_the_extent(use):
    @nv.jit
    def function(x: nv.Array["m", "k"]):
        @nv.kernel(grid=1, block=128)
        def kernel():
            use(x.shape[0])

        kernel()

    with pytest.raises(nv.TraceError) as caught:
        function.trace(f32(4, 4))
    assert "the extent `m` is dynamic: to make it a constant" in caught.value.fix


def test_host_arithmetic_that_leaves_32_bits():
    @nv.jit
    def function(x: nv.Array["m"], y: nv.Array["n"], out: nv.Array[1]):
        total, wide = x.shape[0] * y.shape[0], nv.i64(x.shape[0]) * y.shape[0]

        @nv.kernel(grid=1, block=1)
        def kernel():
            out[0] = nv.f32(nv.select(wide > 5, total, 0))

        kernel()

    out = np.zeros(1, np.float32)
    function(f32(3), f32(4), out, target="sim")
    assert out == 12
    large = np.zeros(1 << 16, np.int8)
    with pytest.raises(nv.ArgumentError, match=r"65,536 \* 65,536 is 4,294,967,296, beyond i32") as caught:
        function(large, large, out, target="sim")
    assert "nv.i64(m) * n" in caught.value.fix and caught.value.where.file == __file__


def test_a_number_in_place_of_an_array():
    @nv.jit
    def function(x: nv.Array["m"]):
        pass

    refused(lambda: function.trace(3), "x is a number, and annotated as an array (m)")


def test_arrays_that_meet_know_their_own_extents():
    @nv.jit
    def function(x: nv.Array["m", "k"], y: nv.Array["n", "l"], out: nv.Array["m", 2]):
        @nv.kernel(grid=x.shape[0], block=1)
        def kernel():
            row, either = nv.block_id.x, x
            if row % 2 == 1:
                either = y
            out[row, 0] = nv.f32(either.shape[1])
            out[row, 1] = either[row, either.shape[1] - 1]

        kernel()

    x, y, out = f32(3, 4), f32(5, 10), np.zeros((3, 2), np.float32)
    function(x, y, out, target="sim")
    assert np.array_equal(out, [[4, 3], [10, 19], [4, 11]])


def test_loops_and_branches_of_the_host():
    @nv.jit
    def function(x: nv.Array["m", "n"]):
        m, n = x.shape
        if m > 2:
            for i in nv.range(m):
                row = x.view((i, 0), (1, n))

                @nv.kernel(grid=1, block=32)
                def kernel(row, i):
                    for j in nv.range(nv.thread_id.x, n, 32):
                        row[0, j] = row[0, j] + nv.f32(i)

                kernel(row, i)

    for rows, columns in ((4, 40), (2, 3), (7, 1)):
        x = np.zeros((rows, columns), np.float32)
        function(x, target="sim")
        assert np.array_equal(x, np.repeat(np.arange(rows)[:, None] * (rows > 2), columns, 1))


def test_a_store_by_tma_past_the_end_is_refused_at_the_call():
    @nv.jit
    def function(x: nv.Array["n"]):
        x_map = nv.TMA(x, tile=64)

        @nv.kernel(grid=1, block=32)
        def kernel():
            tile = nv.smem(64, nv.f32)
            for i in range(0, 64, 32):
                tile[nv.thread_id.x + i] = 1.0
            nv.fence_proxy_async()
            nv.sync_threads()
            if nv.thread_id.x == 0:
                x_map.store(tile, (0,))
                nv.bulk_commit_group()
                nv.bulk_wait_group(0)

        kernel()

    x = np.zeros(12, np.float32)
    function(x, target="sim")
    assert (x == 1).all()
    with pytest.raises(nv.ArgumentError, match=r"tensor map of x \(13 f32\) can write 12 bytes past the array's end"):
        function(np.zeros(13, np.float32), target="sim")
