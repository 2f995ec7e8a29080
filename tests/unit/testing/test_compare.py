"""Input, reference and tolerance: what the tests of kernels rest on."""

import ml_dtypes
import numpy as np
import pytest

from nvdsl.testing import assert_close, matmul, random, rounded

FLOATS = ["f64", "f32", "tf32", "f16", "bf16", "e4m3", "e5m2"]
INTEGERS = ["i64", "i32", "i16", "i8", "u64", "u32", "u16", "u8"]


# --- input


@pytest.mark.parametrize("dtype", FLOATS)
def test_random_floats_are_normal_and_of_the_type(dtype):
    x = random((64, 64), dtype, seed=1)
    assert abs(x.astype(np.float64).mean()) < 0.1 and abs(x.astype(np.float64).std() - 1) < 0.1
    assert np.array_equal(rounded(x, dtype).astype(np.float64), x.astype(np.float64))


@pytest.mark.parametrize("dtype", INTEGERS)
def test_random_integers_cover_the_range_of_the_type(dtype):
    x = random((4096,), dtype, seed=1)
    info = np.iinfo(x.dtype)
    assert x.dtype.name == dtype.replace("i", "int", 1).replace("u", "uint", 1)
    assert x.min() < info.min + info.max / 8 and x.max() > info.max - info.max / 8


@pytest.mark.parametrize("dtype", FLOATS + INTEGERS)
def test_random_small_integers(dtype):
    x = random((4096,), dtype, seed=1, integers=True)
    assert set(x.astype(np.float64)) == ({0, 1, 2} if dtype.startswith("u") else {-2, -1, 0, 1, 2})


def test_random_depends_on_the_seed_only():
    assert np.array_equal(random((8,), "f16", 3), random((8,), np.float16, 3))
    assert not np.array_equal(random((8,), "f16", 3), random((8,), "f16", 4))


@pytest.mark.parametrize(
    ("dtype", "value", "expected"),
    [
        ("f16", 2049.0, 2048.0),  # tie, to even
        ("f16", 2051.0, 2052.0),
        ("f16", 1e6, np.inf),
        ("bf16", 257.0, 256.0),
        ("bf16", 259.0, 260.0),
        ("tf32", 2049.0, 2050.0),  # tie, away from zero
        ("tf32", -2049.0, -2050.0),
        ("tf32", np.inf, np.inf),
        ("e4m3", 17.0, 16.0),
        ("e4m3", 1000.0, 448.0),  # saturates
        ("e5m2", -1e6, -57344.0),
        ("f32", 16777217.0, 16777216.0),
        ("f64", 16777217.0, 16777217.0),
    ],
)
def test_rounding_is_the_hardwares(dtype, value, expected):
    assert float(rounded(np.array([value]), dtype)[0]) == expected


@pytest.mark.parametrize("dtype", FLOATS)
def test_rounding_keeps_nan(dtype):
    assert np.isnan(rounded(np.array([np.nan]), dtype).astype(np.float64))


# --- reference


@pytest.mark.parametrize("dtype", FLOATS)
def test_matmul_is_the_sum_of_products(dtype):
    a, b = random((3, 5), dtype, 1), random((5, 4), dtype, 2)
    expected = [[sum(float(a[i, k]) * float(b[k, j]) for k in range(5)) for j in range(4)] for i in range(3)]
    assert np.allclose(matmul(a, b), expected, rtol=1e-13, atol=0)
    assert matmul(a, b, precision=np.float32).dtype == np.float32


def test_matmul_reads_tf32_operands_as_wgmma_does():
    x = np.array([[1 + 2.0**-11 + 2.0**-12]], np.float32)  # rounding would give 1 + 2**-10
    assert matmul(x, x, dtype="tf32") == 1.0
    assert matmul(x, x) != 1.0


def test_matmul_of_integers_is_exact_and_wraps():
    a, b = random((4, 64), "i8", 1), random((64, 4), "u8", 2)
    assert np.array_equal(matmul(a, b), a.astype(np.int64) @ b.astype(np.int64))
    big = np.full((1, 1), 2**17, np.int32)
    assert matmul(big + 1, big) == 2**17  # 2**34 + 2**17


# --- tolerance: what hardware computes passes, what a broken kernel computes does not


