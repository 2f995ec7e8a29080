import pytest
from hypothesis import given
from hypothesis import strategies as st

import nvdsl as nv
from tests.unit.kernels import array, refused


@given(st.integers(0, 10**9), st.integers(1, 10**4))
def test_cdiv_rounds_up(a, b):
    assert (nv.cdiv(a, b) - 1) * b < a <= nv.cdiv(a, b) * b


def test_what_holds_is_silent():
    nv.require(True, "never seen")
    nv.require_multiples(M=(256, 128), N=(64, 64))


def test_require_names_its_own_line():
    def check():
        nv.require(False, "K = 7", rule="K is even", fix="pad K")

    error = refused(check)
    assert isinstance(error, nv.ArgumentError)
    assert str(error) == f"{error.where}: K = 7\n  rule: K is even\n  fix:  pad K"
    assert error.where.line == check.__code__.co_firstlineno + 1


@pytest.mark.parametrize(
    ("extents", "message", "fix"),
    [
        ({"M": (100, 64)}, "M = 100 is not a multiple of 64", "M = 128"),
        ({"M": (0, 64)}, "M = 0 is not a multiple of 64", "M = 64"),
        ({"M": (64, 64), "N": (65, 64), "K": (3, 2)}, "N = 65 is not a multiple of 64; K = 3", "N = 128, K = 4"),
    ],
)
def test_require_multiples_names_every_extent_that_is_not(extents, message, fix):
    error = refused(lambda: nv.require_multiples(**extents))
    assert message in str(error)
    assert fix in error.fix


def test_a_requirement_of_a_host_function_is_an_error_of_the_call():
    @nv.jit
    def double(x):
        nv.require_multiples(M=(x.shape[0], 128))

    double.trace(array(nv.f32, 256))
    error = refused(lambda: double.trace(array(nv.f32, 100)), double)
    assert "M = 100" in error.message
