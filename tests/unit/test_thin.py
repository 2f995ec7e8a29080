"""The thin layer: LLVM's names, with the defects of the original mended."""

import numpy as np
import pytest

import nvdsl as nv
from nvdsl import lower
from nvdsl.mlir import ir
from nvdsl.mlir.dialects import arith, gpu, nvgpu, scf
from nvdsl.mlir.extras import types as T
from nvdsl.thin import NVDSL, TMA, Mbarriers, Warpgroup, WGMMAMatrix, WGMMAType, const, get_type_size
from nvdsl.verify.evaluate import evaluate
from nvdsl.verify.walk import constant, find
from tests.unit.kernels import refused, smem_bytes


def trace(body, *arguments, block=128, smem=0, grid=(1, 1, 1)):
    """The module of a host function that launches ``body`` with its own arguments."""

    @NVDSL.mlir_func
    def main(*values):
        NVDSL.mlir_gpu_launch(grid=grid, block=(block, 1, 1), smem=smem)(body)(*values)

    module = main.trace(*arguments)
    _alive.append(module)
    return module


_alive = []  # ops do not keep their module


def kernel_ops(module):
    (launch,) = find(module, "gpu.launch")
    return [op.operation.name for op in launch.regions[0].blocks[0].operations]


def first_thread():
    return gpu.thread_id(gpu.Dimension.x) == 0


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


# --- mbarriers ---------------------------------------------------------------------------------------------


def test_barriers_of_a_group_are_independent():
    """The original's `bars[i]` changed the group: `a` became what `c` is."""

    def body():
        bars = Mbarriers(number_of_barriers=4)
        a = bars[0]
        c = bars[3]
        assert a is not c
        for barrier in (a, c, a):
            barrier.try_wait()

    waits = find(trace(body), "nvgpu.mbarrier.try_wait.parity")
    assert [constant(op.operands[3]) for op in waits] == [0, 3, 0]


def test_an_arrive_without_bytes_keeps_its_predicate():
    """The original dropped it: every thread arrived."""

    def body():
        Mbarriers(1)[0].arrive(predicate=gpu.thread_id(gpu.Dimension.x) == 5)

    (arrive,) = find(trace(body), "nvgpu.mbarrier.arrive")
    branch = arrive.operation.parent
    assert branch.name == "scf.if"
    assert [t for t in range(128) if evaluate(branch.operands[0], t)] == [5]


def test_an_arrive_with_bytes_has_a_predicate_of_its_own():
    def body():
        Mbarriers(1)[0].arrive(512, predicate=gpu.thread_id(gpu.Dimension.x) == 5)

    (arrive,) = find(trace(body), "nvgpu.mbarrier.arrive.expect_tx")
    assert constant(arrive.operands[1]) == 512
    assert [t for t in range(128) if evaluate(arrive.operands[3], t)] == [5]


# --- what the original left to luck ------------------------------------------------------------------------


def test_inits_are_synchronized_before_the_first_use():
    def body():
        bars = Mbarriers(2)
        bars[0].init(1, predicate=first_thread())
        bars[1].init(1, predicate=first_thread())
        bars[0].try_wait()

    names = kernel_ops(trace(body))
    last = len(names) - 1 - names[::-1].index("nvgpu.mbarrier.init")
    assert names[last + 1 : last + 3] == ["nvvm.fence.mbarrier.init", "gpu.barrier"]
    assert names.index("nvgpu.mbarrier.try_wait.parity") > last + 2


def test_inits_in_a_branch_are_synchronized_behind_it():
    def body():
        bars = Mbarriers(2)
        with ir.InsertionPoint(scf.IfOp(first_thread()).then_block):
            for i in scf.for_(0, 2, 1):
                bars[i].init(1)
                scf.yield_([])
            scf.yield_([])
        bars[0].try_wait()

    names = kernel_ops(trace(body))
    branch = names.index("scf.if")
    assert names[branch + 1 : branch + 3] == ["nvvm.fence.mbarrier.init", "gpu.barrier"]


def test_inits_that_the_program_synchronizes_are_left_alone():
    def body():
        bars = Mbarriers(1)
        bars[0].init(1, predicate=first_thread())
        gpu.barrier()
        bars[0].try_wait()

    names = kernel_ops(trace(body))
    assert names.count("gpu.barrier") == 1
    assert "nvvm.fence.mbarrier.init" not in names


