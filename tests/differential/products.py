"""wgmma: element types, majors, swizzles, tile shapes, A from registers, signs, scale-d, sums that go on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

import nvdsl as nv
from nvdsl.lang.accumulator import Accumulator, Fragment
from nvdsl.layout import a_fragment_element
from nvdsl.mlir.dialects import llvm
from nvdsl.ops import wgmma
from tests.differential import inputs
from tests.differential.case import Call, Case, Result, dtype


@dataclass(frozen=True)
class Product(Case):
    """``m x k`` times ``k x n``, twice: ``then`` says what the second one does with the first's sum.

    ``a_from``: "k" or "mn" (shared memory, K or M contiguous) or "registers". ``signs``: scale_a and scale_b.
    ``then``: "" (nothing), "add", "map" (add to twice the sum), "keep" or "drop" (a scale-d known at run time).
    """

    kind = "product"
    a_type: str
    b_type: str
    sums: str
    m: int
    n: int
    k: int
    a_from: str
    b_major: str
    a_swizzle: int
    b_swizzle: int
    signs: tuple[int, int]
    then: str
    out: str
    style: str
    seed: int

    def call(self) -> Call:
        a_type, b_type, sums = (dtype(t) for t in (self.a_type, self.b_type, self.sums))
        m, n, k = self.m, self.n, self.k
        a_shape = (k, m) if self.a_from == "mn" else (m, k)
        b_shape = (k, n) if self.b_major == "mn" else (n, k)

        def multiply(acc: Any, a: Any, b: Any, scale: Any) -> Any:
            if self.signs == (1, 1):
                return acc.mma(a, b, scale_d=scale)
            return _signed(acc, a, b, self.signs, scale)

        @nv.jit
        def product(a, b, d, keep):
            in_registers = self.a_from == "registers"
            a_tma = None if in_registers else nv.TMA(a, a_shape, swizzle=self.a_swizzle)
            b_tma = nv.TMA(b, b_shape, swizzle=self.b_swizzle)

            @nv.kernel(grid=1, block=128)
            def kernel():
                B = nv.smem(b_shape, b_type, swizzle=self.b_swizzle)
                A = _fragment(a, m, k, a_type) if in_registers else nv.smem(a_shape, a_type, swizzle=self.a_swizzle)
                full = nv.Mbarriers(1, arrivals=1)[0]
                if nv.thread_id.x == 0:
                    full.arrive_expect_tx(B.bytes + (0 if in_registers else A.bytes))
                    if not in_registers:
                        a_tma.load(A, full, (0, 0))
                    b_tma.load(B, full, (0, 0))
                full.wait(0)
                left = A.T if self.a_from == "mn" else A
                right = B if self.b_major == "mn" else B.T
                acc = multiply(nv.accumulator(m, n, sums), left, right, True)
                if self.then == "map":
                    nv.wgmma_wait(0)
                    acc = acc.map(lambda x: x + x)
                if self.then:
                    scale = keep != 0 if self.then in ("keep", "drop") else True
                    acc = multiply(acc, left, right, scale)
                nv.wgmma_wait(0)
                acc.store(d, (0, 0))

            kernel()

        a = inputs.matrix(self.a_type, a_shape, self.seed, self.style)
        b = inputs.matrix(self.b_type, b_shape, self.seed + 1, self.style)
        d = np.zeros((m, n), dtype(self.out).numpy)
        return Call(product, [a, b, d, int(self.then == "keep")], lambda: [Result("d", d)])


def _fragment(a: Any, m: int, k: int, t: Any) -> Fragment:
    """A, ``m x k`` in global memory, as registers."""
    per, depth = 4 // t.bytes, 32 // t.bytes
    thread = nv.warpgroup_thread()
    blocks = []
    for top in range(0, m, 64):
        steps = []
        for left in range(0, k, depth):
            places = [a_fragment_element(thread, i, t.bytes) for i in range(4)]
            elements = [a.load_vector((row + top, col + left), per) for row, col in places]
            steps.append([llvm.bitcast(nv.i32.ir, _as_vector_of_bits(x, t)) for x in elements])
        blocks.append(steps)
    return Fragment(m, k, t, blocks)


def _as_vector_of_bits(x: Any, t: Any) -> Any:
    return x if t.bytes > 1 and t.is_float else nv.bitcast(x, nv.i8) if t.bytes == 1 else x


def _signed(acc: Accumulator, a: Any, b: Any, signs: tuple[int, int], scale: Any) -> Accumulator:
    """`Accumulator.mma` by its instructions, with A and B negated on request."""
    k = a.shape[1]
    a_type, b_type = (nv.tf32 if x.dtype is nv.f32 else x.dtype for x in (a, b))
    right = b.operand(mn_axis=1)
    b_start = wgmma.descriptor(b.address, right)
    left = a.operand(mn_axis=0) if not isinstance(a, Fragment) else None
    a_start = wgmma.descriptor(a.address, left) if left else None
    first = acc._blocks is None and not acc._is_computed
    blocks = [llvm.mlir_undef(wgmma.accumulator_type(acc.n, acc.dtype))] * (acc.m // 64) if first else acc.blocks
    wgmma.wgmma_fence()
    for step in range(k * a.dtype.bytes // 32):
        for i, block in enumerate(blocks):
            from_registers = a.registers[i][step] if left is None else None
            a_part = from_registers or a_start + (left.k_offset(step) + left.mn_offset(64 * i) >> 4)
            blocks[i] = wgmma.mma_async(
                block, a_part, b_start + (right.k_offset(step) >> 4), n=acc.n, a_dtype=a_type, b_dtype=b_type,
                d_dtype=acc.dtype, a_major=left.major if left else "k", b_major=right.major,
                scale_d=(False if first else scale) if step == 0 else True, scale_a=signs[0], scale_b=signs[1],
            )  # fmt: skip
    wgmma.wgmma_commit()
    return Accumulator(acc.m, acc.n, acc.dtype, blocks)
