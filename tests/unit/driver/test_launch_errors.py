"""Launches that the hardware has not, and launches that fail: what the error says."""

from __future__ import annotations

import pytest

from nvdsl.driver.launch import violations
from nvdsl.errors import DeviceError
from tests.unit.driver.fake_cuda import Kernel, fake
from tests.unit.driver.host_program import build, line_of, sizes_program

PLAIN = Kernel("k")
LIMITS = [
    (PLAIN, (2**31, 1, 1), (1, 1, 1), None, "2147483648 blocks along x, where 0 to 2147483647"),
    (PLAIN, (1, 65536, 1), (1, 1, 1), None, "65536 blocks along y"),
    (PLAIN, (1, 1, -1), (1, 1, 1), None, "-1 blocks along z"),
    (PLAIN, (1, 1, 1), (1025, 1, 1), None, "1025 threads along x"),
    (PLAIN, (1, 1, 1), (1, 1, 65), None, "65 threads along z, where 1 to 64"),
    (PLAIN, (1, 1, 1), (0, 1, 1), None, "0 threads along x"),
    (PLAIN, (1, 1, 1), (33, 32, 1), None, "1056 threads"),
    (Kernel("k", smem_bytes=232449), (1, 1, 1), (1, 1, 1), None, "232449 bytes of shared memory"),
    (PLAIN, (17, 1, 1), (1, 1, 1), (17, 1, 1), "17 blocks, where 1 to 16"),
    (PLAIN, (1, 1, 1), (1, 1, 1), (1, 0, 1), "0 blocks, where 1 to 16"),
]


@pytest.mark.parametrize(("kernel", "grid", "block", "cluster", "text"), LIMITS)
def test_limits(kernel, grid, block, cluster, text):
    problems = violations(kernel, grid, block, cluster)
    assert len([p for p in problems if text in p]) == 1, problems


def test_the_largest_launch_is_legal():
    kernel = Kernel("k", smem_bytes=232448)
    assert violations(kernel, (2**31 - 1, 65535, 65535), (1024, 1, 1), None) == []
    assert violations(kernel, (16, 4, 1), (32, 16, 2), (4, 4, 1)) == []
    assert violations(kernel, (0, 1, 1), (1, 1, 1), (2, 1, 1)) == []


def failing(code: str, call: str = "launch"):
    kernel = Kernel("f_kernel", smem_bytes=2048)
    cuda, devices = fake(kernel, fail={call: code})
    return build(sizes_program(block="%n, %one, %one"), [kernel], devices=devices), cuda


def test_a_failed_launch_says_what_was_launched():
    host, cuda = failing("CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES")
    with pytest.raises(DeviceError, match="kernel f_kernel could not be launched") as caught:
        host.call(1, 1, 1)
    for text in (
        "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES (injected)",
        "grid (1, 1, 1)",
        "block (384, 1, 1)",
        "cluster none",
        "2048 bytes of shared memory",
    ):
        assert text in str(caught.value)
    assert caught.value.where.line == line_of(sizes_program(), "gpu.launch")
    assert "registers" in caught.value.fix
    assert cuda.current == 0  # the caller's context is back


def test_a_sticky_error_at_the_launch_may_be_an_earlier_kernels():
    host, _ = failing("CUDA_ERROR_ILLEGAL_ADDRESS")
    with pytest.raises(DeviceError, match="perhaps by a kernel before it") as caught:
        host.call(1, 1, 1)
    assert "NVDSL_SYNC=1" in caught.value.fix


def test_nvdsl_sync_names_the_kernel_that_failed(monkeypatch):
    monkeypatch.setenv("NVDSL_SYNC", "1")
    host, _ = failing("CUDA_ERROR_MISALIGNED_ADDRESS", "synchronize")
    with pytest.raises(DeviceError, match="kernel f_kernel failed while it ran: CUDA_ERROR_MISALIGNED"):
        host.call(1, 1, 1)


@pytest.mark.parametrize(("value", "waits"), [("1", True), ("0", False), ("", False)])
def test_nvdsl_sync_waits_after_each_launch(monkeypatch, value, waits):
    monkeypatch.setenv("NVDSL_SYNC", value)
    kernel = Kernel("f_kernel")
    cuda, devices = fake(kernel)
    build(sizes_program(), [kernel], devices=devices).call(1, 1, 1)
    assert ("synchronize" in cuda.names()) is waits
