"""What the lowering gives: a host body to execute, and a cubin for each kernel."""

from __future__ import annotations

import subprocess
import tempfile
from dataclasses import field
from pathlib import Path
from typing import Any

from nvdsl.errors import ToolchainError, Where
from nvdsl.errors.records import dataclass
from nvdsl.lower import toolchain
from nvdsl.lower.device_log import Watch


@dataclass(frozen=True)
class Resources:
    """What ptxas says a kernel uses.

    ``registers``: a thread's, at launch. ``stack``, ``spill_stores``, ``spill_loads``: bytes a thread of local
    memory. ``static_smem``, ``constant``: bytes a block, beside the dynamic shared memory. ``barriers``: named
    barriers, 0 included.
    """

    registers: int = 0
    stack: int = 0
    spill_stores: int = 0
    spill_loads: int = 0
    static_smem: int = 0
    barriers: int = 0
    constant: int = 0

    @property
    def spilled(self) -> bool:
        return self.spill_stores > 0 or self.spill_loads > 0

    def __str__(self) -> str:
        return (
            f"{self.registers} registers, {self.barriers} barriers, {self.stack} bytes stack, "
            f"{self.spill_stores} + {self.spill_loads} bytes spill stores + loads, "
            f"{self.static_smem} bytes static shared memory"
        )


@dataclass(frozen=True)
class KernelBinary:
    """One compiled kernel.

    ``name``: its entry point in ``cubin``. ``symbol``: ``module::name``, as a ``gpu.launch_func`` of the host body
    calls it; kernels of one module share their PTX and cubin. ``ptx``: with the user's lines as comments, or
    ``.loc`` with `Options.lineinfo`. ``smem_bytes``: dynamic shared memory to launch with: ``user_smem_bytes``
    and the mbarriers behind them. ``max_threads``: of its block, 1024 where ``block`` is not known. ``cluster``:
    its extents in blocks. ``watch``: in debug mode, what the kernel's messages mean.
    """

    name: str
    symbol: str
    ptx: str = field(repr=False)
    cubin: bytes = field(repr=False)
    smem_bytes: int
    user_smem_bytes: int
    max_threads: int
    block: tuple[int, int, int] | None
    cluster: tuple[int, int, int]
    resources: Resources
    where: Where | None
    watch: Watch | None = None

    def sass(self) -> str:
        """The kernel's machine code as text. Raises ToolchainError where nvdisasm and cuobjdump are missing."""
        return f"// {self.symbol}\n{disassemble(self.cubin, self.name)}\n"


@dataclass(frozen=True)
class Lowered:
    """``host``: the outlined module: host functions with ``gpu.launch_func``, and the kernels as they were traced.
    ``kernels``: by symbol. ``stages``: seconds of ``passes``, ``ptx`` (LLVM) and ``ptxas``. ``found_by``: what the
    kernels are kept under on disk; None where they are not."""

    host: Any
    kernels: dict[str, KernelBinary]
    stages: dict[str, float]
    found_by: str | None = None


def disassemble(cubin: bytes, kernel: str) -> str:
    """SASS of one of a cubin's kernels. Raises ToolchainError."""
    program = toolchain.disassembler()
    lists_all = program.name != "cuobjdump"
    flags = ["--print-code", "--print-line-info"] if lists_all else ["-sass", "-fun", kernel]
    with tempfile.TemporaryDirectory(prefix="nvdsl-") as folder:
        path = Path(folder, "kernel.cubin")
        path.write_bytes(cubin)
        run = subprocess.run([program, *flags, path], capture_output=True, text=True)
    if run.returncode:
        raise ToolchainError(
            f"{program} failed: {run.stderr.strip()}",
            fix="use one that is as new as ptxas: pip install nvidia-cuda-nvdisasm",
        )
    if not lists_all:
        return run.stdout
    _, _, section = run.stdout.partition(f".text.{kernel} ")  # the section's title, a line of dashes
    return section.partition("\n")[2].partition("\n//---------------------")[0]
