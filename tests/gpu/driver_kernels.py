"""Kernels of a few lines of PTX, and host functions around them, for driver_check.py."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from nvdsl.driver import executable
from nvdsl.mlir import ir

HEAD = ".version 8.0\n.target sm_90a\n.address_size 64\n"

SCALE = (
    HEAD
    + """
// dst[i] = alpha * src[i] for i < n, one block
.visible .entry scale(.param .u64 src, .param .u64 dst, .param .f32 alpha, .param .u32 n)
{
  .reg .pred %p; .reg .b32 %r<4>; .reg .b64 %d<6>; .reg .f32 %f<4>;
  ld.param.u64 %d0, [src]; ld.param.u64 %d1, [dst]; ld.param.f32 %f0, [alpha]; ld.param.u32 %r0, [n];
  cvta.to.global.u64 %d0, %d0; cvta.to.global.u64 %d1, %d1;
  mov.u32 %r1, %tid.x;
AGAIN:
  setp.ge.u32 %p, %r1, %r0;
  @%p bra DONE;
  mul.wide.u32 %d2, %r1, 4;
  add.s64 %d3, %d0, %d2; add.s64 %d4, %d1, %d2;
  ld.global.f32 %f1, [%d3]; mul.f32 %f2, %f1, %f0; st.global.f32 [%d4], %f2;
  mov.u32 %r2, %ntid.x; add.u32 %r1, %r1, %r2;
  bra AGAIN;
DONE:
  ret;
}
"""
)

TILE = (
    HEAD
    + """
// dst[16][32] = the f32 box of the tensor map at column x, row y: 512 threads
.visible .entry tile(.param .align 64 .b8 map[128], .param .u64 dst, .param .u32 x, .param .u32 y)
{
  .shared .align 128 .b8 box[2048];
  .shared .align 8 .b64 bar;
  .reg .pred %first, %done; .reg .b32 %r<8>; .reg .b64 %d<8>; .reg .f32 %f<2>;
  ld.param.u64 %d0, [dst]; cvta.to.global.u64 %d0, %d0;
  ld.param.u32 %r1, [x]; ld.param.u32 %r2, [y];
  mov.b64 %d1, map; cvta.param.u64 %d1, %d1;
  mov.u32 %r0, %tid.x; setp.eq.u32 %first, %r0, 0;
  mov.u32 %r3, box; mov.u32 %r4, bar;
  @%first mbarrier.init.shared.b64 [%r4], 1;
  @%first fence.mbarrier_init.release.cluster;
  bar.sync 0;
  @%first mbarrier.arrive.expect_tx.shared.b64 %d2, [%r4], 2048;
  @%first cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes
          [%r3], [%d1, {%r1, %r2}], [%r4];
WAIT:
  mbarrier.try_wait.parity.shared.b64 %done, [%r4], 0;
  @!%done bra WAIT;
  shl.b32 %r5, %r0, 2; add.u32 %r6, %r3, %r5; cvt.u64.u32 %d3, %r5; add.s64 %d4, %d0, %d3;
  ld.shared.f32 %f0, [%r6]; st.global.f32 [%d4], %f0;
  ret;
}
"""
)

RANK = (
    HEAD
    + """
// dst[block] = 100 * (blocks of the cluster) + rank in the cluster
.visible .entry rank(.param .u64 dst)
{
  .reg .b32 %r<4>; .reg .b64 %d<3>;
  ld.param.u64 %d0, [dst]; cvta.to.global.u64 %d0, %d0;
  mov.u32 %r0, %ctaid.x; mov.u32 %r1, %cluster_nctarank; mov.u32 %r2, %cluster_ctarank;
  mad.lo.u32 %r3, %r1, 100, %r2;
  mul.wide.u32 %d1, %r0, 4; add.s64 %d2, %d0, %d1;
  st.global.u32 [%d2], %r3;
  ret;
}
"""
)

MAPS = (
    HEAD
    + """
// three tensor maps, nothing done: for the time that the host takes
.visible .entry maps(.param .align 64 .b8 a[128], .param .align 64 .b8 b[128], .param .align 64 .b8 d[128])
{ ret; }
"""
)

FAULT = (
    HEAD
    + """
