"""mbarriers: which of the group, which parity, and who arrives."""

import pytest

import nvdsl as nv
from nvdsl.ir.walk import constant, find
from nvdsl.mlir import ir
from nvdsl.ops.mbarrier import parity_i1
from nvdsl.verify.evaluate import evaluate
from tests.unit.kernels import host, kernel_ops, trace

INIT, WAIT = "nvgpu.mbarrier.init", "nvgpu.mbarrier.try_wait.parity"


@pytest.mark.parametrize(
    ("phase", "expected"),
    [
        (lambda t: 0, [0, 0, 0, 0]),
        (lambda t: True, [1, 1, 1, 1]),
        (lambda t: t, [0, 1, 0, 1]),  # the lowest bit
        (lambda t: t == 2, [0, 0, 1, 0]),
        (lambda t: nv.u32(t) >> 1, [0, 0, 1, 1]),
        (lambda t: nv.index(t), [0, 1, 0, 1]),
        (lambda t: nv.i64(t), [0, 1, 0, 1]),
    ],
)
def test_parities(phase, expected):
    found = []

    def body():
        found.append(parity_i1(phase(nv.thread_id.x)))

    trace(body)
    assert str(found[0].type) == "i1"
    assert [evaluate(found[0], t) for t in range(4)] == expected


def test_thread_0_initializes_every_barrier_then_the_block_meets():
    def body():
        nv.Mbarriers(3, arrivals=5)

    module = trace(body, block=(8, 16))
    assert [(constant(op.operands[2]), constant(op.operands[1])) for op in find(module, INIT)] == [
        (i, 5) for i in range(3)
    ]
    names = kernel_ops(module)
    assert names.index("scf.if") < names.index("gpu.barrier")
    assert names.count("gpu.barrier") == 1


def test_without_arrivals_nothing_is_initialized():
    def body():
        nv.Mbarriers(3)

    assert kernel_ops(trace(body)) == ["nvgpu.mbarrier.create"]


def test_a_group_knows_its_size():
    def body():
        group = nv.Mbarriers(5)
        assert len(group) == group.number_of_barriers == 5

    trace(body)


def test_barriers_are_chosen_by_the_device_too():
    def body():
        nv.Mbarriers(4)[nv.thread_id.x % 4].wait(0)

    (wait,) = find(trace(body), WAIT)
    assert [evaluate(wait.operands[3], t) for t in range(6)] == [0, 1, 2, 3, 0, 1]
    assert isinstance(wait.operands[3].type, ir.IndexType)


def test_bytes_may_be_computed_by_the_device():
    def body():
        nv.Mbarriers(1)[0].arrive(nv.thread_id.x * 16)

    (op,) = find(trace(body), "nvgpu.mbarrier.arrive.expect_tx")
    assert evaluate(op.operands[1], 3) == 48


def test_an_mbarrier_in_memory_behind_the_tiles():
    """Its 8 bytes lie in the block's dynamic memory, behind the data, 8-byte aligned."""

    def body():
        nv.smem((13,), nv.u8)
        nv.Mbarriers(3, arrivals=1)[1].wait(0)

    (kernel,) = host(body).compile().kernels.values()
    assert (kernel.user_smem_bytes, kernel.smem_bytes) == (13, 16 + 3 * 8)
    assert kernel.resources.static_smem == 0


def test_a_test_is_a_condition():
    def body(x):
        if nv.Mbarriers(1, arrivals=1)[0].test_wait(1):
            x[0] = 1.0

    assert "mbarrier.test_wait.parity" in host(body).compile(nv.ShapeDtype((4,), nv.f32)).ptx
