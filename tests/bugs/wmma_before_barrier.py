"""A warp multiplies a tile that other warps have copied, and no barrier stands between."""

import nvdsl as nv
from nvdsl.mlir import ir
from nvdsl.mlir.dialects import gpu

ARRAYS = [((16, 16), "float16"), ((16, 16), "float32")]


def matrix(rows, columns, dtype, operand):
    return ir.Type.parse(f'!gpu.mma_matrix<{rows}x{columns}x{dtype}, "{operand}Op">')


@nv.jit
def kernel(x, out):
    @nv.kernel(grid=1, block=64)
    def body():
        s = nv.smem((256,), nv.f16)
        for i in nv.range(nv.thread_id.x, 256, 64):
            s[i] = x[i // 16, i % 16]  # simulator: war
        zero, lead = nv.index(0), ir.IntegerAttr.get(ir.IndexType.get(), 16)
        if nv.thread_id.x < 32:
            a = gpu.subgroup_mma_load_matrix(matrix(16, 16, "f16", "A"), s, [zero], lead)  # simulator: raw
            b = gpu.subgroup_mma_load_matrix(matrix(16, 16, "f16", "B"), s, [zero], lead)  # simulator: raw
            c = gpu.subgroup_mma_constant_matrix(matrix(16, 16, "f32", "C"), nv.f32(0.0))
            d = gpu.subgroup_mma_compute(a, b, c)
            gpu.subgroup_mma_store_matrix(d, out, [zero, zero], lead)

    body()
