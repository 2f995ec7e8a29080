"""What the host says about a kernel, and what shared memory comes of it."""

from __future__ import annotations

import re

import pytest

import nvdsl as nv
from nvdsl.errors import VerifyError
from nvdsl.hopper import arch
from nvdsl.lower import compiler, kernels
from nvdsl.lower.options import Options
from nvdsl.lower.result import KernelBinary
from nvdsl.mlir import ir
from tests.unit.lower.modules import (
    DYNAMIC,
    LOADS,
    MAKE_TENSOR_MAP,
    SMEM,
    TMA,
    barriers,
    launch,
    line_of,
    parse,
)

STORE = "memref.store %fx, %f[%c0] : memref<64xf32>"


def mbarriers(*counts: int) -> str:
    """Groups of so many mbarriers, each used."""
    return "\n".join(
        f"%g{i} = nvgpu.mbarrier.create -> {barriers(n)}\nnvgpu.mbarrier.init %g{i}[%c0], %c1 : {barriers(n)}"
        for i, n in enumerate(counts)
    )


def only_kernel(text: str, **options: object) -> KernelBinary:
    (kernel,) = compiler.lower(parse(text), Options(**options)).kernels.values()  # type: ignore[arg-type]
    return kernel


def test_facts_of_a_launch():
    text = launch(TMA, block=96, smem=8192, cluster=2, host=MAKE_TENSOR_MAP)
    kernel = only_kernel(text)
    assert (kernel.name, kernel.symbol) == ("host_kernel", "host_kernel::host_kernel")
    assert kernel.block == (96, 1, 1) and kernel.max_threads == 96 and kernel.cluster == (2, 1, 1)
    assert kernel.user_smem_bytes == 8192 and kernel.smem_bytes == 8192 + 2 * 8
    assert kernel.where is not None and kernel.where.line == line_of(text, "gpu.launch")
    assert kernel.cubin.startswith(b"\x7fELF")
    assert 0 < kernel.resources.registers <= 255 and kernel.resources.barriers == 1


