"""Functions over rows and their gradients on the device, against f64."""

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
                      (2100, 2051), (7, 65_536), (3, 131_080), (2, 262_144), (2, 100_003)):  # fmt: skip
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


LENGTHS = (1, 64, 777, 1024, 4096, 8192, 20_000, 65_536, 131_080, 262_144)


ODD_LENGTHS = (2189, 4955, 11_505, 20_001, 33_019, 50_001)
"""Of rows that begin anywhere, each of which a gradient shares in another way."""


@in_child(timeout=250)
def test_norms_with_options_and_their_gradients():
    torch = pytest.importorskip("torch")
    for columns in (*LENGTHS, *ODD_LENGTHS):
        for dtype in (torch.bfloat16, torch.float32):
            rows = max(3, 40_000 // columns)
            x, residual, dy = (torch.randn(rows, columns, device="cuda", dtype=dtype) + 2 for _ in range(3))
            weight, bias = (torch.randn(columns, device="cuda") for _ in range(2))
            out, total, mean, rstd = nv.layer_norm(
                x, weight, bias, residual=residual, residual_out=True, mean=True, rstd=True
            )
            torch.testing.assert_close(total, x + residual)
            h = total.double().requires_grad_()
            wide = [p.double().requires_grad_() for p in (weight, bias)]
            expected = torch.nn.functional.layer_norm(h, (columns,), *wide)
            rtol = 2e-2 if dtype == torch.bfloat16 else 1e-4
            torch.testing.assert_close(out.double(), expected.detach(), rtol=rtol, atol=2 * rtol)
            torch.testing.assert_close(mean.double(), h.detach().mean(-1), rtol=1e-4, atol=1e-4)
            expected.backward(dy.double())
            found = nv.layer_norm_backward(dy, total, mean, rstd, weight)
            terms = rstd.max().item(), 1.0, 1.0  # what dx is a difference of; of one column nothing is left
            for one, other, term in zip(found, (h.grad, wide[0].grad, wide[1].grad), terms, strict=True):
                near = rtol * max(other.abs().max().item(), 1e-2 * term)
                torch.testing.assert_close(one.double(), other, rtol=rtol, atol=near)


@in_child(timeout=250)
def test_cross_entropy_and_its_gradient():
    torch = pytest.importorskip("torch")
    for columns in LENGTHS[1:]:
        for dtype in (torch.bfloat16, torch.float32):
            rows = max(5, 40_000 // columns)
            x = torch.randn(rows, columns, device="cuda", dtype=dtype) * 3
            labels = torch.randint(0, columns, (rows,), device="cuda")
            labels[1] = -100
            wide = x.double().requires_grad_()
            expected = torch.nn.functional.cross_entropy(wide, labels, label_smoothing=0.1)
            expected.backward()
            loss, grad, lse = nv.cross_entropy(x, labels, label_smoothing=0.1, grad=True, lse=True)
            torch.testing.assert_close(loss.double(), expected.detach(), rtol=1e-5, atol=1e-5)
            near = 1e-2 * wide.grad.abs().max().item() if dtype == torch.bfloat16 else 1e-7
            torch.testing.assert_close(grad.double(), wide.grad, rtol=1e-2, atol=near)
            later = nv.cross_entropy_backward(torch.ones((), device="cuda"), x, labels, lse, label_smoothing=0.1)
            torch.testing.assert_close(later.double(), wide.grad, rtol=1e-2, atol=near)
            assert nv.cross_entropy(x, labels, grad=x)[1] is x


@in_child(timeout=120)
def test_e4m3_and_gradients_of_softmax():
    torch = pytest.importorskip("torch")
    for columns in LENGTHS:
        x = torch.randn(7, columns, device="cuda", dtype=torch.bfloat16)
        q, scale = nv.rms_norm(x, out_dtype=nv.e4m3)
        expected = torch.nn.functional.rms_norm(x.double(), (columns,), eps=1e-6)
        found = q.float().double() * scale.double()[:, None]
        near = (expected.abs().amax(-1) / 448 / 100).max().item()
        torch.testing.assert_close(found, expected, rtol=0.07, atol=near)
        wide = x.double().requires_grad_()
        y = torch.softmax(wide, -1)
        dy = torch.randn_like(x)
        y.backward(dy.double())
        dx = nv.softmax_backward(dy, y.detach().float())
        torch.testing.assert_close(dx.double(), wide.grad, rtol=1e-4, atol=1e-6)
