"""What one Hopper SM (sm_90a) can do, as named constants, each with the document that says so.

Sources, by the short names used below:

* guide: CUDA C++ Programming Guide, "Compute Capabilities", tables "Technical Specifications per
  Compute Capability", column 9.0;
* tuning: NVIDIA Hopper Tuning Guide;
* ptx: PTX ISA, with the section or instruction;
* driver: CUDA Driver API, with the function.
"""

from __future__ import annotations

CHIP = "sm_90a"
"""The architecture-specific target: wgmma and setmaxnreg exist on no other (ptx, ".target")."""

COMPUTE_CAPABILITY = (9, 0)

# --- threads ------------------------------------------------------------------------------------

WARP_SIZE = 32
"""Threads of a warp (guide)."""

WARPGROUP_SIZE = 128
"""Threads of a warpgroup: four warps, the first's rank a multiple of four (ptx, "wgmma")."""

MAX_THREADS_PER_BLOCK = 1024
"""(guide)"""

MAX_BLOCK_DIM = (1024, 1024, 64)
"""Threads of a block along x, y, z (guide)."""

MAX_GRID_DIM = (2**31 - 1, 65535, 65535)
"""Blocks of a grid along x, y, z (guide)."""

MAX_THREADS_PER_SM = 2048
"""(guide)"""

MAX_BLOCKS_PER_SM = 32
"""(guide)"""

MAX_CLUSTER_SIZE = 8
"""Blocks of a cluster that every Hopper GPU can schedule (guide, "Thread Block Clusters")."""

MAX_CLUSTER_SIZE_NON_PORTABLE = 16
"""Blocks of a cluster with CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED (tuning, "Thread Block
Clusters"); whether one fits must be asked of the device."""

SMS = 132
"""SMs of an H100 SXM and an H200 (H100 datasheet); the device at hand is asked where there is one."""

# --- registers ----------------------------------------------------------------------------------

REGISTERS_PER_SM = 65_536
"""32-bit registers of an SM, and of one block (guide)."""

MAX_REGISTERS_PER_THREAD = 255
"""(guide)"""

SETMAXNREG_MIN, SETMAXNREG_MAX, SETMAXNREG_STEP = 24, 256, 8
"""Registers per thread that setmaxnreg takes: a constant multiple of 8 (ptx, "setmaxnreg")."""


def launch_registers(threads: int) -> int:
    """Registers a thread that a block of ``threads`` starts with where its kernel has a setmaxnreg: ptxas gives it all
    of the block's share, in units of 8. These are all that setmaxnreg can move: 384 threads share 384 * 168 = 64,512,
    and 48 + 2 * 232 registers for each of 128, which is 65,536, hung on an H200."""
    share = REGISTERS_PER_SM // max(threads, 1)
    return min(share, MAX_REGISTERS_PER_THREAD) // SETMAXNREG_STEP * SETMAXNREG_STEP


# --- shared memory ------------------------------------------------------------------------------

MAX_SMEM_PER_BLOCK = 232_448
"""Bytes of shared memory that one block can have, dynamic and static together: 227 KiB (guide)."""

SMEM_PER_SM = 233_472
"""Bytes of shared memory of an SM: 228 KiB (guide)."""

RESERVED_SMEM_PER_BLOCK = 1_024
"""Bytes of an SM's shared memory that the system takes for each block (tuning, "Unified Shared
Memory/L1/Texture Cache")."""

SMEM_WITHOUT_OPT_IN = 49_152
"""Bytes of dynamic shared memory beyond which CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES must be
set (guide, "Shared Memory")."""

SMEM_ALIGNMENT = 1_024
"""Bytes: where the 128-byte swizzle's pattern, 8 rows of 128 bytes, starts again (ptx, "Strides" and
"Matrix Descriptor Format", base offset; driver, cuTensorMapEncodeTiled)."""

MAX_NANOSLEEP = 1_000_000
"""Nanoseconds that nanosleep suspends a thread at most (ptx, "nanosleep")."""

MAX_PRINTED = 32
"""Values that one call of the device's printf prints; further ones come out as garbage (guide, "Formatted Output")."""

