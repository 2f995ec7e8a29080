"""nvgpu's warpgroup MMA of two 64-row halves: LLVM must not write the second's registers among the first's wgmmas."""

from __future__ import annotations

import warnings

from nvdsl.errors import AdvisoryWarning
from nvdsl.lower import compiler, passes
from tests.unit.lower.modules import DYNAMIC, SMEM, launch, parse

A, B = f"memref<128x64xf16, {SMEM}>", f"memref<64x64xf16, {SMEM}>"
MAP_A = (
    "!nvgpu.tensormap.descriptor<tensor = memref<128x64xf16, 3>, swizzle = swizzle_128b, l2promo = none, "
    "oob = zero, interleave = none>"
)
MAP_B = MAP_A.replace("128x64", "64x64")
DESCRIPTOR_A, DESCRIPTOR_B = (f"!nvgpu.warpgroup.descriptor<tensor = {t}>" for t in (A, B))
SUM = "!nvgpu.warpgroup.accumulator<fragmented = vector<128x64xf32>>"

KERNEL = launch(
    f"""
      %memory = gpu.dynamic_shared_memory : {DYNAMIC}
      %start = arith.constant 16384 : index
      %tile_a = memref.view %memory[%c0][] : {DYNAMIC} to {A}
      %tile_b = memref.view %memory[%start][] : {DYNAMIC} to {B}
      %da = nvgpu.warpgroup.generate.descriptor %tile_a, %map_a : {A}, {MAP_A} -> {DESCRIPTOR_A}
      %db = nvgpu.warpgroup.generate.descriptor %tile_b, %map_b : {B}, {MAP_B} -> {DESCRIPTOR_B}
      %zero = nvgpu.warpgroup.mma.init.accumulator -> {SUM}
      %sum = nvgpu.warpgroup.mma %da, %db, %zero {{transposeB}} : {DESCRIPTOR_A}, {DESCRIPTOR_B}, {SUM} -> {SUM}
      nvvm.wgmma.wait.group.sync.aligned 0
      nvgpu.warpgroup.mma.store %sum, %out : {SUM} to memref<128x64xf32>""",
    block=128,
    smem=24576,
    host=f"""
    %c64 = arith.constant 64 : index
    %c128 = arith.constant 128 : index
    %unranked = memref.cast %a : memref<64x64xf16> to memref<*xf16>
    %map_a = nvgpu.tma.create.descriptor %unranked box[%c128, %c64] : memref<*xf16> -> {MAP_A}
    %map_b = nvgpu.tma.create.descriptor %unranked box[%c64, %c64] : memref<*xf16> -> {MAP_B}
    %out = gpu.alloc() : memref<128x64xf32>""",
)


def advisories() -> list[str]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        compiler.lower(parse(KERNEL))
    return [str(w.message) for w in caught if issubclass(w.category, AdvisoryWarning)]


def test_the_accumulators_are_there_before_the_fence():
    assert advisories() == []
    kernel = compiler.lower(parse(KERNEL)).kernels["host_kernel::host_kernel"]
    first, last = (find(kernel.ptx, "wgmma.mma_async") for find in (str.index, str.rindex))
    assert "mov.b32" not in kernel.ptx[first:last]
    assert "mov.b32" in kernel.ptx[: kernel.ptx.index("wgmma.fence")]


def test_without_the_step_ptxas_adds_a_wait(monkeypatch):
    """If this fails, LLVM has learnt it: the step hold-accumulators can go."""
    monkeypatch.setattr(passes, "DEVICE", [s for s in passes.DEVICE if s.name != "hold-accumulators"])
    assert any("ptxas added a wait" in found for found in advisories())
