"""Modules in MLIR's text, for the tests of `nvdsl.thin.load`: each is right, and names a construct."""

REVERSED = """
module attributes {gpu.container_module} {
  func.func @main(%x: memref<256xf32>, %y: memref<256xf32>, %a: f32) {
    %c1 = arith.constant 1 : index
    %c2 = arith.constant 2 : index
    %c4 = arith.constant 4 : index
    %c64 = arith.constant 64 : index
    gpu.launch_func @m::@reverse clusters in (%c2, %c1, %c1) blocks in (%c4, %c1, %c1) threads in (%c64, %c1, %c1)
      args(%x : memref<256xf32>, %y : memref<256xf32>, %a : f32)
    return
  }
  gpu.module @m {
    memref.global "private" @buffer : memref<64xf32, 3>
    gpu.func @reverse(%x: memref<256xf32>, %y: memref<256xf32>, %a: f32) kernel {
      %thread = gpu.thread_id x
      %block = gpu.block_id x
      %threads = gpu.block_dim x
      %c63 = arith.constant 63 : index
      %first = arith.muli %block, %threads : index
      %i = arith.addi %first, %thread : index
      %j = arith.subi %c63, %thread : index
      %s = memref.get_global @buffer : memref<64xf32, 3>
      %v = memref.load %x[%i] : memref<256xf32>
      memref.store %v, %s[%thread] : memref<64xf32, 3>
      gpu.barrier
      %w = memref.load %s[%j] : memref<64xf32, 3>
      %r = arith.mulf %w, %a : f32
      memref.store %r, %y[%i] : memref<256xf32>
      gpu.return
    }
  }
}
"""
"""Each 64 numbers in reverse order, times a number, through a shared global, in clusters of 2 blocks."""

DOUBLED = """
gpu.module @m {
  gpu.func @double(%x: memref<?xf32>, %p: !llvm.ptr, %n: i32)
      workgroup(%s: memref<32xf32, #gpu.address_space<workgroup>>) kernel
      attributes {known_block_size = array<i32: 32, 1, 1>} {
    %thread = gpu.thread_id x
    %block = gpu.block_id x
    %c32 = arith.constant 32 : index
    %first = arith.muli %block, %c32 : index
    %i = arith.addi %first, %thread : index
    %k = arith.index_cast %i : index to i32
    %inside = arith.cmpi slt, %k, %n : i32
    cf.cond_br %inside, ^work, ^end
  ^work:
    %v = memref.load %x[%i] : memref<?xf32>
    memref.store %v, %s[%thread] : memref<32xf32, #gpu.address_space<workgroup>>
    %w = memref.load %s[%thread] : memref<32xf32, #gpu.address_space<workgroup>>
    %d = arith.addf %w, %w : f32
    %q = llvm.getelementptr %p[%k] : (!llvm.ptr, i32) -> !llvm.ptr, f32
    llvm.store %d, %q : f32, !llvm.ptr
    gpu.return
  ^end:
    gpu.return
  }
}
"""
"""A kernel without a host function: dynamic memref, pointer, branches, a buffer in its head."""

COPIED = """
!map = !nvgpu.tensormap.descriptor<tensor = memref<64x64xf16, 3>, swizzle = none, l2promo = none,
  oob = zero, interleave = none>
!bars = !nvgpu.mbarrier.group<memorySpace = #gpu.address_space<workgroup>>
module {
  func.func private @unused(memref<*xf32>)
  memref.global "private" @first : memref<3xi8, 3>
  memref.global "private" @tile : memref<64x64xf16, 3>
  func.func @main(%x: memref<128x64xf16>, %y: memref<128x64xf16>) {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c2 = arith.constant 2 : index
    %c64 = arith.constant 64 : index
    %c8192 = arith.constant 8192 : index
    %ticks = arith.constant 10000000 : index
    %false = arith.constant false
    %u = memref.cast %x : memref<128x64xf16> to memref<*xf16>
    %map = nvgpu.tma.create.descriptor %u box[%c64, %c64] : memref<*xf16> -> !map
    %token = gpu.wait async
    %done = gpu.launch async [%token] blocks(%bx, %by, %bz) in (%gx = %c2, %gy = %c1, %gz = %c1)
        threads(%tx, %ty, %tz) in (%sx = %c64, %sy = %c1, %sz = %c1) {
      %small = memref.get_global @first : memref<3xi8, 3>
      %tile = memref.get_global @tile : memref<64x64xf16, 3>
      %bars = nvgpu.mbarrier.create -> !bars
      %leader = arith.cmpi eq, %tx, %c0 : index
      %row = arith.muli %bx, %c64 : index
      scf.if %leader {
        nvgpu.mbarrier.init %bars[%c0], %c1 : !bars
        nvvm.fence.mbarrier.init
      }
      gpu.barrier
      scf.if %leader {
        nvgpu.mbarrier.arrive.expect_tx %bars[%c0], %c8192 : !bars
        nvgpu.tma.async.load %map[%c0, %row], %bars[%c0] to %tile : !map, !bars -> memref<64x64xf16, 3>
      }
      nvgpu.mbarrier.try_wait.parity %bars[%c0], %false, %ticks : !bars
      %out = arith.addi %row, %tx : index
      scf.for %j = %c0 to %c64 step %c1 {
        %v = memref.load %tile[%tx, %j] : memref<64x64xf16, 3>
        memref.store %v, %y[%out, %j] : memref<128x64xf16>
      }
      gpu.terminator
    }
    gpu.wait [%done]
    return
  }
}
"""
"""Tiles of 64 x 64 by TMA into a shared global, behind another that ends at no aligned byte; with async tokens."""
