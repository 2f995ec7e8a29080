"""Chapters 4 and 5 over shapes, types and stages, against float32 and float64 references on fresh input."""

import numpy as np
import pytest

import nvdsl as nv
from chapters import ch4_multistage_gemm as ch4
from chapters import ch5_warp_specialized_gemm as ch5
from nvdsl.testing import assert_close, in_child, matmul, random

GEMMS = {"ch4": ch4.gemm, "ch5": ch5.gemm}
SHAPES = [
    (128, 256, 64),  # one tile, one k-step: fewer than the stages
    (128, 256, 128),
    (256, 256, 192),
    (256, 512, 256),
    (384, 768, 1000),  # K is no multiple of the tile's: TMA fills with zeros
    (1024, 512, 8),
    (640, 1280, 2048),
]


def seed():
    """Fresh input in every run; the number is in the failure's message."""
    return int(np.random.default_rng().integers(1 << 30))


@pytest.mark.parametrize("name", GEMMS)
@in_child(timeout=180)
def test_shapes_with_numpy(name):
    for M, N, K in SHAPES:
        s = seed()
        a, b = random((M, K), nv.f16, s), random((K, N), nv.f16, s + 1)
        d = np.full((M, N), np.nan, np.float32)
        GEMMS[name](a, b, d)
        try:
            assert_close(d, matmul(a, b), nv.f16, K)
        except AssertionError as error:
            raise AssertionError(f"{name} {M}x{N}x{K}, seed {s}: {error}") from None


@pytest.mark.parametrize("name", GEMMS)
@in_child(timeout=180)
def test_integers_are_exact(name):
    for M, N, K in SHAPES:
        a, b = random((M, K), nv.f16, 1, integers=True), random((K, N), nv.f16, 2, integers=True)
        d = np.full((M, N), np.nan, np.float32)
        GEMMS[name](a, b, d)
        assert_close(d, matmul(a, b), nv.f16, K, exact=True)


@pytest.mark.parametrize("name", GEMMS)
@in_child(timeout=180)
def test_stages_and_tiles(name):
    options = [{"stages": s} for s in (2, 3, 4)] + [{"tile": (128, 128, 64)}, {"tile": (64, 64, 64)}]
    if name == "ch5":
        options[-1] = {"tile": (128, 64, 64)}
        options += [{"consumers": 1, "tile": (64, 256, 64)}, {"tile": (256, 128, 64), "stages": 3}]
    a, b = random((256, 576), nv.f16, 3), random((576, 256), nv.f16, 4)
    expected = matmul(a, b)
    for option in options:
        d = np.full((256, 256), np.nan, np.float32)
        GEMMS[name](a, b, d, **option)
        assert_close(d, expected, nv.f16, 576)


@pytest.mark.parametrize("name", GEMMS)
@pytest.mark.parametrize(("inp", "out"), [("f16", "f16"), ("bf16", "f32"), ("bf16", "bf16")])
@in_child(timeout=120)
def test_types(name, inp, out):
    dtypes = {"f16": nv.f16, "bf16": nv.bf16, "f32": nv.f32}
    a, b = random((256, 320), dtypes[inp], 5), random((320, 256), dtypes[inp], 6)
    d = np.full((256, 256), np.nan, dtypes[out].numpy)
    GEMMS[name](a, b, d)
    assert_close(d, matmul(a, b), dtypes[inp], 320)


@pytest.mark.parametrize("name", GEMMS)
@in_child(timeout=240)
def test_8192_with_torch(name):
    torch = pytest.importorskip("torch")
    n = 8192
    generator = torch.Generator(device="cuda").manual_seed(seed())
    a, b = (torch.randn(n, n, generator=generator, device="cuda").half() for _ in range(2))
    d = torch.full((n, n), float("nan"), device="cuda")
    GEMMS[name](a, b, d)
    torch.backends.cuda.matmul.allow_tf32 = False
    reference = a.float() @ b.float()
    assert torch.isfinite(d).all()
    assert ((d - reference).norm() / reference.norm()).item() < 1e-5
    rows = torch.randint(0, n, (4,), device="cuda")
    exact = a[rows].double() @ b.double()
    assert ((d[rows].double() - exact).norm() / exact.norm()).item() < 1e-5
