"""``nv.quantized_matmul`` on the device, against the same weights in f64."""

import itertools

import ml_dtypes
import numpy as np

import nvdsl as nv
from nvdsl.kernels.gemm.quantized import QuantizedConfig
from nvdsl.kernels.gemm.quantized_few import FewRowsConfig
from nvdsl.testing import in_child
from tests.gpu.test_matmul import close, made

CONFIGS = [
    None, QuantizedConfig(8, 128, 2, 4, 8), QuantizedConfig(16, 64, 4, 4, 4), QuantizedConfig(32, 64, 1, 4, 2),
    QuantizedConfig(64, 256, 1, 3, 2), QuantizedConfig(128, 128, 1, 2), QuantizedConfig(40, 256, 1, 4),
    QuantizedConfig(24, 128, 2, 4, 2), QuantizedConfig(56, 128, 2, 4, 2), QuantizedConfig(96, 128, 1, 2),
    FewRowsConfig(8, 64, 8, 8, 2),
    FewRowsConfig(16, 256, 2, 4), FewRowsConfig(24, 128, 2, 4, 4), FewRowsConfig(32, 128, 2, 4, 1, 2),
    FewRowsConfig(8, 112, 4, 8, part=112),
]  # fmt: skip


def on_the_device(x):
    import torch

    if x.dtype == ml_dtypes.bfloat16:
        return torch.from_numpy(x.view(np.int16)).view(torch.bfloat16).cuda()
    return torch.from_numpy(x).cuda()


def weight(k, n, kind, group, zeros, dtype=np.float16):
    rng = np.random.default_rng((k, n))
    scales = rng.uniform(0.5, 2, (-(-k // group), n)).astype(dtype)
    if kind == "e4m3":
        values = rng.standard_normal((k, n)).astype(ml_dtypes.float8_e4m3fn)
        return nv.QuantizedWeight.pack(values, scales, group=group)
    bits = int(kind[1])
    values = rng.integers(0, 2**bits, (k, n))
    points = rng.integers(0, 2**bits, scales.shape) if zeros else None
    values = values if zeros else values - 2 ** (bits - 1)
    return nv.QuantizedWeight.pack(values, scales, zeros=points, group=group, bits=bits)


def check(x, w, **options):
    import torch

    found = nv.quantized_matmul(x, w.map(on_the_device), out_dtype=nv.f32, **options)
    dense = torch.from_numpy(w.dequantized()).cuda().double()
    expected = x.double() @ dense
    size = float((x.double().abs() @ dense.abs()).max())
    close(found / size, expected / size, 1, 1e-5)


@in_child(timeout=200)
def test_kinds_and_types():
    for kind, group, zeros in itertools.product(("u4", "u8", "e4m3"), (32, 64, 128, 384), (False, True)):
        if not (zeros and kind == "e4m3"):
            w = weight(1160, 520, kind, group, zeros)
            for name in ("float16", "bfloat16"):
                for rows in (5, 20, 40):
                    check(made((rows, 1160), name, rows), w)


@in_child(timeout=200)
def test_sizes_and_configurations():
    for k, n in ((8, 1), (4096, 1024), (1000, 4100)):
        w = weight(k, n, "u4", 128, False, ml_dtypes.bfloat16)
        for m, config in itertools.product((1, 17, 200), CONFIGS):
            check(made((m, k), "bfloat16", m), w, config=config)


@in_child(timeout=100)
def test_epilogue_strides_and_repeated_calls():
    import torch

    w = weight(512, 264, "u4", 64, True)
    given, dense = w.map(on_the_device), torch.from_numpy(w.dequantized()).cuda().double()
    x, bias = made((2, 5, 513), "float16", 1)[..., 1:], made((264,), "float32", 2)
    expected = torch.relu(x.double() @ dense + bias.double())
    size = float(expected.max())
    for out in (None, None, torch.full((2, 5, 528), torch.nan, device="cuda")[..., ::2]):
        found = nv.quantized_matmul(x, given, out, bias=bias, activation="relu", out_dtype=nv.f32)
        close(found / size, expected / size, 1, 1e-5)
