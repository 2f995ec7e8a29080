"""Array arguments of finished kernels: description, host copies, new outputs, overlaps."""

import ml_dtypes
import numpy as np
import pytest

import nvdsl as nv
from nvdsl.driver.array_spec import Place, spec_of
from nvdsl.kernels.arguments import Argument

X = np.arange(24, dtype=np.float32).reshape(4, 6)


def test_a_contiguous_host_array_is_its_own_copy():
    x = Argument.of("x", X)
    assert x.source is X or np.shares_memory(x.source, X)
    assert x.view() is x.source and x.view((6, 4)).shape == (6, 4)
    assert x.aligned and not x.is_new


@pytest.mark.parametrize("view", [X.T, X[::-1], X[:, ::2], X[1:3, 1:], np.broadcast_to(X[0], (5, 6)), X[:0].T])
def test_a_strided_host_array_is_copied_once_and_in_its_own_order(view):
    x = Argument.of("x", view)
    assert x.source is x.source
    assert x.source.flags.c_contiguous and x.source.shape == np.shape(view)
    np.testing.assert_array_equal(x.source, view)
    assert x.spec == spec_of(np.shape(view), nv.f32)


@pytest.mark.parametrize("turn", [lambda x: x, lambda x: x.T, lambda x: x[:, ::2], lambda x: x[::-1]])
def test_what_was_written_comes_back_to_the_caller_s_array(turn):
    memory = np.zeros((4, 6), np.float32)
    out = Argument.output("out", turn(memory), Argument.of("x", X), turn(memory).shape, nv.f32)
    out.source[...] = 7
    assert out.result().base is memory or out.result() is memory
    assert (turn(memory) == 7).all() and not out.is_new


def test_a_new_output_is_of_the_library_of_its_like():
    out = Argument.output("out", None, Argument.of("x", X.T), (2, 3), nv.bf16)
    out.source[...] = 1
    assert out.is_new and type(out.result()) is np.ndarray and out.result().dtype == ml_dtypes.bfloat16
    assert out.result().shape == (2, 3) and (out.result() == 1).all()


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: Argument.of("x", [1.0]), "x is a list"),
        (lambda: Argument.of("x", None), "x is a NoneType"),
        (lambda: Argument.of("y", np.broadcast_to(X, (2, 4, 6)), written=True), "y is read-only"),
        (lambda: Argument.of("y", np.lib.stride_tricks.as_strided(X, (3, 6), (4, 4)), written=True), "elements of y"),
        (lambda: Argument.output("y", X, Argument.of("x", X), (6, 4), nv.f32), "y has the shape (4, 6)"),
    ],
)
def test_what_is_no_argument_is_named(make, says):
    with pytest.raises(nv.ArgumentError) as caught:
        make()
    assert says in caught.value.message and (caught.value.rule or caught.value.fix)


def _device(name, address, shape=(4, 8), strides=(8, 1), device=0, dtype=nv.f16):
    return Argument(name, spec_of(shape, dtype, strides), (address, Place(None, device), None))


@pytest.mark.parametrize(
    ("other", "or_same", "overlaps"),
    [
        (_device("x", 0x10000), False, True),
        (_device("x", 0x10000), True, False),
        (_device("x", 0x10000, dtype=nv.bf16), True, True),
        (_device("x", 0x10000, (8, 4), (4, 1)), True, True),
        (_device("x", 0x10000 + 62), True, True),
        (_device("x", 0x10000 + 64), False, False),
        (_device("x", 0x10000, device=1), False, False),
        (Argument.of("x", X), False, False),
    ],
)
def test_device_arrays_that_overlap(other, or_same, overlaps):
    out = _device("out", 0x10000)
    if not overlaps:
        return out.check_apart(other, or_same=or_same)
    with pytest.raises(nv.ArgumentError, match="out and x overlap"):
        out.check_apart(other, or_same=or_same)


@pytest.mark.parametrize(
    ("out", "x", "or_same", "overlaps"),
    [
        (X, X, True, False),
        (X, X[:], False, True),
        (X, X.reshape(4, 6), True, False),
        (X, X[::-1], True, True),
        (X[:, ::2], X[:, 1::2], False, False),
        (X[:, ::2], X[:, ::2], True, False),
        (X[:1], X.reshape(2, 12)[:1, :6], True, False),
        (X[1:], X[:3], True, True),
        (X, X.view(np.int32), True, True),
    ],
)
def test_host_arrays_that_overlap(out, x, or_same, overlaps):
    out, x = Argument.of("out", out, written=True), Argument.of("x", x)
    if not overlaps:
        return out.check_apart(x, or_same=or_same)
    with pytest.raises(nv.ArgumentError, match="out and x overlap"):
        out.check_apart(x, or_same=or_same)


def test_device_memory_is_seen_as_another_shape():
    x = _device("x", 0x10010, (4, 8), (16, 1))
    seen = x.view((2, 2, 8), (32, 16, 1))
    assert seen.spec == spec_of((2, 2, 8), nv.f16, (32, 16, 1)) and seen.memory[0] == 0x10010
    assert x.view().spec == x.spec and x.view((4, 8)).spec == spec_of((4, 8), nv.f16)
    assert x.aligned and not _device("x", 0x10008).aligned
