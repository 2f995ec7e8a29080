"""Arguments that a kernel would take for something else: refused at the call, with the parameter's name."""

from __future__ import annotations

import copy
import pickle
import warnings

import numpy as np
import pytest

import nvdsl as nv
from nvdsl.errors import ArgumentError, TraceError
from tests.unit.kernels import array


@nv.jit
def put(out, s, *rest):
    """out[0] = s, as an f64."""

    @nv.kernel(grid=1, block=1)
    def kernel():
        out[0] = nv.f64(s)

    kernel()


def passed(s):
    out = np.zeros(1)
    put(out, s, target="sim")
    return out[0]


@pytest.mark.parametrize("s", [2**63, 2**64 - 1, 2**64, -(2**63) - 1, 10**30], ids=str)
def test_ints_beyond_64_bits_are_refused_by_name(s):
    with pytest.raises(ArgumentError, match=f"s of put: an argument is {s}") as caught:
        passed(s)
    assert caught.value.where.file == __file__ and "np.uint64" in caught.value.fix
    with pytest.raises(ArgumentError, match="rest of put"):
        put(np.zeros(1), 1, 2, s, target="sim")


@pytest.mark.parametrize("s", [2**63 - 1, -(2**63), 2**31, -1, np.uint64(2**64 - 1), np.uint64(2**63), np.int64(-7)])
def test_ints_within_64_bits_are_themselves(s):
    assert passed(s) == float(s)


@pytest.mark.parametrize("s", [1e39, -1e300])
def test_floats_beyond_f32_are_refused(s):
    with pytest.raises(ArgumentError, match="s is") as caught:
        passed(s)
    assert "np.float64" in caught.value.fix
    assert passed(np.float64(s)) == s


@pytest.mark.parametrize("s", [np.inf, -np.inf, 3.4028234663852886e38, 0.1])
def test_floats_within_f32_and_infinities_are_passed(s):
    assert passed(s) == np.float32(s)
    assert np.isnan(passed(float("nan")))


def test_a_bool_is_a_bool_and_a_constant_has_any_size():
    assert passed(True) == 1.0 and passed(np.bool_(False)) == 0.0
    seen = []

    @nv.jit
    def function(x, *, c):
        seen.append(c)

    function.trace(array(nv.f32, 4), c=2**100)
    assert seen == [2**100]


# --- arrays that are more, or less, than their elements

REFUSED = {
    "masked": (lambda: np.ma.masked_array(np.ones(4, np.float32), [0, 1, 0, 1]), "a masked array", "filled"),
    "masked by nothing": (lambda: np.ma.masked_array(np.ones(4, np.float32)), "a masked array", "filled"),
    "object": (lambda: np.array([1, "x", None, 2], object), "dtype object", "convert"),
    "structured": (lambda: np.zeros(4, [("a", "f4"), ("b", "i4")]), "dtype void", "convert"),
    "swapped": (lambda: np.ones(4, ">f4"), "bytes are swapped", "newbyteorder"),
    "dates": (lambda: np.zeros(4, "datetime64[s]"), "dtype datetime64", "convert"),
    "complex": (lambda: np.zeros(4, np.complex64), "dtype complex64", "convert"),
    "strings": (lambda: np.array(["a", "b"]), "dtype str", "convert"),
}


@pytest.mark.parametrize(("make", "text", "fix"), REFUSED.values(), ids=REFUSED)
def test_arrays_that_no_kernel_can_read_are_refused(make, text, fix):
    @nv.jit
    def function(out, x):
        pass

    with pytest.raises(ArgumentError, match=f"x of function: .*{text}") as caught:
        function(np.zeros(4, np.float32), make(), target="sim")
    assert caught.value.where.file == __file__ and fix in caught.value.fix
    if make().ndim == 1 and make().dtype == np.float32:
        with pytest.raises(ArgumentError, match=text):
            nv.matmul(make().reshape(2, 2), np.ones((2, 2), np.float32), target="sim")


@nv.jit
def double(x, out):
    @nv.kernel(grid=1, block=1)
    def kernel():
        at = (0,) * x.ndim
        out[at] = x[at] * 2.0

    kernel()


@pytest.mark.parametrize(
    "make",
    [lambda: np.matrix([[3.0]], np.float32), lambda: np.array(3.0, np.float32), lambda: np.full((1, 1), 3.0, "f4")],
    ids=["matrix", "no axes", "one element"],
)
def test_odd_arrays_that_are_right(make):
    x, out = make(), make() * 0
    out = np.asanyarray(out).reshape(np.shape(x)) if np.ndim(x) else np.array(0.0, np.float32)
    double(x, out, target="sim")
    assert out.reshape(-1)[0] == 6.0


