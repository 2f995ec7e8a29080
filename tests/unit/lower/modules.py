"""Traced modules as text, for the tests of the lowering. A line of the text is the user's line."""

from __future__ import annotations

from typing import Any

from nvdsl.lower import kernels
from nvdsl.lower.compiler import outline, to_ptx
from nvdsl.lower.dump import Dump
from nvdsl.lower.options import Options
from nvdsl.lower.ptx import Ptx
from nvdsl.mlir import ir

SMEM = "#gpu.address_space<workgroup>"
DYNAMIC = f"memref<?xi8, {SMEM}>"
TILE = f"memref<64x64xf16, {SMEM}>"
TENSOR_MAP = (
    "!nvgpu.tensormap.descriptor<tensor = memref<64x64xf16, 3>, swizzle = swizzle_128b, l2promo = none, "
    "oob = zero, interleave = none>"
)

ARGUMENTS = (
    "%f: memref<64xf32>, %h: memref<64xf16>, %b: memref<64xbf16>, %d: memref<64xf64>, %e: memref<64xf8E4M3FN>, "
    "%g: memref<64xf8E5M2>, %i: memref<64xi32>, %l: memref<64xi64>, %a: memref<64x64xf16>"
)


def barriers(count: int) -> str:
    """The type of a group of mbarriers."""
    return f"!nvgpu.mbarrier.group<memorySpace = {SMEM}, num_barriers = {count}>"


def launch(body: str, *, block: int | str = 64, smem: int | str = 0, cluster: int = 1, host: str = "") -> str:
    """A host function ``host`` (an op per line, before the launch) with one launch, whose body is ``body``.

    In the body: ``%tid`` (index), ``%c0`` and ``%c1`` (index), and the host's arguments, named for their types.
    ``block`` and ``smem``: a number, or the name of a value that ``host`` defines.
    """
    sizes = {"block": block, "smem": smem}
    constants = []
    for name, type in (("block", "index"), ("smem", "i32")):
        if isinstance(sizes[name], int):
            constants.append(f"    %{name} = arith.constant {sizes[name]} : {type}")
            sizes[name] = f"%{name}"
    clusters = "clusters(%kx, %ky, %kz) in (%cx = %ncl, %cy = %one, %cz = %one)" if cluster > 1 else ""
    return "\n".join(
        [
            "module {",
            f"  func.func @host({ARGUMENTS}, %n: index) {{",
            "    %one = arith.constant 1 : index",
            f"    %ncl = arith.constant {cluster} : index",
            *constants,
            host,
            f"    gpu.launch {clusters} blocks(%bx, %by, %bz) in (%gx = %ncl, %gy = %one, %gz = %one) "
            f"threads(%tx, %ty, %tz) in (%sx = {sizes['block']}, %sy = %one, %sz = %one) "
            f"dynamic_shared_memory_size {sizes['smem']} {{",
            "      %tid = gpu.thread_id x",
            "      %c0 = arith.constant 0 : index",
            "      %c1 = arith.constant 1 : index",
            body,
            "      gpu.terminator",
            "    }",
            "    return",
            "  }",
            "}",
        ]
    )


TMA = f"""
      %group = nvgpu.mbarrier.create -> {barriers(2)}
      %first = arith.cmpi eq, %tid, %c0 : index
      nvgpu.mbarrier.init %group[%c0], %c1, predicate = %first : {barriers(2)}
      gpu.barrier
      %block_memory = gpu.dynamic_shared_memory : {DYNAMIC}
      %tile = memref.view %block_memory[%c0][] : {DYNAMIC} to {TILE}
      %bytes = arith.constant 8192 : index
      nvgpu.mbarrier.arrive.expect_tx %group[%c0], %bytes, predicate = %first : {barriers(2)}
      nvgpu.tma.async.load %map[%c0, %c0], %group[%c0] to %tile, predicate = %first
        : {TENSOR_MAP}, {barriers(2)} -> {TILE}
      %phase = arith.constant false
      %ticks = arith.constant 10000000 : index
      nvgpu.mbarrier.try_wait.parity %group[%c0], %phase, %ticks : {barriers(2)}
      %x0 = memref.load %tile[%tid, %c0] : {TILE}
      memref.store %x0, %h[%tid] : memref<64xf16>"""