def test_a_barrier_behind_the_first_use_is_too_late():
    def body():
        bars = Mbarriers(1)
        bars[0].init(1, predicate=first_thread())
        bars[0].arrive()
        gpu.barrier()

    names = kernel_ops(trace(body))
    assert names.count("gpu.barrier") == 2
    assert names.index("gpu.barrier") < names.index("nvgpu.mbarrier.arrive")


def test_a_kernel_without_mbarriers_gets_no_barrier():
    assert "gpu.barrier" not in kernel_ops(trace(first_thread))


# --- warpgroups --------------------------------------------------------------------------------------------


def test_exceptions_leave_a_warpgroup():
    """The original's `__exit__` returned True."""

    class Mine(Exception):
        pass

    def body():
        with Warpgroup(primary_thread=0, register_size=40):
            raise Mine("seen")

    with pytest.raises(Mine, match="seen"):
        trace(body)
    assert ir.Context.current is None
    trace(first_thread)  # the next trace is not disturbed


def test_a_warpgroup_is_a_branch_of_its_threads():
    primary = []

    def body():
        with Warpgroup(primary_thread=128, register_size=40) as group:
            primary.append(group.is_wg_primary)
            gpu.barrier()

    module = trace(body, block=384)
    (branch,) = find(module, "scf.if")
    assert [t for t in range(0, 384, 64) if evaluate(branch.operands[0], t)] == [128, 192]
    assert [t for t in range(384) if evaluate(primary[0], t)] == [0, 128, 256]


def test_a_barrier_inside_is_the_warpgroups_own():
    """The others never reach it: in the original the kernel hung, or worked by luck."""

    def body():
        with Warpgroup(primary_thread=256, register_size=40):
            gpu.barrier()
            with ir.InsertionPoint(scf.IfOp(first_thread()).then_block):
                gpu.barrier()
                scf.yield_([])
        gpu.barrier()

    module = trace(body, block=384)
    narrowed = find(module, "nvvm.barrier")
    assert [(constant(op.operands[0]), constant(op.operands[1])) for op in narrowed] == [(3, 128)] * 2
    assert len(find(module, "gpu.barrier")) == 1


@pytest.mark.parametrize(
    ("block", "registers", "action"),
    [
        (256, 40, "decrease"),  # 248 at the launch
        (256, 232, "decrease"),
        (384, 40, "decrease"),  # 168
        (384, 168, "decrease"),
        (384, 176, "increase"),
        (384, 240, "increase"),
        (512, 128, "decrease"),  # 128
        (512, 136, "increase"),
    ],
)
def test_registers_move_in_the_direction_that_the_launch_needs(block, registers, action):
    def body():
        with Warpgroup(primary_thread=0, register_size=registers):
            pass
        if block > 256:  # the others make room
            with Warpgroup(primary_thread=128, register_size=24):
                pass

    op = find(trace(body, block=block), "nvvm.setmaxregister")[0]
    assert action in str(op.attributes["action"])
    assert op.attributes["regCount"].value == registers


@pytest.mark.parametrize(
    ("primary", "registers", "rule"), [(64, 40, "128 threads"), (0, 100, "multiple of 8"), (0, 264, "256")]
)
def test_warpgroups_that_do_not_exist_are_refused(primary, registers, rule):
    def body():
        with Warpgroup(primary_thread=primary, register_size=registers):
            pass

    assert rule in refused(lambda: trace(body), body).rule


def test_registers_of_all_warpgroups_are_counted():
    def body():
        for first, registers in ((0, 240), (128, 240), (256, 40)):
            with Warpgroup(primary_thread=first, register_size=registers):
                pass

    error = refused(lambda: trace(body, block=384), body)
    assert isinstance(error, nv.VerifyError)
    assert "66,560" in error.message


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
    _alive.append(module)
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


@pytest.mark.parametrize("argument", ["text", None, [1], np.float32(1)])
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


def test_what_a_body_reads_from_its_module_is_part_of_the_specialization(monkeypatch):
    """Tile sizes are globals in LLVM's programs: a change compiles anew."""
    lowered = []
    monkeypatch.setattr(lower, "lower", lambda module, options: lowered.append(module) or lower.Lowered(module, {}, {}))
    sizes = [128]

    @NVDSL.mlir_func
    def main(x):
        arith.constant(T.index(), sizes[0])

    x = np.zeros(4, np.float32)
    first = main.compile(x)
    assert main.compile(x) is first
    sizes[0] = 64
    assert main.compile(x) is not first
    assert len(lowered) == 2


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