NAMED_BARRIERS = 16
"""Barriers 0 to 15 of a block; 0 is __syncthreads (ptx, "bar, barrier")."""

CP_ASYNC_BYTES = (4, 8, 16)
"""Bytes of one non-bulk cp.async (ptx, "cp.async", cp-size)."""

# --- mbarrier -----------------------------------------------------------------------------------

MBARRIER_BYTES = 8
"""Size and alignment of an mbarrier in shared memory (ptx, "Size and alignment of mbarrier object")."""

MBARRIER_MAX_COUNT = 2**20 - 1
"""Arrivals of one phase: 1 to this (ptx, "Contents of the mbarrier object")."""

MBARRIER_MAX_TX = 2**20 - 1
"""Bytes that may be pending in one phase (ptx, "Contents of the mbarrier object", tx-count)."""

# --- TMA ----------------------------------------------------------------------------------------

TMA_MAX_RANK = 5
"""Dimensions of a tensor map: 1 to this (driver, cuTensorMapEncodeTiled)."""

TMA_MAX_BOX = 256
"""Elements of a box along one dimension: 1 to this (driver, cuTensorMapEncodeTiled, boxDim)."""

TMA_BOX_ROW_MULTIPLE = 16
"""The innermost box dimension is a multiple of so many bytes (driver, cuTensorMapEncodeTiled, boxDim)."""

TMA_STRIDE_MULTIPLE = 16
"""Bytes: every outer stride is a multiple of it (driver, cuTensorMapEncodeTiled, globalStrides)."""

TMA_MAX_STRIDE = 2**40
"""Bytes: every stride is less (driver, cuTensorMapEncodeTiled, globalStrides)."""

TMA_MAX_DIM = 2**32
"""Elements of the array along one dimension: at most this (driver, cuTensorMapEncodeTiled, globalDim)."""

TMA_SMEM_ALIGNMENT = 128
"""Bytes: alignment of the box in shared memory (ptx, "cp.async.bulk.tensor")."""

TMA_COORDINATE_MULTIPLE = 16
"""Bytes: the innermost coordinate of a tensor copy is a multiple; any other is an illegal instruction (measured)."""

TMA_STORE_UNIT = 16
"""Bytes: stores and reductions clip the rows of an array at multiples (measured)."""

TENSOR_MAP_BYTES, TENSOR_MAP_ALIGNMENT = 128, 64
"""Size and alignment of a tensor map, a CUtensorMap (ptx, "Tensor-map"; driver, cuTensorMapEncodeTiled)."""

SWIZZLES = (0, 32, 64, 128)
"""Bytes of the swizzle's span; the box's row is no wider (driver, cuTensorMapEncodeTiled, swizzle)."""

SWIZZLE_ROWS = 8
"""Rows after which a swizzle's pattern starts again (ptx, "Swizzling Modes")."""

BULK_COPY_MULTIPLE = 16
"""Bytes: size and alignment of a cp.async.bulk (ptx, "cp.async.bulk")."""

# --- wgmma --------------------------------------------------------------------------------------

WGMMA_N_STEP, WGMMA_MAX_N = 8, 256
"""Columns of D: a multiple of 8 up to 256; integer types skip some (the same section)."""

WGMMA_K_BYTES = 32
"""Bytes of A's row that one wgmma consumes: 16 f16, 8 tf32, 32 fp8 or int8 (the same section)."""

WGMMA_SWIZZLE_MODES = {0: 0, 128: 1, 64: 2, 32: 3}
"""By the swizzle's bytes: bits 62 and 63 of a matrix descriptor (ptx, "Matrix Descriptor Format")."""

TMA_REDUCTIONS = {
    "f16": ("add", "min", "max"),
    "bf16": ("add", "min", "max"),
    "f32": ("add",),
    "tf32": ("add",),
    "f64": ("add",),
    "i32": ("add", "min", "max", "and", "or", "xor"),
    "i64": ("min", "max"),
}
"""What cp.reduce.async.bulk.tensor can do, by a tensor map's element type (MLIR's names); anything else is an illegal
instruction. Measured on an H200 with every type and kind; PTX ISA, cp.reduce.async.bulk.tensor, has inc and dec for
unsigned elements, which no tensor map of nvdsl has."""