def test_a_read_only_output():
    x, out = np.ones((1, 1), np.float32), np.ones((1, 1), np.float32)
    out.flags.writeable = False
    with pytest.raises(ArgumentError, match="out is read-only"):
        double(x, out, target="sim")
    double(out, x, target="sim")


# --- stores


def stored(dtype, value, *arguments):
    """What a store of ``value(scalars)`` leaves in an array of ``dtype``."""

    @nv.jit
    def function(out, *scalars):
        @nv.kernel(grid=1, block=1)
        def kernel():
            out[0] = value(*scalars)

        kernel()

    out = np.zeros(1, dtype)
    function(out, *arguments, target="sim")
    return out[0]


@pytest.mark.parametrize("dtype", [np.int32, np.uint8, np.int64], ids=str)
@pytest.mark.parametrize(
    ("value", "arguments"),
    [(lambda: 1.5, ()), (lambda s: s, (1.5,)), (lambda s: s * 2.0, (np.float64(1),)), (lambda: float("nan"), ())],
)
def test_a_float_is_not_cut_by_a_store(dtype, value, arguments):
    with pytest.raises(TraceError, match="stored into an array of") as caught:
        stored(dtype, value, *arguments)
    assert caught.value.where.file == __file__ and "cuts toward zero" in caught.value.fix


def test_a_store_into_a_tile_is_a_store():
    @nv.jit
    def function(out):
        @nv.kernel(grid=1, block=32)
        def kernel():
            tile = nv.smem((8, 64), nv.i16)
            tile[0, nv.thread_id.x] = nv.f32(nv.thread_id.x) * 0.5
            out[0] = tile[0, 0]

        kernel()

    with pytest.raises(TraceError, match="a traced f32 stored into an array of i16"):
        function.trace(array(nv.i16, 1))


def test_what_a_store_converts():
    assert stored(np.int32, lambda: 2.0) == 2
    assert stored(np.int32, lambda s: nv.i32(s), -1.5) == -1
    assert stored(np.uint8, lambda s: s, 513) == 1  # the low bits
    assert stored(np.int32, lambda s: s, 2**40 + 7) == 7
    assert stored(np.float32, lambda s: s, 3) == 3.0
    assert stored(np.float16, lambda s: s, np.float32(0.1)) == np.float16(0.1)
    assert stored(np.float32, lambda s: s, np.float64(0.1)) == np.float32(0.1)
    assert stored(np.bool_, lambda s: s, 5)


# --- f64 unawares


def advice(s, use=lambda x, s: x * s):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        stored(np.float32, lambda s: use(nv.f32(3), s), s)
    return [w for w in caught if issubclass(w.category, nv.AdvisoryWarning)]


@pytest.mark.parametrize("s", [np.sqrt(2.0), np.float64(2), np.arange(4.0).mean()])
@pytest.mark.parametrize("use", [lambda x, s: x * s, lambda x, s: s + x, lambda x, s: nv.max(x, s)])
def test_arithmetic_that_becomes_f64_unawares_is_told_at_its_line(s, use):
    (warning,) = advice(s, use)
    assert warning.filename == __file__ and "computed in f64" in str(warning.message)


def test_arithmetic_that_is_meant_is_not_told():
    assert not advice(1.5) and not advice(np.float32(1.5)) and not advice(float(np.sqrt(2.0)))
    assert not advice(np.sqrt(2.0), lambda x, s: nv.f64(x) * s)
    assert not advice(np.sqrt(2.0), lambda x, s: x * nv.f32(s))
    assert not advice(np.sqrt(2.0), lambda x, s: s * 2.0)
    assert not advice(1, lambda x, s: x * np.sqrt(2.0))  # a number in the kernel takes the other's type


# --- jit functions as objects


def test_a_copy_is_the_function_and_a_pickle_its_name():
    assert copy.copy(put) is put and copy.deepcopy({"f": [put]})["f"][0] is put
    assert pickle.loads(pickle.dumps(put)) is put
    with pytest.raises((pickle.PicklingError, AttributeError)):
        pickle.dumps(nv.jit(lambda x: None))


tuned = nv.autotune(nv.Space(n=[1, 2]))(nv.jit(lambda x, *, n=1: None))
tuned._function.__qualname__ = "tuned"


def test_so_it_is_with_tuned_functions():
    assert pickle.loads(pickle.dumps(tuned)) is tuned and copy.deepcopy(tuned) is tuned
