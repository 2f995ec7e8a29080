"""What nv.mlp refuses, and that its kernels fit the hardware."""

import numpy as np
import pytest

import nvdsl as nv
from nvdsl.kernels.blocks.linear_combination import gelu, relu
from nvdsl.kernels.mlp import forward
from nvdsl.kernels.mlp.config import MOST_LAYERS, choose
from tests.exhaustive import sample
from tests.unit.kernels import array

X, W, B = np.zeros((4, 64), np.float16), np.zeros((2, 64, 64), np.float16), np.zeros((2, 64), np.float32)


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: nv.mlp(3, W), "x is a int"),
        (lambda: nv.mlp(B, W), "x is of f32"),
        (lambda: nv.mlp(X[:, :32], W), "x has the shape (4, 32)"),
        (lambda: nv.mlp(np.float16(0), W), "x is a float16"),
        (lambda: nv.mlp(X, W[0]), "weights has the shape (64, 64)"),
        (lambda: nv.mlp(X, [W]), "weights[0] has the shape (2, 64, 64)"),
        (lambda: nv.mlp(X, [W[0], W[0].astype(np.float32)]), "weights[1] has the shape (64, 64) and the type f32"),
        (lambda: nv.mlp(X, []), "0 layers"),
        (lambda: nv.mlp(X, [W[0]] * 33), "33 layers"),
        (lambda: nv.mlp(X, W, B[0]), "biases has the shape (64,)"),
        (lambda: nv.mlp(X, W, [B[0]]), "1 biases for 2 layers"),
        (lambda: nv.mlp(X, W, [None, B]), "biases[1] has the shape (2, 64)"),
        (lambda: nv.mlp(X, W, out=X[:3]), "out has the shape (3, 64)"),
        (lambda: nv.mlp(X, W, out=B[:1].repeat(4, 0)), "out is of f32"),
        (lambda: nv.mlp(W[0, :4], W, out=W[0, :4]), "out and weights overlap"),
        (lambda: nv.mlp(X, W, activation="rely"), "activation='rely'"),
    ],
)
def test_what_does_not_fit_is_an_error_of_the_call(call, says):
    with pytest.raises(nv.ArgumentError) as caught:
        call()
    assert says in caught.value.message
    assert caught.value.where.file == __file__ and caught.value.rule


def test_weights_of_another_type_are_to_be_converted():
    with pytest.raises(nv.ArgumentError) as caught:
        nv.mlp(X, [W[0], W[0].astype(np.float32)])
    assert caught.value.fix == "convert it to f16"


CASES = [(width, rows, major, activation) for width in (128, 256, 64) for rows in (65_536, 10_000, 100)
         for major in ("k", "mn") for activation in (relu, gelu)]  # fmt: skip


@pytest.mark.parametrize(("width", "rows", "major", "activation"), sample(CASES, 1))
def test_a_kernel_fits_into_registers_and_overlaps(width, rows, major, activation):
    """Nothing is spilled and no wgmma serialized; all layers that there may be fit into shared memory."""
    x = array(nv.bf16, "rows", width)
    function = nv.jit(forward.mlp.__wrapped__, strict=True)
    layers, config = MOST_LAYERS, choose(width, MOST_LAYERS, rows)
    (compiled,) = function.compile(
        x, x, array(nv.bf16, layers, width, width), array(nv.bf16, layers, width), config=config, blocks=132,
        major=major, weights=1, activation=activation, output_activation=None,
    ).kernels.values()  # fmt: skip
    used = compiled.resources
    assert (used.stack, used.spill_stores, used.spill_loads) == (0, 0, 0)
