"""What nv.softmax and the norms refuse, and that their kernels fit the hardware."""

import numpy as np
import pytest

import nvdsl as nv
from nvdsl.kernels.rows import kernels
from nvdsl.kernels.rows.config import choose
from tests.exhaustive import sample
from tests.unit.kernels import array

X = np.zeros((4, 8), np.float32)


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: nv.softmax(3), "x is a int"),
        (lambda: nv.softmax(np.zeros((2, 3))), "x is of f64"),
        (lambda: nv.softmax(np.zeros((2, 0), np.float32)), "x has the shape (2, 0)"),
        (lambda: nv.softmax(np.zeros((), np.float32)), "x has the shape ()"),
        (lambda: nv.softmax(np.zeros((1, 262_145), np.float16)), "rows of 262,145 elements"),
        (lambda: nv.softmax(X, np.zeros(8, np.float32)), "out has the shape (8,)"),
        (lambda: nv.softmax(X[:3], X[1:]), "out and x overlap"),
        (lambda: nv.rms_norm(X, X[0], X[:]), "out and weight overlap"),
        (lambda: nv.layer_norm(X, np.zeros(7, np.float32)), "weight has the shape (7,)"),
        (lambda: nv.layer_norm(X, bias=X), "bias has the shape (4, 8)"),
    ],
)
def test_what_does_not_fit_is_an_error_of_the_call(call, says):
    with pytest.raises(nv.ArgumentError) as caught:
        call()
    assert says in caught.value.message
    assert caught.value.where.file == __file__ and caught.value.rule


CASES = [(kernel, dtype, cols) for cols in (1, 100, 777, 1024, 8192, 16_384, 65_536, 262_144, 262_143)
         for kernel in ("softmax", "log_softmax", "layer_norm", "rms_norm") for dtype in (nv.bf16, nv.f32)]  # fmt: skip


@pytest.mark.parametrize(("kernel", "dtype", "cols"), sample(CASES, 5))
def test_a_row_fits_into_registers(kernel, dtype, cols):
    x, row = array(dtype, 64, cols), array(dtype, cols)
    more = {"softmax": (), "log_softmax": (), "layer_norm": (row, row, 1e-5), "rms_norm": (row, 1e-6)}[kernel]
    function = nv.jit(getattr(kernels, kernel).__wrapped__, strict=True)
    (compiled,) = function.compile(x, x, *more, config=choose(cols, dtype.bytes, cols)).kernels.values()
    used = compiled.resources
    assert (used.stack, used.spill_stores, used.spill_loads) == (0, 0, 0)
    assert ("ld.global.v4.b32" in compiled.ptx) == (cols * dtype.bytes % 16 == 0)
