"""nv.jit: what a call is specialized on, and how often that is compiled."""

import numpy as np
import pytest

import nvdsl as nv
from tests.unit.driver import libraries
from tests.unit.kernels import array, refused

F32 = array(nv.f32, 64)


def recorder():
    """A host function, and the arguments that it was traced with."""
    seen = []

    @nv.jit
    def function(*values, constant=None, other=None):
        seen.append((*values, constant) if constant is not None else values)

    return function, seen


@pytest.mark.parametrize(
    ("value", "dtype"),
    [
        (True, nv.bool_),
        (1, nv.i32),
        (-(2**31), nv.i32),
        (2**31 - 1, nv.i32),
        (2**31, nv.i64),
        (-(2**31) - 1, nv.i64),
        (1.0, nv.f32),
        (np.float64(1), nv.f64),
        (np.float16(1), nv.f16),
        (np.uint8(1), nv.u8),
        (np.int64(1), nv.i64),
        (np.bool_(True), nv.bool_),
    ],
    ids=repr,
)
def test_scalars_are_run_time_values(value, dtype):
    function, seen = recorder()
    function.trace(value)
    (traced,) = seen[0]
    assert isinstance(traced, nv.Value)
    assert traced.dtype is dtype


def test_a_number_is_compiled_once_for_all_its_values(compiled):
    function, _ = recorder()
    for value in (1, 2, -7, 2**31 - 1):
        function.compile(value)
    assert len(compiled) == 1
    for value in (2**31, 2**40):
        function.compile(value)
    assert len(compiled) == 2, "i64"
    for value in (1.0, True, np.int32(1)):
        function.compile(value)
    assert len(compiled) == 4, "f32, bool; np.int32 is i32, as int is"


def test_arrays_are_specialized_on_shape_dtype_and_strides(compiled):
    function, _ = recorder()
    x = np.zeros((8, 16), np.float32)
    for same in (x, np.ones((8, 16), np.float32), array(nv.f32, 8, 16), array(nv.f32, 8, 16, strides=(16, 1))):
        function.compile(same)
    assert len(compiled) == 1
    for other in (
        x.astype(np.float16),
        x.astype(np.int32),
        x.astype(np.uint32),
        x.T.copy(),
        array(nv.f32, 8, 16, strides=(32, 1)),
    ):
        function.compile(other)
    assert len(compiled) == 6


def test_host_and_device_arrays_share_a_compilation(compiled, monkeypatch):
    torch = libraries.install_torch(monkeypatch)
    function, _ = recorder()
    function.compile(np.zeros((8, 16), np.float32))
    function.compile(torch.Tensor("float32", (8, 16), (16, 1), address=0x1000))
    function.compile(torch.Tensor("float32", (8, 16), (16, 1), address=0x8000))
    assert len(compiled) == 1
    function.compile(torch.Tensor("float32", (8, 16), (1, 8)))
    assert len(compiled) == 2


def test_an_axis_of_one_element_has_no_stride(compiled):
    function, _ = recorder()
    for strides in (None, (16, 1), (999, 1)):
        function.compile(array(nv.f32, 1, 16, strides=strides))
    function.compile(np.zeros((3, 16), np.float32)[1:2])
    assert len(compiled) == 1


def test_a_shape_may_be_a_list(compiled):
    function, _ = recorder()
    function.compile(nv.ShapeDtype([8, 16], nv.f32))
    function.compile(nv.ShapeDtype((8, 16), nv.f32))
    assert len(compiled) == 1


CONSTANTS = [1, 1.0, True, 2, -0.0, 0.0, "1", None, (1, 2), (1.0, 2), (1, True), ((1,), 2), ((1.0,), 2), nv.f16, nv.f32]


def test_constants_are_told_apart_by_value_and_type(compiled):
    """1, 1.0 and True are equal in Python, but not in a trace; the same holds within tuples, and for the sign of 0."""
    function, _ = recorder()
    for _ in range(2):
        for constant in CONSTANTS:
            function.compile(constant=constant)
    assert len(compiled) == len(CONSTANTS)


def test_constants_stay_python_values():
    function, seen = recorder()
    function.trace(constant=(128, 64))
    assert seen == [((128, 64),)]


def test_a_positional_argument_that_is_no_number_and_no_array_is_a_constant(compiled):
    function, seen = recorder()
    for value in ("relu", "relu", "gelu", nv.f16):
        function.compile(value)
    assert seen == [("relu",), ("gelu",), (nv.f16,)]


@pytest.mark.parametrize("use", [lambda f: f.compile(constant=[1]), lambda f: f([1]), lambda f: f(constant={"a": 1})])
def test_constants_that_no_dictionary_finds_are_refused(use):
    function, _ = recorder()
    error = refused(lambda: use(function), use)
    assert isinstance(error, nv.ArgumentError)
    assert "hashed" in error.message
    assert "tuple" in error.fix


def test_the_order_of_keywords_does_not_change_what_they_mean(compiled):
    seen = []

    @nv.jit
    def function(*, a, b):
        seen.append((a, b))

    function.compile(a=1, b=2)
    function.compile(b=2, a=1)
    assert set(seen) == {(1, 2)}


def test_arguments_by_keyword_are_run_time_values_unless_they_are_keyword_only(compiled):
    seen = []

    @nv.jit
    def function(x, n=3, *, m=3):
        seen.append((n, m))

    function.compile(F32, n=5, m=5)
    ((n, m),) = seen
    assert isinstance(n, nv.Value)
    assert m == 5
    function.compile(F32, n=7, m=5)
    assert len(compiled) == 1


def test_defaults_are_python_values():
    seen = []

    @nv.jit
    def function(x, n=3):
        seen.append(n)

    function.trace(F32)
    assert seen == [3]


@pytest.mark.parametrize(
    ("use", "says"),
    [
        (lambda f: f.trace(), "missing a required argument: 'x'"),
        (lambda f: f.trace(F32, F32, F32), "too many positional arguments"),
        (lambda f: f.trace(F32, nothing=1), "unexpected keyword argument 'nothing'"),
    ],
)
def test_calls_that_python_would_refuse(use, says):
    @nv.jit
    def function(x, y=0, *, m=3):
        pass

    with pytest.raises(nv.ArgumentError) as caught:
        use(function)
    assert says in caught.value.message
    assert "function()" in caught.value.message
    assert caught.value.where.file == __file__


@pytest.mark.parametrize(
    "value", [np.complex64(1), np.zeros(3, complex), np.zeros(3, object), np.zeros(3, ">f4")], ids=str
)
def test_types_that_no_kernel_has_are_refused_at_the_call(value):
    function, _ = recorder()

    def call():
        function.compile(value)

    with pytest.raises(nv.ArgumentError) as caught:
        call()
    assert caught.value.where.line == call.__code__.co_firstlineno + 1
