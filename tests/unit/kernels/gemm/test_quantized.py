"""nv.quantized_matmul in the simulator, and how weights are packed."""

import dataclasses

import hypothesis
import ml_dtypes
import numpy as np
import pytest
from hypothesis import strategies as st

import nvdsl as nv
from nvdsl.kernels.gemm import quantized, quantized_few
from nvdsl.kernels.gemm.quantized import QuantizedConfig
from nvdsl.kernels.gemm.quantized_choose import choose
from nvdsl.kernels.gemm.quantized_few import FewRowsConfig
from tests.exhaustive import exhaustive, sample
from tests.unit.kernels.sizes import integers

SMALL = QuantizedConfig(16, 64, stages=2)
KINDS = ["u4", "u8", "e4m3"]


def weight(k, n, kind="u4", group=128, zeros=False, dtype=np.float16):
    """Of any values that a kind has, and powers of two as scales: products are exact."""
    rng = np.random.default_rng((k, n, group))
    groups = -(-k // group)
    scales = (2.0 ** rng.integers(-2, 2, (groups, n))).astype(dtype)
    if kind == "e4m3":
        values = rng.integers(-8, 9, (k, n)).astype(ml_dtypes.float8_e4m3fn)
        return nv.QuantizedWeight.pack(values, scales, group=group)
    bits = int(kind[1])
    low = 0 if zeros else -(2 ** (bits - 1))
    values = rng.integers(low, low + 2**bits, (k, n))
    points = rng.integers(0, 2**bits, (groups, n)) if zeros else None
    return nv.QuantizedWeight.pack(values, scales, zeros=points, group=group, bits=bits)


def expected(x, w):
    return x.astype(np.float32) @ w.dequantized()


CASES = [
    ("u4", 128, False, np.float16),
    ("u8", 32, True, ml_dtypes.bfloat16),
    ("e4m3", 64, False, ml_dtypes.bfloat16),
    *((kind, group, zeros, dtype) for kind in KINDS for group in (32, 64, 128, 256) for zeros in (False, True)
      for dtype in (np.float16, ml_dtypes.bfloat16) if not (zeros and kind == "e4m3")),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "group", "zeros", "dtype"), [*CASES[:3], *sample(CASES[3:], 0)])
def test_kinds_of_weights(kind, group, zeros, dtype):
    x, w = integers(5, 392, dtype=dtype), weight(392, 100, kind, group, zeros, dtype)
    found = nv.quantized_matmul(x, w, out_dtype=nv.f32, config=SMALL, target="sim")
    np.testing.assert_array_equal(found, expected(x, w))


@pytest.mark.parametrize(
    ("kind", "group", "zeros", "dtype"), [("u4", 64, True, np.float16), *sample(CASES[3:], 0)]
)
@pytest.mark.parametrize("config", [FewRowsConfig(8, 64, 3, 3, 2), *sample([FewRowsConfig(32, 64, 2, 2)], 0)], ids=str)
def test_few_rows(kind, group, zeros, dtype, config):
    x, w = integers(13, 1160, dtype=dtype), weight(1160, 100, kind, group, zeros, dtype)
    found = nv.quantized_matmul(x, w, out_dtype=nv.f32, config=config, target="sim")
    np.testing.assert_array_equal(found, expected(x, w))


def test_tiles_that_no_packed_columns_are_a_multiple_of():
    """Of 112 columns: the third begins in the first 256, the fifth earlier than the fourth ends."""
    x, w = integers(3, 136), weight(136, 500, zeros=True)
    found = nv.quantized_matmul(x, w, out_dtype=nv.f32, config=FewRowsConfig(8, 112, 1, 1, part=112), target="sim")
    np.testing.assert_array_equal(found, expected(x, w))


@exhaustive
@hypothesis.settings(max_examples=12, derandomize=True, deadline=None)
@hypothesis.given(
    st.sampled_from([1, 8, 17, 40]), st.sampled_from([8, 128, 520, 1000]), st.sampled_from([1, 64, 257]),
    st.sampled_from(KINDS), st.sampled_from([32, 128, 384]),
    st.sampled_from(
        [SMALL, QuantizedConfig(8, 64, 2, 2, 2), QuantizedConfig(32, 128, 2, 4, 4), QuantizedConfig(128, 128, 1, 2),
         FewRowsConfig(8, 64, 2, 4, 2), FewRowsConfig(16, 256, 2, 2), FewRowsConfig(24, 128, 1, 3, 4)]
    ),
)  # fmt: skip
def test_sizes(m, k, n, kind, group, config):
    x, w = integers(m, k), weight(k, n, kind, group)
    found = nv.quantized_matmul(x, w, out_dtype=nv.f32, config=config, target="sim")
    np.testing.assert_array_equal(found, expected(x, w))


