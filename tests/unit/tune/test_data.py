"""The data that candidates are checked on, and what counts as a difference."""

import ml_dtypes
import numpy as np
import pytest

import nvdsl as nv
from nvdsl.driver.array_spec import spec_of
from nvdsl.tune import data


def test_arrays_are_the_same_in_every_process_and_differ_from_one_another():
    specs = {"a": spec_of((8, 16), nv.f16), "b": spec_of((8, 16), nv.f16, (1, 8)), "n": spec_of((5,), nv.u8)}
    one, two = (data.host_arrays(specs, {}, 3) for _ in range(2))
    assert all((one[n] == two[n]).all() and one[n].shape == specs[n].shape for n in specs)
    assert not (one["a"] == one["b"]).all()
    assert one["b"].strides == (2, 16)
    assert set(np.unique(one["n"])) <= {0, 1, 2}
    assert 0.7 < one["a"].std() < 1.3


def test_what_the_user_gives_is_laid_out_as_the_argument():
    spec = spec_of((2, 3), nv.i32, (1, 2))
    flat = data.flatten("x", np.arange(6, dtype=np.int32).reshape(2, 3), spec)
    assert flat.tolist() == [0, 3, 1, 4, 2, 5]
    assert (data.host_arrays({"x": spec}, {"x": flat}, 0)["x"] == np.arange(6).reshape(2, 3)).all()
    for wrong in (np.zeros((3, 2), np.int32), np.zeros((2, 3), np.int64)):
        with pytest.raises(ValueError, match="x is"):
            data.flatten("x", wrong, spec)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn])
def test_rounding_is_no_difference_and_a_wrong_element_is(dtype):
    rng = np.random.default_rng(0)
    want = (8 * rng.standard_normal(4096)).astype(dtype)
    near = (want.astype(np.float64) * (1 + 1e-4 * rng.standard_normal(4096))).astype(dtype)
    assert data.difference(near, want, None) is None
    for value in (0.0, np.nan):
        wrong = want.copy()
        wrong[np.abs(want.astype(np.float32)).argmax()] = value
        assert data.difference(wrong, want, None).startswith("1 of 4096 elements differ")


def test_nan_is_like_nan_and_integers_are_exact():
    x = np.array([1.0, np.nan, np.inf], np.float32)
    assert data.difference(x.copy(), x, None) is None
    assert data.difference(np.float32([1, np.nan, -np.inf]), x, None)
    assert data.difference(np.float32([1, 2, np.inf]), x, None)
    assert data.difference(np.array([1, 2]), np.array([1, 3]), 1.0) == "1 of 2 elements differ"
    assert data.difference(np.float32([1.0]), np.float32([1.3]), 0.5) is None
