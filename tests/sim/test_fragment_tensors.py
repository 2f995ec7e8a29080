"""Fragments as tensors: what operators, reductions, parts, loads and stores give, against NumPy."""

import itertools

import numpy as np
import pytest

import nvdsl as nv
from nvdsl import sim
from nvdsl.ir.walk import find
from tests.exhaustive import sample
from tests.sim.simulate import run, traced

LEVELS = [sim.Options(level=level) for level in sim.options.LEVELS]


@nv.jit
def each(x, y, r, c, out, *, compute, m, n):
    """``out = function(x, y, r, c)`` of fragments of ``m x n``, and vectors of their rows and columns."""

    @nv.kernel(grid=1, block=128)
    def kernel():
        a, b = nv.fragment(x, (0, 0), (m, n)), nv.fragment(y, (0, 0), (m, n))
        result = compute(a, b, nv.row_vector(r, 0, m), nv.column_vector(c, 0, n))
        result.store(out, (0, 0))

    kernel()


@nv.jit
def rows(x, out, *, compute, m, n, scratch=0, dtype=nv.f32):
    """``out = function(x)``, a vector."""

    @nv.kernel(grid=1, block=128)
    def kernel():
        memory = nv.smem(scratch, dtype) if scratch else None
        a = nv.fragment(x, (0, 0), (m, n))
        result = compute(a, memory) if scratch else compute(a)
        result.store(out, 0)

    kernel()


def numbers(*shape, seed=0, dtype=np.float32):
    return (np.random.default_rng(seed).integers(-16, 17, shape) / 4).astype(dtype)


def computed(function, m=64, n=32, dtype=np.float32, out=np.float32):
    x, y, r, c = numbers(m, n), numbers(m, n, seed=1), numbers(m, seed=2), numbers(n, seed=3)
    given = [a.astype(dtype) for a in (x, y, r, c)]
    result = np.full((m, n), 77, out)
    run(each, *given, result, compute=function, m=m, n=n)
    return (*[a.astype(np.float32) for a in given], result)


@pytest.mark.parametrize(("m", "n"), [(64, 8), (128, 24), (64, 40)])
def test_operators_are_numpys(m, n):
    def function(a, b, r, c):
        return nv.where((a > b) & (a.rows + 3 >= a.cols), a * r[:, None] - b, c[None, :] / 2.0 + abs(-a))

    x, y, r, c, out = computed(function, m, n)
    row, col = np.indices((m, n))
    expected = np.where((x > y) & (row + 3 >= col), x * r[:, None] - y, c[None, :] / 2 + abs(x))
    np.testing.assert_array_equal(out, expected)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, np.int32, nv.bf16.numpy], ids=str)
def test_types(dtype):
    def function(a, b, r, c):
        return nv.maximum(a * b + c[None, :], nv.minimum(r[:, None], b) - a)

    *given, out = computed(function, dtype=dtype)
    x, y, r, c = (a.astype(np.float32) for a in given)
    expected = np.maximum(x * y + c[None, :], np.minimum(r[:, None], y) - x)
    np.testing.assert_allclose(out, expected, rtol=2**-7 if dtype == nv.bf16.numpy else 0)


@pytest.mark.parametrize(
    ("ours", "numpys"),
    [
        (lambda a, b, r, c: nv.exp2(a), lambda x, y: np.exp2(x)),
        (lambda a, b, r, c: nv.math.tanh(a * 0.5), lambda x, y: np.tanh(x * 0.5)),
        (lambda a, b, r, c: nv.math.fma(a, b, 1.0), lambda x, y: x * y + 1),
        (lambda a, b, r, c: nv.clamp(a, -1.0, b), lambda x, y: np.minimum(np.maximum(x, -1), y)),
        (lambda a, b, r, c: nv.select(nv.math.isnan(a), 0.0, a), lambda x, y: x),
        (lambda a, b, r, c: nv.f32(nv.i32(a)), lambda x, y: np.trunc(x)),
        (lambda a, b, r, c: nv.bitcast(nv.bitcast(a, nv.i32) & 0x7FFFFFFF, nv.f32), lambda x, y: abs(x)),
        (lambda a, b, r, c: 1.0 - a, lambda x, y: 1 - x),
        (lambda a, b, r, c: np.float32(2.0) * a, lambda x, y: 2 * x),
        (lambda a, b, r, c: b - a * a, lambda x, y: y - x * x),
        (lambda a, b, r, c: a.map(lambda v: v + 1.0), lambda x, y: x + 1),
    ],
)
def test_functions_of_numbers_take_fragments(ours, numpys):
    x, y, _, _, out = computed(ours)
    np.testing.assert_allclose(out, numpys(x, y), rtol=1e-6)


def test_a_product_in_a_sum_is_rounded_once():
    """(1 + 2^-12)^2 - 1 - 2^-11 is 2^-24: a product that was rounded would leave 0."""

    def function(a, b, r, c):
        one = a * 0.0 + (1.0 + 2.0**-12)
        return one * one - (1.0 + 2.0**-11)

    *_, out = computed(function)
    assert (out == 2.0**-24).all()


