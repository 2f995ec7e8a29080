"""A matrix product in today's Triton, of any extents and strides: the twin of tests/programs/triton_matmul.py."""

from __future__ import annotations

from typing import Any

import triton
import triton.language as tl

CONFIGS = [
    triton.Config({"BLOCK_M": m, "BLOCK_N": n, "BLOCK_K": k, "GROUP_M": 8}, num_warps=warps, num_stages=stages)
    for m, n, k, warps, stages in (
        (128, 256, 64, 8, 3), (128, 256, 64, 8, 4), (256, 128, 64, 8, 3), (128, 128, 64, 8, 4), (128, 128, 64, 4, 4),
        (128, 64, 64, 4, 4), (64, 128, 64, 4, 4), (64, 64, 64, 4, 4),
    )
]  # fmt: skip


@triton.autotune(configs=CONFIGS, key=["M", "N", "K", "a_k", "b_n"])
@triton.jit
def kernel(
    a, b, c, M, N, K, a_m, a_k, b_k, b_n,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, GROUP_M: tl.constexpr,
):  # fmt: skip
    """c[M, N] = a @ b with f32 sums; ``a_m`` and so on are strides."""
    pid = tl.program_id(0)
    programs_n = tl.cdiv(N, BLOCK_N)
    first = pid // (GROUP_M * programs_n) * GROUP_M
    height = min(tl.cdiv(M, BLOCK_M) - first, GROUP_M)
    within = pid % (GROUP_M * programs_n)
    rows = (first + within % height) * BLOCK_M + tl.arange(0, BLOCK_M)
    columns = within // height * BLOCK_N + tl.arange(0, BLOCK_N)
    k = tl.arange(0, BLOCK_K)
    a_at = a + (rows % M)[:, None] * a_m + k[None, :] * a_k
    b_at = b + k[:, None] * b_k + (columns % N)[None, :] * b_n
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for step in range(tl.cdiv(K, BLOCK_K)):
        left = K - step * BLOCK_K
        a_tile = tl.load(a_at, mask=k[None, :] < left, other=0.0)
        b_tile = tl.load(b_at, mask=k[:, None] < left, other=0.0)
        acc = tl.dot(a_tile, b_tile, acc)
        a_at += BLOCK_K * a_k
        b_at += BLOCK_K * b_k
    inside = (rows[:, None] < M) & (columns[None, :] < N)
    tl.store(c + rows[:, None] * N + columns[None, :], acc.to(c.dtype.element_ty), mask=inside)


def matmul(a: Any, b: Any, c: Any) -> None:
    """``a`` and ``b`` may be transposed views."""
    (M, K), N = a.shape, b.shape[1]
    kernel[lambda chosen: (triton.cdiv(M, chosen["BLOCK_M"]) * triton.cdiv(N, chosen["BLOCK_N"]),)](
        a, b, c, M, N, K, a.stride(0), a.stride(1), b.stride(0), b.stride(1)
    )