// writes where nothing is
.visible .entry fault(.param .u64 dst)
{ .reg .b64 %d; mov.b64 %d, 16; st.u32 [%d], 1; ret; }
"""
)

Typed = tuple[str, str]  # name and type of an MLIR value


def build(
    name: str,
    ptx: str,
    arguments: list[Typed],
    parameters: list[Typed],
    *,
    block: int = 256,
    cluster: int = 0,
    body: str = "",
    smem: int = 0,
    written: frozenset[int] | None = None,
) -> executable.Executable:
    """An executable of a host function with ``arguments`` and an index ``%grid`` after them, which launches one
    kernel with ``parameters``. ``body``: what it does before."""
    clusters = "clusters in (%cluster, %one, %one)" if cluster else ""
    text = f"""module attributes {{gpu.container_module}} {{
      func.func @check({_typed([*arguments, ("grid", "index")])}) {{
        %one = arith.constant 1 : index
        %block = arith.constant {block} : index
        %cluster = arith.constant {cluster} : index
        {body}
        gpu.launch_func @m::@{name} {clusters} blocks in (%grid, %one, %one) threads in (%block, %one, %one)
          args({_typed(parameters)})
        return
      }}
      gpu.module @m {{ gpu.func @{name}({_typed(parameters)}) kernel {{ gpu.return }} }}
    }}"""
    binary = SimpleNamespace(name=name, cubin=ptx.encode() + b"\0", smem_bytes=smem, max_threads=1024, watch=None)
    names = [name for name, _ in [*arguments, ("grid", "index")]]
    with ir.Context(), ir.Location.unknown():
        return executable.build(ir.Module.parse(text), "check", {name: binary}, written=written, names=names)


def _typed(values: list[Typed]) -> str:
    return ", ".join(f"%{name}: {ty}" for name, ty in values)


def scale(shape: str = "4x6", **options: Any) -> executable.Executable:
    """(a, d, alpha, n, grid): d = alpha * a."""
    ty = f"memref<{shape}xf32>"
    arguments = [("a", ty), ("d", ty), ("alpha", "f32"), ("n", "i32")]
    return build("scale", SCALE, arguments, arguments, written=frozenset({1}), **options)


def tensor_map(array: str, ty: str, element: str, rows: int, cols: int) -> tuple[str, Typed]:
    """The operations that make a tensor map ``%<array>_map`` of an array, and its name and type."""
    map_type = (
        f"!nvgpu.tensormap.descriptor<tensor = memref<{rows}x{cols}x{element}, 3>, swizzle = none, "
        "l2promo = none, oob = zero, interleave = none>"
    )
    body = f"""%{array}_rows = arith.constant {rows} : index
        %{array}_cols = arith.constant {cols} : index
        %{array}_any = memref.cast %{array} : {ty} to memref<*x{element}>
        %{array}_map = nvgpu.tma.create.descriptor %{array}_any box[%{array}_rows, %{array}_cols] :
          memref<*x{element}> -> {map_type}
    """
    return body, (f"{array}_map", map_type)


def tile() -> executable.Executable:
    """(a 64x128, d 16x32, x, y, grid): d = the box of a at column x, row y."""
    ty = "memref<64x128xf32>"
    body, parameter = tensor_map("a", ty, "f32", 16, 32)
    rest = [("d", "memref<16x32xf32>"), ("x", "i32"), ("y", "i32")]
    return build("tile", TILE, [("a", ty), *rest], [parameter, *rest], block=512, body=body)


def rank(cluster: int) -> executable.Executable:
    """(d 32 x i32, grid): d[block] = 100 * (blocks of a cluster) + rank."""
    arguments = [("d", "memref<32xi32>")]
    return build("rank", RANK, arguments, arguments, block=32, cluster=cluster)


def maps() -> executable.Executable:
    """(a, b, d, grid), each 4096x4096 f16: a launch with three tensor maps."""
    ty = "memref<4096x4096xf16>"
    made = [tensor_map(name, ty, "f16", 128, 64) for name in "abd"]
    return build("maps", MAPS, [(name, ty) for name in "abd"], [p for _, p in made], body="".join(b for b, _ in made))


def fault() -> executable.Executable:
    """(d, grid): a kernel that writes to an illegal address. It costs the process its context."""
    arguments = [("d", "memref<4xf32>")]
    return build("fault", FAULT, arguments, arguments, block=1)


def expect(kind: type[Exception], text: str, call: Callable[[], Any]) -> str:
    """The message of the error of this kind, with this text in it, that the call must raise."""
    try:
        call()
    except kind as error:
        assert text in str(error), error
        return str(error)
    raise AssertionError(f"no {kind.__name__}")
