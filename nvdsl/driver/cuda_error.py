"""What the CUDA driver reports: errors, and what to do about them."""

from __future__ import annotations

from typing import NoReturn

from nvdsl.errors import DeviceError

# Errors after which every later call of the process fails: the context is lost.
STICKY = frozenset(
    f"CUDA_ERROR_{name}"
    for name in (
        "ILLEGAL_ADDRESS LAUNCH_TIMEOUT ASSERT HARDWARE_STACK_ERROR ILLEGAL_INSTRUCTION MISALIGNED_ADDRESS "
        "INVALID_ADDRESS_SPACE INVALID_PC LAUNCH_FAILED"
    ).split()
)
_RESTART = (
    "the CUDA context is lost: restart the process; NVDSL_SYNC=1 makes the launch that fails raise, and the "
    "compute-sanitizer names the access"
)
_REBUILD = "update the NVIDIA driver, or use a ptxas of the driver's CUDA version or an older one"
_SPAWN = (
    'start the process by the method "spawn" of multiprocessing, or fork before the first call on the GPU'
)
_FIXES = {
    "CUDA_ERROR_NOT_INITIALIZED": f"if this process was forked from one that had used CUDA: {_SPAWN}",
    "CUDA_ERROR_OUT_OF_MEMORY": "free device memory, or use smaller arrays",
    "CUDA_ERROR_NO_BINARY_FOR_GPU": "compile for this GPU: nvdsl's kernels are for sm_90a (H100, H200)",
    "CUDA_ERROR_INVALID_IMAGE": _REBUILD,
    "CUDA_ERROR_UNSUPPORTED_PTX_VERSION": _REBUILD,
    "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES": "use fewer threads or fewer registers a thread (an SM has 64 K)",
    "CUDA_ERROR_INVALID_CLUSTER_SIZE": "use a cluster of at most 8 blocks (16 where the GPU allows it) that "
    "fits the GPU with this much shared memory",
    "CUDA_ERROR_INVALID_HANDLE": "give a stream of the arrays' device",
    "CUDA_ERROR_INVALID_CONTEXT": "give a stream of the arrays' device",
    "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED": "in a CUDA graph capture, pass device arrays only",
} | dict.fromkeys(STICKY, _RESTART)
_FIXES["CUDA_ERROR_ILLEGAL_INSTRUCTION"] = (
    "look for a TMA copy whose innermost coordinate is no multiple of 16 bytes, or a store at a negative one: debug "
    f"mode (NVDSL_DEBUG=1) names it; {_RESTART}"
)


class Forked:
    """In place of the driver's API in a process that was forked from one that had initialized it."""

    def __getattr__(self, name: str) -> NoReturn:
        raise DeviceError(
            "this process was forked from one that had used CUDA",
            rule="a driver that was initialized before os.fork can't be used in the child (CUDA programming guide)",
            fix=f'{_SPAWN}; target="sim" and function.compile(...) work here',
        )


class CudaError(DeviceError):
    """A driver call failed. ``code``: the error's name, e.g. "CUDA_ERROR_INVALID_VALUE"."""

    def __init__(self, call: str, code: str, text: str) -> None:
        self.call, self.code, self.text = call, code, text
        super().__init__(f"{call}: {code} ({text})", fix=_FIXES.get(code, ""))