@pytest.mark.parametrize("data", [0, 8, 1021, 4096])
def test_mbarriers_lie_behind_the_data_and_apart_from_each_other(data):
    kernel = only_kernel(launch(mbarriers(2, 3, 1), smem=data))
    inits = re.findall(r"mbarrier\.init.*\[__dynamic_shmem__0(?:\+(\d+))?\]", kernel.ptx)
    starts = sorted(int(offset or 0) for offset in inits)
    first = -(-data // 8) * 8
    assert starts == [first, first + 2 * 8, first + 5 * 8]
    assert starts[0] >= data and starts[0] % arch.MBARRIER_BYTES == 0
    assert kernel.smem_bytes == first + 6 * 8


def test_a_kernel_without_mbarriers_has_what_it_asked_for():
    assert only_kernel(launch(LOADS + STORE, smem=1021)).smem_bytes == 1021


def test_all_of_the_shared_memory_can_be_used():
    kernel = only_kernel(launch(mbarriers(4), smem=arch.MAX_SMEM_PER_BLOCK - 4 * 8))
    assert kernel.smem_bytes == arch.MAX_SMEM_PER_BLOCK


def test_too_much_shared_memory_names_the_line_and_the_sum():
    text = launch(mbarriers(4), smem=arch.MAX_SMEM_PER_BLOCK - 4 * 8 + 1)
    with pytest.raises(VerifyError) as caught:
        compiler.lower(parse(text))
    error = caught.value
    assert error.where is not None and error.where.line == line_of(text, "gpu.launch")
    assert "needs 232,456 bytes" in error.message and "232,417 of data and 32 of 4 mbarriers" in error.message
    assert "232,448" in error.rule and "save 8 bytes" in error.fix


def test_shared_memory_that_the_host_computes_is_refused():
    text = launch(mbarriers(1), smem="%bytes", host="    %bytes = arith.index_cast %n : index to i32")
    with pytest.raises(VerifyError, match="computed by the host") as caught:
        compiler.lower(parse(text))
    assert caught.value.where is not None and caught.value.where.line == line_of(text, "gpu.launch")


def test_a_constant_is_seen_through_casts():
    host = "    %k = arith.constant 512 : index\n    %bytes = arith.index_cast %k : index to i32"
    assert only_kernel(launch(mbarriers(1), smem="%bytes", host=host)).smem_bytes == 520


def test_a_block_that_the_host_computes():
    kernel = only_kernel(launch(LOADS + STORE, block="%n"))
    assert kernel.block is None and kernel.max_threads == arch.MAX_THREADS_PER_BLOCK
    assert ".reqntid" not in kernel.ptx and ".maxntid" not in kernel.ptx


def test_static_shared_memory_counts():
    text = launch(
        f"""{LOADS}
            memref.store %fx, %s[%tid] : memref<1024xf32, {SMEM}>
            gpu.barrier
            %v = memref.load %s[%c1] : memref<1024xf32, {SMEM}>
            memref.store %v, %f[%tid] : memref<64xf32>""",
        smem=arch.MAX_SMEM_PER_BLOCK - 1024,
    )
    text = text.replace(
        "dynamic_shared_memory_size %smem {",
        f"dynamic_shared_memory_size %smem workgroup(%s : memref<1024xf32, {SMEM}>) {{",
    )
    with pytest.raises(VerifyError, match="4,096 static"):
        compiler.lower(parse(text))


def test_two_launches_are_two_kernels():
    one = launch(LOADS + STORE, block=32)
    start, end = one.index("    gpu.launch"), one.index("    return")
    second = one[start:end].replace("%bx", "%b2x").replace("%tid", "%tid2")
    text = one[:end] + second + one[end:]
    kernels = compiler.lower(parse(text)).kernels
    assert len(kernels) == 2
    assert {k.symbol for k in kernels.values()} == set(kernels)
    for symbol, kernel in kernels.items():
        module, name = symbol.split("::")
        assert f".entry {name}(" in kernel.ptx and kernel.resources.registers > 0, module


def test_kernels_of_one_module_share_a_cubin_but_not_their_facts():
    one = launch(mbarriers(1), smem=64).replace("gpu.launch ", "gpu.launch ")
    start, end = one.index("    gpu.launch"), one.index("    return")
    named = one[start:end].replace("dynamic_shared_memory_size %smem {", "dynamic_shared_memory_size %smem "
                                   "module(@m) function(@first) {")  # fmt: skip
    other = named.replace("@first", "@second").replace("%smem module", "%more module")
    more = "    %more = arith.constant 128 : i32\n"
    kernels = compiler.lower(parse(one[:start] + named + more + other + one[end:])).kernels
    first, second = kernels["m::first"], kernels["m::second"]
    assert first.cubin == second.cubin
    assert (first.smem_bytes, second.smem_bytes) == (72, 136)
    assert "__dynamic_shmem__0+64]" in first.ptx and "__dynamic_shmem__0+128]" in first.ptx


def test_a_view_at_a_traced_offset_stays_in_the_dynamic_block():
    text = launch(
        f"""%m = gpu.dynamic_shared_memory : {DYNAMIC}
            %v = memref.view %m[%tid][] : {DYNAMIC} to memref<4xtf32, {SMEM}>
            %p = memref.extract_aligned_pointer_as_index %v : memref<4xtf32, {SMEM}> -> index
            %r = arith.index_cast %p : index to i32
            memref.store %r, %i[%tid] : memref<64xi32>""",
        smem=256,
    )
    assert "__dynamic_shmem__0" in only_kernel(text).ptx


OUTLINED = """
module attributes {gpu.container_module} {
  func.func @host() {
    %c1 = arith.constant 1 : index
    %c2 = arith.constant 2 : index
    %c64 = arith.constant 64 : index
    gpu.launch_func @m::@k clusters in (%c2, %c1, %c1) blocks in (%c2, %c1, %c1) threads in (%c64, %c2, %c1)
    gpu.launch_func @m::@k clusters in (%c2, %c1, %c1) blocks in (%c2, %c1, %c1) threads in (%SECOND, %c2, %c1)
    return
  }
  gpu.module @m { gpu.func @k() kernel { gpu.return } }
}
"""


@pytest.mark.parametrize(("second", "block"), [("c64", (64, 2, 1)), ("c2", None)])
def test_a_kernel_knows_the_sizes_that_all_its_launches_have(second, block):
    """LLVM 22 outlines a kernel without its cluster, and other programs outline without either."""
    with ir.Context(), ir.Location.unknown():
        module = ir.Module.parse(OUTLINED.replace("SECOND", second))
        kernels.know_sizes(module, {}, None)
        (kernel,) = kernels.read(module).values()
        assert kernel.cluster == (2, 1, 1) and kernel.block == block


def test_blocks_that_share_an_sm_leave_each_other_registers():
    def compiled(**sizes):
        @nv.jit
        def host(x, y):
            @nv.kernel(grid=1, block=128, **sizes)
            def kernel():
                t = nv.thread_id.x
                rows = [x[i, t] for i in range(80)]
                top = nv.block.max(nv.max(*rows))
                for i, value in enumerate(rows):
                    y[i, t] = value - top

            kernel()

        array = nv.ShapeDtype((80, 128), nv.f32)
        (only,) = host.compile(array, array).kernels.values()
        return only

    assert compiled().resources.registers > 64
    limited = compiled(blocks_per_sm=8).resources
    assert limited.registers <= 64 and limited.spilled  # 65,536 registers, given in portions of 8
    several = compiled(blocks_per_sm=(1, 8))
    assert not several.resources.spilled and ".minnctapersm 5" in several.ptx
    least = compiled(blocks_per_sm=(7, 8))
    assert least.resources.spilled and ".minnctapersm 7" in least.ptx
