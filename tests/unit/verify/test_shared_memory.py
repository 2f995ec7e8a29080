"""Shared memory of a block: 232,448 bytes, data and mbarriers together."""

import pytest

import nvdsl as nv
from nvdsl.hopper import arch
from nvdsl.mlir.extras import types as T
from nvdsl.thin import NVDSL, get_dynamic_shared_memory
from tests.unit.kernels import host, refused, trace

LIMIT = 232_448


def data_and_barriers(data, barriers):
    def body():
        nv.smem((data,), nv.u8)
        if barriers:
            nv.Mbarriers(barriers)

    return body


def test_the_limit_is_the_hardwares():
    assert arch.MAX_SMEM_PER_BLOCK == LIMIT


@pytest.mark.parametrize(("data", "barriers"), [(LIMIT, 0), (LIMIT - 8, 1), (LIMIT - 80, 10), (LIMIT - 15, 1)])
def test_up_to_the_limit(data, barriers):
    (kernel,) = host(data_and_barriers(data, barriers)).compile().kernels.values()
    assert kernel.smem_bytes <= LIMIT
    assert kernel.smem_bytes >= data + 8 * barriers, "what the launch asks for is what was checked"


@pytest.mark.parametrize(("data", "barriers"), [(LIMIT + 1, 0), (LIMIT, 1), (LIMIT - 3, 1), (LIMIT - 72, 10)])
def test_beyond_the_limit(data, barriers):
    body = data_and_barriers(data, barriers)
    error = refused(lambda: trace(body), body, trace, host, host(body)._function)
    assert isinstance(error, nv.VerifyError)
    total = (data + 7) // 8 * 8 + 8 * barriers  # mbarriers are 8-byte aligned
    assert f"{total:,} bytes" in error.message
    assert f"{data:,} of data and {8 * barriers:,} of mbarriers" in error.message
    assert "232,448" in error.rule


def test_several_groups_of_barriers_add_up():
    def body():
        nv.smem((LIMIT - 8 * 6,), nv.u8)
        nv.Mbarriers(4)
        nv.Mbarriers(1)
        nv.Mbarriers(1)

    trace(body)


def test_too_many_stages():
    def body():
        nv.smem((8, 128, 64), nv.f16, swizzle=128)
        nv.smem((8, 64, 128), nv.f16, swizzle=128)

    with pytest.raises(nv.VerifyError, match="262,144") as caught:
        trace(body)
    assert "fewer stages" in caught.value.fix


def thin(smem, shape, offset):
    @NVDSL.mlir_func
    def main():
        @NVDSL.mlir_gpu_launch(grid=(1, 1, 1), block=(32, 1, 1), smem=smem)
        def kernel():
            get_dynamic_shared_memory(shape, T.f16(), offset)

        kernel()

    return main.trace()


def test_views_lie_within_what_the_launch_asks_for():
    thin(1024, (256,), 512)
    error = refused(lambda: thin(1023, (256,), 512), thin)
    assert "512 to 1,024" in error.message
    assert "1,023" in error.message
