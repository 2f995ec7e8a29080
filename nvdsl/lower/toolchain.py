"""Where the CUDA tools are: ptxas, a disassembler and libdevice, found without importing anything large.

Each is looked for in this order: what the user named; NVIDIA's wheels; the system (PATH, CUDA_HOME,
/usr/local/cuda).
"""

from __future__ import annotations

import functools
import importlib.util
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from nvdsl.errors import ToolchainError

_WHEELS = {"ptxas": "nvidia-cuda-nvcc", "nvdisasm": "nvidia-cuda-nvdisasm", "cuobjdump": "nvidia-cuda-cuobjdump"}
_LIBDEVICE = Path("nvvm", "libdevice", "libdevice.10.bc")


def ptxas(named: str | None = None) -> Path:
    """ptxas: ``named`` (`Options.ptxas`, NVDSL_PTXAS), or the wheel's, or PATH's. Raises ToolchainError."""
    return _tool("ptxas", "NVDSL_PTXAS", named)


def disassembler() -> Path:
    """nvdisasm, which knows the user's lines, or else cuobjdump: NVDSL_NVDISASM, the wheel's, or PATH's.

    Raises ToolchainError.
    """
    try:
        return _tool("nvdisasm", "NVDSL_NVDISASM", os.environ.get("NVDSL_NVDISASM"))
    except ToolchainError as missing:
        try:
            return _tool("cuobjdump", "NVDSL_NVDISASM", None)
        except ToolchainError:
            raise missing from None


def libdevice(named_ptxas: str | None = None) -> Path:
    """The bitcode of math functions that are no instructions (exp, log, ...). Raises ToolchainError."""
    for root in (*_roots_beside(named_ptxas), *_wheel_roots(), *_system_roots()):
        if (root / _LIBDEVICE).is_file():
            return root / _LIBDEVICE
    raise ToolchainError(
        "libdevice.10.bc was not found",
        rule="functions of the math dialect (exp, log, sin, ...) are calls of CUDA's libdevice",
        fix="pip install nvidia-cuda-nvcc nvidia-nvvm, or set CUDA_HOME to a CUDA toolkit",
    )


def _tool(name: str, variable: str, named: str | None) -> Path:
    if named:
        found = shutil.which(named)
        if found is None:
            raise ToolchainError(
                f"{variable} names {named!r}, which is no program that can be run",
                fix=f"set {variable} to the path of {name}, or unset it to use the installed one",
            )
        return Path(found)
    for root in _wheel_roots():
        if os.access(root / "bin" / name, os.X_OK):
            return root / "bin" / name
    found = shutil.which(name)
    if found is None:
        raise ToolchainError(
            f"{name} was not found: neither as a wheel nor on PATH",
            fix=f"pip install {_WHEELS[name]}, or set {variable} to its path",
        )
    return Path(found)


@functools.cache
def _wheel_roots() -> tuple[Path, ...]:
    """The CUDA toolkits that NVIDIA's wheels make of ``site-packages/nvidia``, the newest first.

    Those for CUDA 13 share one folder (cu13); the older have one for each wheel.
    """
    spec = importlib.util.find_spec("nvidia")
    roots: list[Path] = []
    for parent in map(Path, spec.submodule_search_locations or () if spec else ()):
        roots += [*sorted(parent.glob("cu[0-9]*"), reverse=True), parent / "cuda_nvcc"]
    return tuple(roots)


def _system_roots() -> Iterator[Path]:
    for variable in ("CUDA_HOME", "CUDA_PATH"):
        if os.environ.get(variable):
            yield Path(os.environ[variable])
    yield from _roots_beside("ptxas")
    yield Path("/usr/local/cuda")


def _roots_beside(program: str | None) -> Iterator[Path]:
    """The toolkit whose ``bin`` holds ``program``."""
    found = shutil.which(program) if program else None
    if found:
        yield Path(found).resolve().parent.parent
