"""What LLVM's examples left to luck, and what the thin layer makes of it: barriers, predicates, registers."""

import pytest

import nvdsl as nv
from nvdsl.ir.walk import constant, find
from nvdsl.mlir import ir
from nvdsl.mlir.dialects import gpu, scf
from nvdsl.thin import Mbarriers, Warpgroup
from nvdsl.verify.evaluate import evaluate
from tests.unit.kernels import refused
from tests.unit.thin_kernels import first_thread, kernel_ops, trace

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


# --- inits -------------------------------------------------------------------------------------------------


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