def test_blocks_that_share_k_and_an_epilogue():
    x, w, bias = integers(20, 392), weight(392, 100), integers(100)
    out = np.full((20, 203), np.nan, np.float32)[:, 1:201:2]
    config = QuantizedConfig(8, 64, stages=2, split=4)  # two blocks have one slice, two have none
    assert nv.quantized_matmul(x, w, out, bias=bias, activation="relu", config=config, target="sim") is out
    np.testing.assert_array_equal(out, np.maximum(expected(x, w) + bias, 0))


def test_leading_axes_and_strides():
    w = weight(40, 72, group=64)
    x = integers(2, 3, 41)[..., 1:]  # not aligned: copied
    found = nv.quantized_matmul(x, w, target="sim")
    assert found.shape == (2, 3, 72) and found.dtype == np.float16
    np.testing.assert_array_equal(found, expected(x.reshape(6, 40), w).reshape(2, 3, 72).astype(np.float16))
    assert nv.quantized_matmul(x[0, 0], w, target="sim").shape == (72,)
    assert nv.quantized_matmul(x[:0], w, target="sim").shape == (0, 3, 72)


@pytest.mark.parametrize("bits", [4, 8])
@pytest.mark.parametrize("symmetric", [True, False])
@pytest.mark.parametrize("group", [32, None])
def test_quantizing_is_as_near_as_steps_are(bits, symmetric, group):
    w = np.random.default_rng(0).standard_normal((200, 70)) + 0.3
    w[:, 3] = 0
    found = nv.QuantizedWeight.quantize(w, bits=bits, group=group, symmetric=symmetric, dtype=np.float32)
    steps = np.repeat(found.scales, found.group, axis=0)[:200, :70]
    assert (np.abs(found.dequantized() - w) <= 0.5001 * steps + 1e-6).all()
    assert found.map(lambda x: x.copy()).shape == (200, 70) and "QuantizedWeight(u" in repr(found)


@pytest.mark.parametrize(
    ("dtype", "least"), [(np.float16, 2.0**-24), (ml_dtypes.bfloat16, 2.0**-133), (np.float32, 2.0**-149)]
)
@pytest.mark.parametrize("symmetric", [True, False])
def test_weights_whose_scales_are_subnormal_are_not_cut_off(dtype, least, symmetric):
    """Columns whose scales are 0.1, 0.2 ... of the least number that the scales' type has."""
    w = np.random.default_rng(0).uniform(-7, 7, (64, 70)) * np.arange(1, 71) * 0.1 * least
    found = nv.QuantizedWeight.quantize(w, group=64, symmetric=symmetric, dtype=dtype)
    off = np.abs(found.dequantized().astype(float) - w.astype(np.float32))
    assert (off <= (0.5001 if symmetric else 1.0001) * found.scales[:, :70].astype(float)).all()


def test_weights_of_torch_are_packed_as_those_of_numpy():
    torch = pytest.importorskip("torch")
    integers = np.arange(-8, 8).repeat(6)[:, None]
    w, one = torch.from_numpy(integers), torch.ones(1, 1)
    packed = [
        nv.QuantizedWeight.quantize(w.to(torch.bfloat16).requires_grad_(), bits=8, dtype=np.float32),
        nv.QuantizedWeight.pack(w.to(torch.int8), one.to(torch.bfloat16), bits=4),
        nv.QuantizedWeight.pack(w.to(torch.float8_e4m3fn), one),
    ]
    for found in packed:
        np.testing.assert_allclose(found.dequantized(), integers, atol=0.04)
    assert [found.kind for found in packed] == ["u8", "u4", "e4m3"] and packed[1].scales.dtype == ml_dtypes.bfloat16


def test_integers_of_four_bits_are_packed_as_those_of_more():
    signed, scales = np.arange(-8, 8).repeat(4).reshape(8, 8), np.ones(8, np.float32)
    small = nv.QuantizedWeight.pack(signed.astype(ml_dtypes.int4), scales, bits=4)
    np.testing.assert_array_equal(small.dequantized(), signed)
    zeros = np.full((1, 8), 15)
    shifted = (signed + 8).astype(ml_dtypes.uint4), scales
    found = nv.QuantizedWeight.pack(*shifted, zeros=zeros.astype(ml_dtypes.uint4), bits=4)
    np.testing.assert_array_equal(found.dequantized(), signed - 7)