def tensor_core(a, b, bits, step):
    """A product as the hardware may compute it: `step` products at a time, each sum truncated to `bits` of
    mantissa after the leading one."""
    acc = np.zeros((a.shape[0], b.shape[1]))
    for k in range(0, a.shape[1], step):
        exact = acc + a[:, k : k + step].astype(np.float64) @ b[k : k + step].astype(np.float64)
        fraction, exponent = np.frexp(exact)
        acc = np.ldexp(np.trunc(fraction * 2.0 ** (bits + 1)), exponent - bits - 1)
    return acc


ARITHMETIC = [  # operands, accumulator, its bits of mantissa, k of one wgmma, result
    ("f16", "f32", 23, 16, "f32"),
    ("f16", "f32", 23, 16, "f16"),
    ("bf16", "f32", 23, 16, "bf16"),
    ("tf32", "f32", 23, 8, "f32"),
    ("e4m3", "f32", 13, 32, "f32"),
    ("e5m2", "f32", 13, 32, "f16"),
    ("f16", "f16", 10, 16, "f16"),
]


@pytest.mark.parametrize(("dtype", "acc", "bits", "step", "out"), ARITHMETIC)
@pytest.mark.parametrize("k", [32, 256, 2048])
def test_the_hardwares_arithmetic_passes_and_mistakes_do_not(dtype, acc, bits, step, out, k):
    a, b = random((128, k), dtype, seed=k), random((k, 128), dtype, seed=k + 1)
    reference = matmul(a, b)
    result = rounded(tensor_core(a, b, bits, step), out)
    assert_close(result, reference, dtype, k, acc=acc)

    without_last_step = rounded(matmul(a[:, :-step], b[:-step]), out)
    swapped_rows = result[np.r_[1, 0, 2:128]]
    one_wrong = result.copy()
    one_wrong[17, 3] = rounded(reference[17, 3] + 0.5 * reference.std(), out)
    for wrong in (without_last_step, swapped_rows, one_wrong):
        with pytest.raises(AssertionError, match="elements differ"):
            assert_close(wrong, reference, dtype, k, acc=acc)


@pytest.mark.parametrize("out", ["f32", "f16", "bf16"])
@pytest.mark.parametrize("dtype", ["f16", "bf16", "tf32", "e4m3", "e5m2"])
def test_small_integers_compare_exactly(dtype, out):
    a, b = random((16, 8192), dtype, 1, integers=True), random((8192, 16), dtype, 2, integers=True)
    reference = matmul(a, b)
    result = rounded(tensor_core(a, b, 13 if dtype in ("e4m3", "e5m2") else 23, 8), out)
    assert_close(result, reference, dtype, 8192, exact=True)
    result[0, 0] = np.nextafter(result[0, 0], result.dtype.type(np.inf), dtype=result.dtype)
    with pytest.raises(AssertionError):
        assert_close(result, reference, dtype, 8192, exact=True)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("out", [np.float32, np.float16, ml_dtypes.bfloat16])
def test_nan_and_infinity_never_pass(value, out):
    good, bad = np.ones((2, 2), out), np.array([[1, 1], [1, value]], out)
    for actual, expected in [(bad, good), (good, bad), (bad, bad)]:
        with pytest.raises(AssertionError):
            assert_close(actual, expected, "f16", 16)


@pytest.mark.parametrize("shapes", [((2, 3), (3, 2)), ((4,), (4, 1)), ((0, 4), (0, 4))])
def test_shapes_must_agree_and_not_be_empty(shapes):
    with pytest.raises(AssertionError, match="shapes"):
        assert_close(np.zeros(shapes[0], np.float32), np.zeros(shapes[1], np.float32), "f16", 16)


def test_integers_must_be_equal():
    x = np.array([2**31 - 1, 5], np.int32)
    assert_close(x, x.copy(), "i8", 8192)
    with pytest.raises(AssertionError):
        assert_close(x, x - np.array([1, 0], np.int32), "i8", 8192)


def test_the_message_shows_the_first_bad_elements():
    expected = np.arange(1.0, 1025.0).reshape(32, 32)
    actual = expected.astype(np.float32)
    actual[3, 4:10] = 0
    actual[5, 5] = np.nan
    with pytest.raises(AssertionError) as caught:
        assert_close(actual, expected, "f16", 16)
    text = str(caught.value)
    assert "7 of 1024 elements differ" in text
    assert "[3, 4]: actual 0.0, expected 101" in text
    assert "... and 2 more, the last at [5, 5]" in text
