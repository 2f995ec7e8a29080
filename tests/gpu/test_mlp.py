"""nv.mlp on the device: sizes that take every configuration, strided arrays, repeated calls."""

import ml_dtypes
import numpy as np
import pytest

import nvdsl as nv
from nvdsl.testing import in_child
from tests.sim.layers import check, layers_of, parameters


@in_child(timeout=100)
def test_sizes_that_take_every_configuration():
    for width in (64, 128, 256):
        for rows in (1, 130, 9000, 40_001):
            check((rows, width), 3, ml_dtypes.bfloat16 if rows % 2 else np.float16, "relu", "silu", stacked=rows != 130)
    check((2, 500, 128), 20, np.float16, "gelu")
    check((100_000, 64), 32, np.float16)


@in_child(timeout=100)
def test_torch_arrays_of_any_strides():
    torch = pytest.importorskip("torch")
    weights, biases = parameters(128, 3, np.float16)
    stack, rows = torch.from_numpy(weights).cuda(), torch.from_numpy(biases).cuda()
    wide = torch.randn(700, 3, 140, device="cuda").half()
    for x in (wide[:, 1, :128], wide[:, 1, 3:131], wide[:128, 1, :].T[:128], wide[:1, 0, 1:129], wide[:, :, 8:136]):
        expected = layers_of(x.cpu().numpy(), weights, biases, "relu", None)
        turned = stack.transpose(1, 2).contiguous().transpose(1, 2)
        unaligned = torch.zeros(1 + stack.numel(), device="cuda", dtype=torch.half)[1:].view(stack.shape).copy_(stack)
        for given in (stack, turned, unaligned, list(stack), [stack[0], turned[1], unaligned[2]]):
            found = nv.mlp(x, given, list(rows))
            assert found.shape == x.shape
            np.testing.assert_allclose(found.cpu().numpy(), expected, atol=3e-3 * np.abs(expected).max())
        out = torch.zeros(*x.shape[:-1], 131, device="cuda", dtype=torch.half)[..., 3:]
        assert nv.mlp(x, stack, rows, out) is out
        np.testing.assert_allclose(out.cpu().numpy(), expected, atol=3e-3 * np.abs(expected).max())


@in_child(timeout=60)
def test_repeated_calls_give_the_same_bits_and_see_new_weights():
    torch = pytest.importorskip("torch")
    x = torch.randn(20_000, 128, device="cuda").bfloat16()
    w = torch.randn(20, 128, 128, device="cuda").bfloat16() / 8
    first = nv.mlp(x, w)
    for _ in range(20):
        assert torch.equal(nv.mlp(x, w), first)
    w.zero_()
    assert not nv.mlp(x, w).any()
