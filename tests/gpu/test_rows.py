"""nv.softmax, nv.layer_norm and nv.rms_norm on the device, against f64."""

import numpy as np
import pytest

import nvdsl as nv
from nvdsl.testing import in_child
from tests.sim.programs import softmax_of
from tests.sim.rows import TOLERANCE, check


@in_child(timeout=250)
def test_rows_of_any_length():
    for dtype in TOLERANCE:
        for shape in ((1,), (1000, 1), (333, 64), (2, 50, 100), (40, 777), (3000, 1024), (100, 8192), (20, 20_000),
                      (7, 65_536), (3, 131_080), (2, 262_144), (2, 100_003)):  # fmt: skip
            check(shape, dtype, parameters=np.float32 if sum(shape) % 2 else dtype)


@in_child(timeout=120)
def test_torch_arrays_where_they_are():
    torch = pytest.importorskip("torch")
    wide = torch.randn(64, 3, 1040, device="cuda", dtype=torch.bfloat16)
    for x in (wide, wide[:, :, :1024], wide[:, 1], wide[:, 1, 1:1001], wide[1, 2], wide[:, :, 8:]):
        found = nv.softmax(x)
        expected = torch.softmax(x.double(), -1)
        assert found.shape == x.shape and found.dtype == x.dtype
        torch.testing.assert_close(found.double(), expected, rtol=8e-3, atol=1e-6)
        weight = torch.randn(x.shape[-1], device="cuda")
        norm = nv.layer_norm(x, weight, weight)
        expected = torch.nn.functional.layer_norm(x.double(), x.shape[-1:], weight.double(), weight.double())
        torch.testing.assert_close(norm.double(), expected, rtol=2e-2, atol=2e-2)
    with pytest.raises(nv.ArgumentError, match="the elements of a row lie side by side|strides"):
        nv.softmax(wide.transpose(1, 2))


@in_child(timeout=120)
def test_many_rows_in_place():
    for rows in (1, 131, 100_000):
        x = np.random.default_rng(rows).standard_normal((rows, 96)).astype(np.float32)
        expected = softmax_of(x)
        assert nv.softmax(x, x) is x
        np.testing.assert_allclose(x, expected, rtol=3e-5, atol=1e-7)