def test_what_is_packed_is_unpacked():
    values = np.random.default_rng(0).integers(-8, 8, (70, 300))
    for bits in (4, 8):
        found = nv.QuantizedWeight.pack(values, np.ones(300), bits=bits)
        np.testing.assert_array_equal(found.dequantized(), values)
        assert found.data.nbytes == 128 * 512 * bits // 8


W = weight(64, 16)
V = np.zeros((64, 16), np.int8)
X = integers(4, 64)


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: nv.quantized_matmul(integers(4, 64), V), "takes an nv.QuantizedWeight"),
        (lambda: nv.quantized_matmul(integers(4, 32), W), "its last axis K, 64"),
        (lambda: nv.quantized_matmul(integers(4, 64, dtype=np.float32), W), "convert x"),
        (lambda: nv.quantized_matmul(integers(4, 64), W, integers(4, 15)), "out of shape"),
        (lambda: nv.quantized_matmul(integers(4, 64), W, bias=integers(4)), "bias of shape"),
        (lambda: nv.quantized_matmul(integers(4, 64), W, out_dtype=nv.i32), "a result of i32"),
        (lambda: nv.quantized_matmul(integers(4, 64), W, config=QuantizedConfig(20)), "a multiple of 8"),
        (lambda: nv.quantized_matmul(integers(4, 64), W, config=QuantizedConfig(64, stages=20)), "bytes of shared"),
        (lambda: nv.quantized_matmul(integers(4, 64), W, config=QuantizedConfig(64, 192)), "columns are packed by 256"),
        (lambda: nv.quantized_matmul(integers(4, 64), W, config=FewRowsConfig(8, 100)), "a multiple of 16 up to 256"),
        (lambda: nv.quantized_matmul(integers(4, 64), W.map(lambda x: x[:, ::2])), "as the weight was packed"),
        (lambda: nv.QuantizedWeight.pack(V + 9, np.ones(16), bits=4), "integers of -8 to 7"),
        (lambda: nv.QuantizedWeight.pack(V - 1, np.ones(16), zeros=np.ones(16)), "without a sign"),
        (lambda: nv.QuantizedWeight.pack(V, np.ones((3, 16)), group=32), "a number for each group"),
        (lambda: nv.QuantizedWeight.pack(V, np.ones(16), group=48), "a group is 32"),
        (lambda: nv.QuantizedWeight.pack(V.astype(float), np.ones(16)), "integers, or e4m3"),
        (lambda: nv.QuantizedWeight.pack(V, np.ones(16), group="all"), "a group is 32"),
        (lambda: nv.QuantizedWeight.pack(V, np.ones(16, complex)), "real numbers"),
        (lambda: nv.QuantizedWeight.quantize(V + 1e9), "a scale of 1.43e\\+08 in float16"),
        (lambda: nv.QuantizedWeight.quantize(V, bits=3), "4 or 8 bits"),
        (lambda: dataclasses.replace(W, kind="u3"), "one of u4, u8, e4m3"),
        (lambda: nv.quantized_matmul(X, dataclasses.replace(W, data=W.data.view(np.float32))), "is of i32"),
        (lambda: nv.quantized_matmul(X, dataclasses.replace(W, scales=W.scales.view(np.int16))), "is of f16"),
        (lambda: nv.QuantizedWeight.quantize(V[:0]), "one element or more"),
        (lambda: nv.QuantizedWeight.quantize(V * np.nan), "not all finite"),
    ],
)
def test_what_is_wrong_is_said(call, said):
    with pytest.raises(nv.ArgumentError, match=said):
        call()


WEIGHTS = ((4096, 4096), (8192, 8192), (14336, 4096), (4096, 14336), (8192, 57344))
CHOSEN = sorted(
    {
        (kind, group, choose(m, nv.QuantizedWeight(kind, size, group, None, None), 2))
        for m in (1, 16, 20, 40, 50, 64, 100, 500) for size in WEIGHTS for kind in KINDS for group in (32, 128)
    },
    key=repr,
)  # fmt: skip


@pytest.mark.parametrize(("kind", "group", "config"), sample(CHOSEN, 1), ids=str)
def test_registers(kind, group, config):
    shape = nv.ShapeDtype
    arrays = [shape(("m", "k % 8"), nv.bf16), shape(("t", "w"), nv.i32), shape(("g", "c"), nv.f16)]
    module = quantized_few if isinstance(config, FewRowsConfig) else quantized
    kernel = nv.jit(module.matmul.__wrapped__, strict=True)
    found = kernel.compile(*arrays, shape(("m", "n"), nv.bf16), kind=kind, group=group, config=config)
    for one in found.kernels.values():
        assert (one.resources.stack, one.resources.spill_stores, one.resources.spill_loads) == (0, 0, 0)
