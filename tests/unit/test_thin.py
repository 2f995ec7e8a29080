"""The thin layer: LLVM's names."""

import numpy as np
import pytest

import nvdsl as nv
from nvdsl.ir.walk import find
from nvdsl.mlir import ir
from nvdsl.mlir.dialects import arith, gpu, nvgpu
from nvdsl.mlir.extras import types as T
from nvdsl.thin import NVDSL, TMA, WGMMAMatrix, WGMMAType, const, get_type_size
from nvdsl.verify.evaluate import evaluate
from tests.unit.kernels import refused, smem_bytes
from tests.unit.thin_kernels import alive, first_thread, kernel_ops, trace

# --- sizes -------------------------------------------------------------------------------------------------


def test_sizes_of_types():
    def body():
        sizes = {T.f16(): 2, T.f32(): 4, T.f64(): 8, T.bf16(): 2, T.i8(): 1, T.i32(): 4, T.bool(): 1, T.index(): 8}
        for ty, size in sizes.items():
            assert get_type_size(ty) == size
        assert get_type_size(ir.MemRefType.get([128, 64], T.f16())) == 128 * 64 * 2
        assert get_type_size(ir.MemRefType.get([], T.f32())) == 4

    trace(body)


def test_a_type_without_a_size_is_refused():
    def body():
        get_type_size(ir.Type.parse("!llvm.ptr"))

    assert "memrefs" in refused(lambda: trace(body), body).rule


# --- wgmma -------------------------------------------------------------------------------------------------

SWIZZLE = nvgpu.TensorMapSwizzleKind.SWIZZLE_128B


def multiply(use):
    """``use(A, B, D, d)``: 128 x 64 and 64 x 128 f16 descriptors, a 128 x 128 f32 accumulator, its array."""

    @NVDSL.mlir_func
    def main(a, b, d):
        a_tma, b_tma = TMA([128, 64], a.type, swizzle=SWIZZLE), TMA([64, 64], b.type, swizzle=SWIZZLE)
        a_tma.create_descriptor(a)
        b_tma.create_descriptor(b)

        @NVDSL.mlir_gpu_launch(grid=(1, 1, 1), block=(128, 1, 1), smem=1 << 15)
        def kernel():
            shared = [nv.get_dynamic_shared_memory(s, T.f16(), o) for s, o in (((128, 64), 0), ((64, 128), 1 << 14))]
            A = WGMMAMatrix(WGMMAType.Descriptor, [128, 64], desc=a_tma)
            B = WGMMAMatrix(WGMMAType.Descriptor, [64, 128], desc=b_tma, smem=shared[1])
            A.update_smem(shared[0])
            use(A, B, WGMMAMatrix(WGMMAType.Accumulator, shape=[128, 128], ty=T.f32()), d)

        kernel()

    module = main.trace(
        np.zeros((128, 64), np.float16), np.zeros((64, 128), np.float16), np.zeros((128, 128), np.float32)
    )
    alive.append(module)
    return module


def test_a_product_adds_to_the_accumulator():
    def use(A, B, D, d):
        E = D
        D += A @ B
        D += A @ B
        assert D is not E, "the object before is as it was"
        D.store_accumulator(d)

    module = multiply(use)
    init = find(module, "nvgpu.warpgroup.mma.init.accumulator")[0]
    first, second = find(module, "nvgpu.warpgroup.mma")
    assert first.operands[2] == init.results[0]
    assert second.operands[2] == first.results[0]
    assert "transposeB" in second.attributes


def test_accumulators_are_stored_behind_a_wait():
    """The original stored registers that wgmma still wrote."""

    def use(A, B, D, d):
        D += A @ B
        D.store_accumulator(d)

    names = kernel_ops(multiply(use))
    assert names.index("nvvm.wgmma.wait.group.sync.aligned") < names.index("nvgpu.warpgroup.mma.store")


def test_a_matrix_has_two_extents():
    def body():
        WGMMAMatrix(WGMMAType.Accumulator, shape=[128], ty=T.f32())

    assert "two extents" in refused(lambda: trace(body), body).rule


# --- the host function ---------------------------------------------------------------------------------------


def test_arguments_are_traced_as_llvms_are():
    @NVDSL.mlir_func
    def main(x, n, alpha, flag, *, tile):
        assert tile == 64

    text = str(main.trace(np.zeros((4, 8), np.float16), 3, 2.0, True, tile=64))
    assert "@main(%arg0: memref<4x8xf16>, %arg1: index, %arg2: f32, %arg3: i1)" in text


@pytest.mark.parametrize("argument", ["text", None, [1], np.complex64(1)])
def test_other_arguments_go_by_keyword(argument):
    @NVDSL.mlir_func
    def main(x):
        pass

    def call():
        main.trace(argument)

    error = refused(call)
    assert isinstance(error, nv.ArgumentError)
    assert "keyword" in error.fix


def test_shared_memory_is_the_users_own():
    assert smem_bytes(trace(first_thread, smem=4096)) == 4096


def test_a_kernel_gives_back_what_its_body_returns():
    returned = []

    @NVDSL.mlir_func
    def main():
        @NVDSL.mlir_gpu_launch(grid=(1, 1, 1), block=(32, 1, 1))
        def kernel():
            return 7

        returned.append(kernel())

    main.trace()
    assert returned == [7]


def test_what_a_body_reads_from_its_module_is_part_of_the_specialization(compiled):
    """Tile sizes are globals in LLVM's programs: a change compiles anew."""
    sizes = [128]

    @NVDSL.mlir_func
    def main(x):
        arith.constant(T.index(), sizes[0])

    x = np.zeros(4, np.float32)
    first = main.compile(x)
    assert main.compile(x) is first
    sizes[0] = 64
    assert main.compile(x) is not first
    assert len(compiled) == 2


def test_a_call_prints_the_module_where_the_environment_says_so(monkeypatch, capsys):
    monkeypatch.setenv("MLIR_NVDSL_PRINT_IR", "1")

    @NVDSL.mlir_func
    def main(n):
        const(42)

    main(1)
    assert "arith.constant 42 : index" in capsys.readouterr().out


@pytest.mark.skipif(nv.no_gpu() is None, reason="this machine has a Hopper GPU")
def test_without_a_gpu_a_call_says_so_at_its_line():
    @NVDSL.mlir_func
    def main(n):
        pass

    def call():
        main(1, target="gpu")

    with pytest.raises(nv.DeviceError) as caught:
        call()
    assert caught.value.where.line == call.__code__.co_firstlineno + 1


def test_values_compute_as_llvms_do():
    """Signed, and `/` of index values is a floor division."""
    found = []

    def body():
        tidx = gpu.thread_id(gpu.Dimension.x)
        found.extend([tidx / 32, (tidx - 64) < 0, (tidx - 64) % 32, tidx * 4 + 1])

    trace(body)
    assert [[evaluate(x, t) for x in found] for t in (0, 63, 100)] == [[0, 1, 0, 1], [1, 1, 31, 253], [3, 0, 4, 401]]
