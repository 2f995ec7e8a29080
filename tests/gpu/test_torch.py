"""nvdsl.torch on the device: results and gradients of torch, torch.compile, the current stream."""

import pytest

from nvdsl.testing import in_child


@in_child(timeout=250)
def test_a_small_model_trains_as_torch_s():
    torch = pytest.importorskip("torch")
    import nvdsl.torch as nt

    F = torch.nn.functional

    def loss(m, x, residual, p, labels):
        if m is F:
            residual = x + residual
            h = F.rms_norm(residual, (512,), p[0], 1e-6)
        else:
            h, residual = nt.add_rms_norm(x, residual, p[0])
        h = m.linear(F.silu(m.linear(h, p[1], p[2])), p[3])
        h = m.layer_norm(h + residual, (512,), p[4], p[5])
        logits = m.linear(h, p[6]).float()
        return m.cross_entropy(logits, labels, label_smoothing=0.1) + m.softmax(h, -1).square().mean()

    torch.manual_seed(0)
    shapes = [(512,), (1024, 512), (1024,), (512, 1024), (512,), (512,), (1000, 512)]
    parameters = [(torch.randn(s, device="cuda") / s[-1] ** 0.5).bfloat16().requires_grad_() for s in shapes]
    x, residual = (torch.randn(384, 512, device="cuda", dtype=torch.bfloat16, requires_grad=True) for _ in range(2))
    labels = torch.randint(0, 1000, (384,), device="cuda")
    wanted = (x, residual, *parameters)
    expected_loss = loss(F, x, residual, parameters, labels)
    expected = torch.autograd.grad(expected_loss, wanted)
    compiled = torch.compile(lambda *a: loss(nt, *a), fullgraph=True)
    for call in (lambda *a: loss(nt, *a), compiled, compiled):
        with torch.cuda.stream(torch.cuda.Stream()):
            torch.cuda.current_stream().wait_stream(torch.cuda.default_stream())
            found_loss = call(x, residual, parameters, labels)
            found = torch.autograd.grad(found_loss, wanted)
        torch.cuda.synchronize()
        torch.testing.assert_close(found_loss.float(), expected_loss.float(), rtol=1e-2, atol=1e-2)
        for one, two in zip(found, expected, strict=True):
            error = (one.float() - two.float()).norm() / two.float().norm()
            assert error < 0.05, error