@pytest.mark.parametrize(
    ("options", "axis", "op", "dtype"),
    sample(itertools.product(LEVELS, (0, 1), ("sum", "max", "min"), (np.float32, np.float16, np.int32)), 16),
    ids=lambda x: x.level if isinstance(x, sim.Options) else getattr(x, "__name__", str(x)),
)
def test_reductions(op, axis, dtype, options):
    x = (numbers(128, 40) * 4).astype(dtype)
    expected = getattr(x.astype(np.float64), op)(axis)
    out = np.full(expected.shape, 77, np.float32)
    t = nv.i32 if dtype is np.int32 else nv.f32
    run(rows, x, out, compute=lambda a, *s: getattr(a, op)(axis, **({"scratch": s[0]} if s else {})).to(nv.f32),
        m=128, n=40, scratch=4 * 40 if axis == 0 else 0, dtype=t, options=options)  # fmt: skip
    np.testing.assert_array_equal(out, expected)


def test_bools_are_counted_and_joined():
    x = numbers(64, 32)
    for function, expected in (
        (lambda a: (a > 0.0).sum(1).to(nv.f32), (x > 0).sum(1)),
        (lambda a: (a > 3.5).any(1).to(nv.f32), (x > 3.5).any(1)),
        (lambda a: (a > -3.5).all(1).to(nv.f32), (x > -3.5).all(1)),
    ):
        out = np.full(64, 77, np.float32)
        run(rows, x, out, compute=function, m=64, n=32)
        np.testing.assert_array_equal(out, expected)


def test_parts_of_sums_add_up_once():
    x = numbers(64, 32)
    out = np.full(64, 77, np.float32)

    def function(a):
        part = a.sum(1, partial=True)
        return (part * 0.5 + a.sum(1, partial=True)).total()

    run(rows, x, out, compute=function, m=64, n=32)
    np.testing.assert_array_equal(out, x.sum(1) * 1.5)


def test_parts_of_a_fragment():
    def function(a, b, r, c):
        left, right = a[:, 0:16], a[:, 16:32]
        assert left.shape == b[:, 0::2].shape == (64, 16)
        wide = left * right
        assert isinstance(wide, nv.Accumulator)
        return wide

    x, _, _, _, out = numbers(64, 32), *[None] * 3, np.zeros((64, 16), np.float32)
    y, r, c = numbers(64, 32, seed=1), numbers(64), numbers(32)
    run(each, x, y, r, c, out, compute=function, m=64, n=32)
    np.testing.assert_array_equal(out, x[:, :16] * x[:, 16:])
    run(each, x, y, r, c, out, compute=lambda a, b, r, c: b[:, 0::2] - b[:, 1::2], m=64, n=32)
    np.testing.assert_array_equal(out, y[:, 0::2] - y[:, 1::2])


@nv.jit
def clipped(x, bias, out, sums, *, top, left):
    @nv.kernel(grid=1, block=128)
    def kernel():
        start = (nv.i32(top), nv.i32(left))
        a = nv.fragment(x, start, (64, 32), clip=True, other=-1.0)
        a = a + nv.column_vector(bias, start[1], 32, clip=True)[None, :]
        a.store(out, start, clip=True)
        a.sum(1).store(sums, start[0], clip=True)

    kernel()


