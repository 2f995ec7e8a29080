"""ptxas, NVIDIA's assembler: PTX to cubin, in a process of its own.

In process there are nvJitLink and the driver's linker. The first took 54 ms where ptxas took 16, the second needs
a GPU, and neither can be swapped by the user as a program can.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NoReturn

from nvdsl.errors import LowerError, ToolchainError
from nvdsl.errors.records import dataclass
from nvdsl.hopper import arch
from nvdsl.lower import toolchain
from nvdsl.lower.ptx import Ptx
from nvdsl.lower.result import Resources

_NUMBERS = {
    "registers": r"Used (\d+) registers",
    "barriers": r"used (\d+) barriers",
    "stack": r"(\d+) bytes stack frame",
    "spill_stores": r"(\d+) bytes spill stores",
    "spill_loads": r"(\d+) bytes spill loads",
    "static_smem": r"(\d+) bytes smem",
    "constant": r"(\d+) bytes cmem\[0\]",
}
_LINE = re.compile(r"\bline (\d+)")


@dataclass(frozen=True)
class Assembled:
    """``log``: what ptxas printed. ``resources``: by the kernel's name."""

    ptx: Ptx
    cubin: bytes
    log: str
    resources: dict[str, Resources]


def assemble(modules: Iterable[Ptx], options: Any, meanwhile: Callable[[], None] = lambda: None) -> list[Assembled]:
    """Assemble each module, from when ``modules`` gives it; all run at the same time, and beside them ``meanwhile``.
    ``options``: `Options`.

    Raises ToolchainError if ptxas is missing or too old, LowerError if it refuses a module.
    """
    with tempfile.TemporaryDirectory(prefix="nvdsl-") as folder:
        running: list[tuple[Ptx, Path, Any]] = []
        try:
            for i, ptx in enumerate(modules):
                running.append(_start(toolchain.ptxas(options.ptxas), ptx, Path(folder, f"{i}.ptx"), options))
            meanwhile()
            return [_finish(*started) for started in running]
        finally:  # after an error, or Ctrl-C, none goes on
            for _, _, process in running:
                if process.poll() is None:
                    process.kill()
                    process.communicate()


def version(named: str | None = None) -> str:
    """The version of the ptxas that is used, or of the one named: ``"13.0.88"``. Raises ToolchainError."""
    program = toolchain.ptxas(named or os.environ.get("NVDSL_PTXAS"))
    text = subprocess.run([program, "--version"], capture_output=True, text=True).stdout
    found = re.search(r"\bV(\d+(?:\.\d+)+)", text)
    return found[1] if found else text.strip()


def command(program: Path, source: Path, options: Any) -> list[str]:
    """The command line that assembles ``source`` to a file beside it that ends in .cubin."""
    lineinfo = ["-lineinfo"] if options.lineinfo else []
    return [
        str(program),
        f"-arch={arch.CHIP}",
        f"-O{options.opt_level}",
        "-v",
        "--warn-on-spills",
        "--warn-on-local-memory-usage",
        *lineinfo,
        *options.ptxas_flags,
        str(source),
        "-o",
        str(source.with_suffix(".cubin")),
    ]


def _start(program: Path, ptx: Ptx, source: Path, options: Any) -> tuple[Ptx, Path, Any]:
    source.write_text(ptx.text)
    try:
        process = subprocess.Popen(
            command(program, source, options), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
    except OSError as error:
        raise ToolchainError(
            f"{program} can't be run: {error.strerror}",
            fix="reinstall nvidia-cuda-nvcc, or set NVDSL_PTXAS to another ptxas",
        ) from error
    return ptx, source.with_suffix(".cubin"), process


def _finish(ptx: Ptx, cubin: Path, process: Any) -> Assembled:
    log, _ = process.communicate()
    if process.returncode < 0:
        name = signal.Signals(-process.returncode).name
        raise ToolchainError(
            f"ptxas was ended by {name} while it assembled {ptx.module}{': ' + log.strip() if log.strip() else ''}",
            rule="ptxas ends by itself; SIGKILL often means that the machine has no memory left",
            fix="make room and try again, or set NVDSL_PTXAS to another ptxas",
        )
    if process.returncode:
        _fail(log, ptx)
    if not cubin.is_file():
        raise ToolchainError(
            f"{process.args[0]} ended well and wrote no cubin{': ' + log.strip() if log.strip() else ''}",
            rule="ptxas assembles PTX to a cubin",
            fix="set NVDSL_PTXAS to a ptxas, or unset it",
        )
    return Assembled(ptx, cubin.read_bytes(), log, read_resources(log))


def read_resources(log: str) -> dict[str, Resources]:
    """The resources of each kernel that ``ptxas -v`` printed."""
    found = {}
    for part in log.split("Compiling entry function '")[1:]:
        numbers = {}
        for name, pattern in _NUMBERS.items():
            number = re.search(pattern, part)
            numbers[name] = int(number[1]) if number else 0
        found[part.partition("'")[0]] = Resources(**numbers)
    return found


def _fail(log: str, ptx: Ptx) -> NoReturn:
    if "Unsupported .version" in log:
        raise ToolchainError(
            f"this ptxas is too old: {log.strip()}",
            rule="nvdsl writes PTX ISA 8.6, which CUDA 12.7 introduced",
            fix="pip install -U nvidia-cuda-nvcc, or set NVDSL_PTXAS to a newer ptxas",
        )
    line = _LINE.search(log)
    number = int(line[1]) if line else 0
    context = f"\nPTX of {ptx.module}:\n{ptx.around(number)}" if number else ""
    text = re.sub(r"ptxas \S+\.ptx, ", "ptxas ", log.strip()) or "it says nothing"
    raise LowerError(
        f"ptxas refused the kernel: {text}{context}",
        where=ptx.where(number),
        fix="NVDSL_DUMP=ptx prints all of it",
    )
