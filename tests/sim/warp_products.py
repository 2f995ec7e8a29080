"""Products of two warps through tiles of shared memory: load_a, load_b, a warp's accumulator, and its store."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

import nvdsl as nv
from nvdsl.testing import random
from nvdsl.values import dtypes

M = 32
"""Rows of a warp."""


@dataclass(frozen=True)
class Form:
    """``a``, ``b``, ``sums``, ``out``: names of types. ``a_turned``: A is stored (K, M); ``b_turned``: B is (N, K).
    ``swizzles``: of A's, B's and D's tile. ``to``: "tile", "turned" (a tile of D's transpose) or "array"."""

    a: str = "f16"
    b: str = "f16"
    sums: str = "f32"
    out: str = "f32"
    a_turned: bool = False
    b_turned: bool = True
    swizzles: tuple[int, int, int] = (128, 128, 0)
    to: str = "array"
    n: int = 16
    k: int = 64

    def arguments(self) -> list[Any]:
        """A and B as they are stored, and a D to be written."""
        a = random((2 * M, self.k), dtypes.by_name(self.a), seed=1)
        b = random((self.k, self.n), dtypes.by_name(self.b), seed=2)
        d = np.zeros((2 * M, self.n), dtypes.by_name(self.out).numpy)
        return [np.ascontiguousarray(a.T) if self.a_turned else a, np.ascontiguousarray(b.T) if self.b_turned else b, d]

    def expected(self, a: Any, b: Any) -> Any:
        left, right = (a.T if self.a_turned else a), (b.T if self.b_turned else b)
        return left.astype(np.float64) @ right.astype(np.float64)


@nv.jit
def product(a, b, d, *, form, using=None, sync=True):
    """``d = a @ b`` by a block of two warps."""
    sums = dtypes.by_name(form.sums)
    step = 32 if form.k % 32 == 0 else 16

    @nv.kernel(grid=1, block=64)
    def kernel():
        A = nv.smem(a.shape, a.dtype, swizzle=form.swizzles[0])
        B = nv.smem(b.shape, b.dtype, swizzle=form.swizzles[1])
        t, first = nv.thread_id.x, nv.warp_id() * M
        for x, tile in ((a, A), (b, B)):
            for i in nv.range(x.shape[0]):
                for j in nv.range(t, x.shape[1], 64):
                    tile[i, j] = x[i, j]
        if sync:
            nv.sync_threads()
        left, right = (A.T if form.a_turned else A), (B.T if form.b_turned else B)
        acc = nv.warp_accumulator(M, form.n, sums)
        for k in nv.range(0, form.k, step):
            acc += nv.load_a(left, (first, k), (M, step), using=using) @ nv.load_b(right, (k, 0), (step, form.n))
        if form.to == "array":
            acc.store(d, (first, 0))
            return
        turned = form.to == "turned"
        D = nv.smem((form.n, 2 * M) if turned else (2 * M, form.n), d.dtype, swizzle=form.swizzles[2])
        acc.store(D.T if turned else D, (first, 0))
        nv.sync_threads()
        for i in nv.range(2 * M):
            for j in nv.range(t, form.n, 64):
                d[i, j] = D[j, i] if turned else D[i, j]

    kernel()


FORMS = {
    "f16": Form(),
    "A and B transposed by ldmatrix": Form(a_turned=True, b_turned=False, swizzles=(128, 32, 0)),
    "dense tiles": Form(swizzles=(0, 0, 0), to="tile"),
    "bf16, narrow swizzles": Form("bf16", "bf16", swizzles=(64, 32, 64), to="tile"),
    "f16 sums by stmatrix": Form(sums="f16", out="f16", swizzles=(128, 128, 32), to="tile"),
    "the transpose by stmatrix": Form(out="f16", swizzles=(128, 128, 128), to="turned"),
    "tf32": Form("f32", "f32", swizzles=(128, 128, 64), to="tile"),
    "tf32, transposed: element by element": Form("f32", "f32", a_turned=True, b_turned=False, swizzles=(128, 32, 0)),
    "int8": Form("i8", "u8", "i32", "i32", swizzles=(64, 64, 0)),
    "int8, K outside": Form("u8", "i8", "i32", "i32", b_turned=False, swizzles=(64, 16, 0), to="tile"),
    "float8": Form("e4m3", "e5m2", out="bf16", swizzles=(64, 64, 32), to="tile"),
    "f64": Form("f64", "f64", "f64", "f64", swizzles=(128, 64, 0), to="tile"),
    "rows of 96 bytes": Form(k=48, swizzles=(0, 0, 0)),
}

TOLERANCE = {"f16": 2e-2, "bf16": 8e-2, "f32": 4e-5, "tf32": 4e-2, "i32": 0, "f64": 1e-13}


def tolerance(form: Form) -> float:
    return TOLERANCE["tf32" if form.a == "f32" else form.out if form.sums != "f16" else "f16"]


@nv.jit
def chained(a, b, c, d):
    """``d = (a @ b) @ c``, the first product's sums as A of the second, without shared memory."""
    m, n, p = a.shape[0], b.shape[1], c.shape[1]

    @nv.kernel(grid=1, block=32)
    def kernel():
        first = nv.warp_accumulator(m, n)
        first += nv.load_a(a) @ nv.load_b(b)
        second = nv.warp_accumulator(m, p)
        second += first.map(lambda x: x * 0.5).fragment(nv.f16) @ nv.load_b(c)
        second.store(d, (0, 0))

    kernel()


@nv.jit
def softmax_product(q, k, v, o):
    """``o = softmax(q @ k.T) @ v``: rows and columns of a warp's sums, arithmetic, reductions, sums as an operand."""
    (m, d), (n, _) = q.shape, k.shape

    @nv.kernel(grid=1, block=32)
    def kernel():
        K, V = nv.smem(k.shape, k.dtype, swizzle=64), nv.smem(v.shape, v.dtype, swizzle=64)
        for x, tile in ((k, K), (v, V)):
            nv.spec.move(x, tile, nv.spec.threads())()
        nv.sync_warp()
        s = nv.warp_accumulator(m, n)
        s += nv.load_a(q) @ K.T
        s = nv.where(s.rows + n - m >= s.cols, s * 0.25, -float("inf"))
        p = nv.math.exp(s - s.max(axis=1)[:, None])
        o_ = nv.warp_accumulator(m, d)
        for half in nv.range(2):
            o_ += p.to(nv.f16) @ V
            o_ = o_ * 0.5 if half == 0 else o_ * (2.0 / 3.0)
        o_ *= 1.0 / p.sum(axis=1)[:, None]
        o_.store(o, (0, 0))

    kernel()
