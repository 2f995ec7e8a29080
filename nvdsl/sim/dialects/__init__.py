"""What each op does, one file a dialect (more where it is large). Importing this fills `decode.HANDLERS`."""

from nvdsl.sim.dialects import (
    arith,
    async_copies,
    builtin,
    cf,
    conversions,
    gpu,
    gpu_matrix,
    llvm,
    llvm_memory,
    math,
    memref,
    memref_memory,
    nvgpu,
    nvgpu_mma,
    nvvm,
    nvvm_copies,
    nvvm_lanes,
    nvvm_mma,
    nvvm_wgmma,
    ptx,
    scf,
    vector,
    vector_memory,
)  # fmt: skip

__all__ = [
    "arith", "async_copies", "builtin", "cf", "conversions", "gpu", "gpu_matrix", "llvm", "llvm_memory", "math",
    "memref", "memref_memory", "nvgpu", "nvgpu_mma", "nvvm", "nvvm_copies", "nvvm_lanes", "nvvm_mma", "nvvm_wgmma",
    "ptx", "scf", "vector", "vector_memory",
]  # fmt: skip
