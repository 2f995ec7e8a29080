"""What the attention chapters share: arrays of heads, and what NumPy makes of them in f64."""

import math

import numpy as np

import nvdsl as nv


def random(*shape, seed=0):
    """An array of f16."""
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float16)


def weights(q, k, causal):
    """softmax(q k^T / sqrt(K)) of [heads, rows, K] arrays, and the natural logarithms of the sums; row i sees the keys
    0 to i + keys - rows where it is causal."""
    s = q.astype(np.float64) @ k.astype(np.float64).swapaxes(1, 2) / math.sqrt(q.shape[2])
    if causal:
        s = np.where(np.tri(*s.shape[1:], s.shape[2] - s.shape[1], dtype=bool), s, -np.inf)
    highest = s.max(axis=2, keepdims=True)
    p = np.exp(s - highest)
    total = p.sum(axis=2, keepdims=True)
    return p / total, (highest + np.log(total))[..., 0]


def check(attention, heads, M, N, K, causal=False, **options):
    """Run a forward kernel, and compare."""
    q, k, v = random(heads, M, K), random(heads, N, K, seed=1), random(heads, N, K, seed=2)
    o = np.zeros_like(q)
    print(attention.compile(q, k, v, o, causal=causal, **options).report())
    if why := nv.no_gpu():
        print(f"{why}: in the simulator")
    attention(q, k, v, o, causal=causal, **options)
    np.testing.assert_allclose(o, weights(q, k, causal)[0] @ v.astype(np.float64), rtol=4e-3, atol=4e-3)
