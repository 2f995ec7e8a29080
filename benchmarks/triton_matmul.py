"""A matrix product in Triton, one configuration, for comparing what compiling costs (`bench_compile`)."""

from __future__ import annotations

from typing import Any

import triton
import triton.language as tl

BM, BN, BK, GROUP = 128, 256, 64, 8


@triton.jit
def kernel(
    a, b, out, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, GROUP: tl.constexpr
):  # fmt: skip
    """out[M, N] = a[M, K] @ b[K, N], row-major f16, f32 sums; the tile divides all three."""
    tile = tl.program_id(0)
    rows, cols = M // BM, N // BN
    first = tile // (GROUP * cols) * GROUP
    height = min(rows - first, GROUP)
    within = tile % (GROUP * cols)
    m = (first + within % height) * BM + tl.arange(0, BM)
    n = within // height * BN + tl.arange(0, BN)
    k = tl.arange(0, BK)
    a_at = a + m[:, None] * K + k[None, :]
    b_at = b + k[:, None] * N + n[None, :]
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for _ in range(K // BK):
        acc = tl.dot(tl.load(a_at), tl.load(b_at), acc)
        a_at += BK
        b_at += BK * N
    tl.store(out + m[:, None] * N + n[None, :], acc.to(tl.float16))


def matmul(a: Any, b: Any, out: Any) -> None:
    (M, K), N = a.shape, b.shape[1]
    grid = (M // BM * (N // BN),)
    kernel[grid](a, b, out, M, N, K, BM, BN, BK, GROUP, num_warps=8, num_stages=4)