"""A kernel that loads a tile through the tensor map ``%map``."""

MAKE_TENSOR_MAP = f"""
    %c64 = arith.constant 64 : index
    %unranked = memref.cast %a : memref<64x64xf16> to memref<*xf16>
    %map = nvgpu.tma.create.descriptor %unranked box[%c64, %c64] : memref<*xf16> -> {TENSOR_MAP}"""
"""The host's part of `TMA`."""

LOADS = """
      %fx = memref.load %f[%tid] : memref<64xf32>
      %fy = memref.load %f[%c1] : memref<64xf32>
      %hx = memref.load %h[%tid] : memref<64xf16>
      %bf = memref.load %b[%tid] : memref<64xbf16>
      %dx = memref.load %d[%tid] : memref<64xf64>
      %ex = memref.load %e[%tid] : memref<64xf8E4M3FN>
      %ix = memref.load %i[%tid] : memref<64xi32>
      %iy = memref.load %i[%c1] : memref<64xi32>
"""
"""``%fx``, ``%fy`` (f32), ``%hx`` (f16), ``%bf`` (bf16), ``%dx`` (f64), ``%ex`` (e4m3), ``%ix``, ``%iy`` (i32)."""

_ACC = "!llvm.struct<(f32, f32, f32, f32)>"
_SHAPE = "#nvvm.shape<m = 64, n = 8, k = 16>, D [<f32>, #nvvm.wgmma_scale_out<one>], "
_TYPES = "A [<f16>, #nvvm.wgmma_scale_in<one>, <row>], B [<f16>, #nvvm.wgmma_scale_in<one>, <col>]"


def wgmma(after: str = "nvvm.wgmma.wait.group.sync.aligned 0") -> str:
    """A kernel of one warpgroup with two m64n8k16 wgmmas; ``after`` comes behind their commit."""
    return f"""
      %zero = arith.constant 0.0 : f32
      %acc = llvm.mlir.undef : {_ACC}
      %z0 = llvm.insertvalue %zero, %acc[0] : {_ACC}
      %z1 = llvm.insertvalue %zero, %z0[1] : {_ACC}
      %z2 = llvm.insertvalue %zero, %z1[2] : {_ACC}
      %z3 = llvm.insertvalue %zero, %z2[3] : {_ACC}
      %descriptor = memref.load %l[%c0] : memref<64xi64>
      nvvm.wgmma.fence.aligned
      %p = nvvm.wgmma.mma_async %descriptor, %descriptor, %z3, {_SHAPE} {_TYPES} : {_ACC} -> {_ACC}
      %q = nvvm.wgmma.mma_async %descriptor, %descriptor, %p, {_SHAPE} {_TYPES} : {_ACC} -> {_ACC}
      nvvm.wgmma.commit.group.sync.aligned
      {after}
      %sum = llvm.extractvalue %q[0] : {_ACC}
      memref.store %sum, %f[%tid] : memref<64xf32>"""


def parse(text: str) -> Any:
    """The module in a context of its own, which it keeps alive."""
    with ir.Context():
        return ir.Module.parse(text)


def line_of(text: str, part: str) -> int:
    """The number of the first line of ``text`` that has ``part`` in it."""
    return next(i for i, line in enumerate(text.splitlines(), 1) if part in line)


def ptx(text: str, **options: Any) -> str:
    """The PTX of the only kernel module in ``text``, without ptxas."""
    (code,) = ptx_modules(text, **options)
    return code.text


def ptx_modules(text: str, **chosen: Any) -> list[Ptx]:
    module, options = parse(text), Options(**chosen)
    with module.context, ir.Location.unknown():
        dump = Dump(options, module)
        host = outline(module, options, dump)
        return list(to_ptx(host, kernels.read(host), options, dump, {}))
