"""The arguments of ``nv.matmul`` that are no arrays: what is taken, and what is said of the rest."""

from __future__ import annotations

import re

import numpy as np
import pytest

import nvdsl as nv
from nvdsl.kernels import Config
from nvdsl.kernels.gemm import options
from tests.exhaustive import sample
from tests.unit.kernels.conftest import tensor

A, B = np.ones((8, 16), np.float16), np.ones((16, 8), np.float16)


class Unhashable:
    __hash__ = None

    def __call__(self, x):
        return x


WRONG = {
    "out_dtype is a name of nvdsl": ({"out_dtype": "f32"}, "out_dtype='f32'", "out_dtype=nv.f32"),
    "out_dtype is an object": ({"out_dtype": object()}, "out_dtype=<object", "nv.f32"),
    "acc_dtype is complex": ({"acc_dtype": np.complex64}, "acc_dtype=", "acc_dtype=nv.f32"),
    "acc_dtype is of no product": ({"acc_dtype": np.float64}, "sums of f16 in f64", ""),
    "config is a name": ({"config": "fast"}, "config='fast'", r"config=Config\("),
    "config is a dict": ({"config": {"tile_m": 64}}, "config={'tile_m': 64}", r"config=Config\("),
    "alpha is None": ({"alpha": None}, "alpha=None", "pass a float"),
    "alpha is an array": ({"alpha": np.ones(2)}, r"alpha=array\(\[1., 1.\]\)", "scale_a"),
    "alpha is an array of one": ({"alpha": np.ones(1)}, r"alpha=array\(\[1.\]\)", "scale_a"),
    "alpha is complex": ({"alpha": 1j}, "alpha=1j", "pass a float"),
    "alpha is NumPy's complex": ({"alpha": np.complex64(1)}, "alpha=np.complex64", "pass a float"),
    "alpha is text": ({"alpha": "2"}, "alpha='2'", "pass a float"),
    "alpha is beyond f32": ({"alpha": 1e39}, r"alpha .*= 1e\+39", "scale the operands"),
    "scales are beyond f32": ({"scale_a": 1e20, "scale_b": 1e20}, r"alpha .*= 1e\+40", "scale the operands"),
    "beta is beyond f32": ({"beta": -1e39, "c": np.ones((8, 8), np.float16)}, r"beta = -1e\+39", "scale the operands"),
    "beta is text": ({"beta": "2", "c": np.ones((8, 8))}, "beta='2'", "pass a float"),
    "scale_a is complex": ({"scale_a": np.complex64(1)}, "scale_a=np.complex64", "pass a float"),
    "scale_b is a list": ({"scale_b": [1.0]}, "scale_b is a list", ""),
    "activation is unknown": ({"activation": "swish"}, "activation='swish'", "choose one"),
    "activation is a list": ({"activation": ["relu"]}, r"activation=\['relu'\]", "choose one"),
    "activation is unhashable": ({"activation": Unhashable()}, "activation=<", "choose one"),
    "activation returns None": ({"activation": lambda x: None}, "returned None", "return what it computes"),
    "activation returns text": ({"activation": lambda x: "x"}, "returned 'x'", "return what it computes"),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_is_wrong_is_said_with_a_fix_at_the_callers_line(name):
    given, said, fix = WRONG[name]
    with pytest.raises(nv.ArgumentError, match=said) as caught:
        nv.matmul(A, B, target="sim", **given)
    error = caught.value
    assert error.where.file == __file__ and error.rule and re.search(fix, error.fix)


def test_an_activation_that_fails_is_tried_with_one_configuration(recwarn):
    def wrong(x):
        return x.nothing

    a = np.ones((256, 256), np.float16)
    with pytest.raises(nv.TraceError, match="no attribute 'nothing'") as caught:
        nv.matmul(a, a, activation=wrong, target="sim")
    assert caught.value.where.file == __file__ and not list(recwarn)


@pytest.mark.parametrize("name", sample([name for name in WRONG if not name.startswith("activation returns")], 9))
def test_a_repeated_call_says_the_same(name, gpu, torch):
    given, said, _ = WRONG[name]
    a, b, out, c = (tensor(torch, at) for at in (0x10000, 0x20000, 0x30000, 0x40000))
    given = {**given, **({"c": c} if "c" in given else {})}
    known = {**dict.fromkeys(given), "alpha": 1.0, "c": given.get("c")}
    for _ in range(3):
        nv.matmul(a, b, out, target="gpu", **known)
        with pytest.raises(nv.ArgumentError, match=said) as caught:
            nv.matmul(a, b, out, target="gpu", **given)
        assert caught.value.where.file == __file__


@pytest.mark.parametrize("dtype", [np.float32, np.dtype("float32"), "float32", nv.f32])
def test_types_are_nvdsls_or_numpys(dtype):
    assert nv.matmul(A, B, out_dtype=dtype, acc_dtype=dtype, target="sim").dtype == np.float32


@pytest.mark.parametrize("two", [2, 2.0, np.float16(2), np.float64(2), np.int8(2)])
def test_numbers_are_pythons_or_numpys(two):
    c = np.ones((8, 8), np.float16)
    got = nv.matmul(A, B, c=c, alpha=two, beta=two, scale_a=two, scale_b=two, target="sim")
    np.testing.assert_array_equal(got, 8 * (A @ B) + 2 * c)


def test_beta_is_one_where_c_is_given():
    assert options.numbers(A, 1.0, None, None, None, None) == (1.0, 0.0)
    assert options.numbers(A, 2, None, A, 3.0, A) == (6.0, 1.0)


def test_an_activation_may_be_a_number():
    np.testing.assert_array_equal(nv.matmul(A, B, activation=lambda x: 3, target="sim"), np.full((8, 8), 3))


def test_a_configuration_is_taken():
    config = Config(64, 64, stages=2, consumers=1)
    np.testing.assert_array_equal(nv.matmul(A, B, config=config, target="sim"), A @ B)