@pytest.mark.parametrize("cols", [40, 41])
def test_bounds(cols):
    x, bias = numbers(100, cols), numbers(cols, seed=4)
    out, sums = np.full((100, cols), 77, np.float32), np.full(100, 77, np.float32)
    run(clipped, x, bias, out, sums, top=64, left=16)
    part = x[64:, 16:48] + bias[None, 16:48]
    expected = np.full((100, cols), 77, np.float32)
    expected[64:, 16:48] = part
    np.testing.assert_array_equal(out, expected)
    np.testing.assert_array_equal(sums[64:], part.sum(1) - (48 - cols))
    assert (sums[:64] == 77).all()
    loads = len(find(traced(clipped, x, bias, out, sums, top=64, left=16).module, "vector.load"))
    assert loads == (32 * 64 // 128 // 2 if cols == 40 else 0)  # pairs, where they are wholly inside or outside


@nv.jit
def through_tiles(x, out, *, dtype, swizzle, n, m=128):
    @nv.kernel(grid=1, block=128)
    def kernel():
        tile = nv.smem((m, n), dtype, swizzle=swizzle)
        nv.fragment(x, (0, 0), (m, n)).store(tile)
        nv.sync_threads()
        back = nv.fragment(tile)
        assert back.dtype is dtype and back.shape == (m, n)
        back.store(out, (0, 0))

    kernel()


TILES = (
    (nv.f16, 128, 128), (nv.bf16, 64, 64), (nv.bf16, 32, 48), (nv.f16, 16, 24), (nv.f16, 0, 40), (nv.f32, 128, 64),
    (nv.i8, 32, 64), (nv.f16, 32, 16), (nv.f32, 0, 8),
)  # fmt: skip


TRANSPOSED = ((nv.bf16, 128, 72), (nv.f16, 32, 64), (nv.f16, 16, 80), (nv.f32, 128, 64))


@pytest.mark.parametrize(("dtype", "swizzle", "n"), TILES)
def test_tiles_take_and_give_fragments(dtype, swizzle, n):
    x = np.random.default_rng(0).integers(-100, 100, (128, n)).astype(np.float32)
    if dtype is nv.i8:
        x = x.astype(np.int32)
    for options in LEVELS:
        out = np.full((128, n), 77, np.float32)
        run(through_tiles, x, out, dtype=dtype, swizzle=swizzle, n=n, options=options)
        np.testing.assert_array_equal(out, x)


@nv.jit
def through_transposed_tiles(x, out, *, dtype, swizzle, n, m=128):
    @nv.kernel(grid=1, block=128)
    def kernel():
        tile = nv.smem((n, m), dtype, swizzle=swizzle)
        nv.fragment(x, (0, 0), (m, n)).store(tile.T)
        nv.sync_threads()
        nv.fragment(tile.T).store(out, (0, 0))
        nv.fragment(tile.rows(0, 64)).store(out, (m, 0), clip=True)

    kernel()


@pytest.mark.parametrize(("dtype", "swizzle", "n"), TRANSPOSED)
def test_transposed_tiles_take_and_give_fragments(dtype, swizzle, n):
    x = np.random.default_rng(0).integers(-100, 100, (128, n)).astype(np.float32)
    for options in LEVELS:
        out = np.full((192, n), 77, np.float32)
        run(through_transposed_tiles, x, out, dtype=dtype, swizzle=swizzle, n=n, options=options)
        np.testing.assert_array_equal(out[:128], x)
        np.testing.assert_array_equal(out[128:], x.T[:64, :n])


@nv.jit
def carried(x, out, *, dtype):
    """Fragments, vectors and lists of lists of them through loops and branches."""

    @nv.kernel(grid=1, block=128)
    def kernel():
        a = nv.fragment(x, (0, 0), (64, 16))
        both = [[a, a * 2.0], [a.to(dtype)]]
        m, mask = a.max(1), a > 0.0
        for i in nv.range(3):
            both[0][0] = both[0][0] + both[0][1] * 0.5
            both[1][0] = both[1][0] + both[1][0]
            if i > 0:
                m = m + 1.0
                mask = mask & (a < 2.0)
                both[0][1] = both[0][1] * 2.0
        result = both[0][0] + both[1][0].to(nv.f32) + m[:, None]
        nv.where(mask, result, 0.0).store(out, (0, 0))

    kernel()


CARRIED = (nv.bf16, nv.f16)


@pytest.mark.parametrize("dtype", CARRIED, ids=str)
def test_loops_and_branches_carry_fragments(dtype):
    x, out = numbers(64, 16), np.zeros((64, 16), np.float32)
    run(carried, x, out, dtype=dtype)
    expected = x + (1 + 1 + 2) * x + 8 * x + x.max(1)[:, None] + 2
    np.testing.assert_array_equal(out, np.where((x > 0) & (x < 2), expected, 0))


@nv.jit
def printed(x):
    @nv.kernel(grid=1, block=128)
    def kernel():
        a = nv.fragment(x, (0, 0), (64, 16))
        print(a[14:18, 6:10])
        print("rows", a[8:9, 0:4])

    kernel()


def test_rows_are_printed_by_their_first_thread(capfd):
    x = np.arange(64 * 16, dtype=np.float32).reshape(64, 16)
    run(printed, x)
    lines = capfd.readouterr().out.splitlines()
    assert "rows [8, 0:4] [128, 129, 130, 131]" in lines
    for r in range(14, 18):
        assert f"[{r}, 6:10] [{', '.join(f'{v:g}' for v in x[r, 6:10])}]" in lines
    assert len(lines) == 5


@nv.jit
def printed_tile(x):
    @nv.kernel(grid=1, block=128)
    def kernel():
        tile = nv.smem((64, 16), nv.f16, swizzle=32)
        nv.fragment(x, (0, 0), (64, 16)).store(tile)
        nv.sync_threads()
        if nv.thread_id.x == 0:
            print("tile", tile[8:16, :])

    kernel()


def test_parts_of_tiles_are_printed_by_who_asks(capfd):
    x = np.arange(64 * 16, dtype=np.float32).reshape(64, 16)
    run(printed_tile, x)
    lines = capfd.readouterr().out.splitlines()
    assert lines == [f"tile [{r}, 0:16] [{', '.join(f'{v:g}' for v in x[8 + r])}]" for r in range(8)]


def test_the_truth_of_a_comparison_is_nothing():
    x = np.zeros((64, 16), np.float32)
    with pytest.raises(nv.TraceError, match="truth value of a Fragment"):
        run(rows, x, np.zeros(64, np.float32), compute=lambda a: a if a > 0.0 else a, m=64, n=16)
