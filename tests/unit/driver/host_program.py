"""Host functions from text, outlined as the lowering does it, and built into executables."""

from __future__ import annotations

from typing import Any

from nvdsl.driver import executable
from nvdsl.mlir import ir, passmanager

OUTLINE = "builtin.module(gpu-launch-sink-index-computations,gpu-kernel-outlining)"
CONTEXT = ir.Context()


def outlined(text: str) -> Any:
    with CONTEXT, ir.Location.unknown():
        module = ir.Module.parse(text)
        passmanager.PassManager.parse(OUTLINE).run(module.operation)
    return module


def function(arguments: str, body: str, results: str = "") -> str:
    """A module with ``func.func @f(arguments)``."""
    return f"module {{ func.func @f({arguments}) {results} {{\n{body}\n}} }}"


def launch(body: str, grid: str = "%one, %one, %one", block: str = "%one, %one, %one", cluster: str = "") -> str:
    """A gpu.launch of the body; ``%one`` must be defined. ``cluster``: three operands."""

    def sizes(names: tuple[str, ...], values: str) -> str:
        return ", ".join(f"%{n} = {v}" for n, v in zip(names, values.split(", "), strict=True))

    clusters = f"clusters(%cx, %cy, %cz) in ({sizes(('cdx', 'cdy', 'cdz'), cluster)})" if cluster else ""
    return f"""gpu.launch {clusters}
      blocks(%bx, %by, %bz) in ({sizes(("gdx", "gdy", "gdz"), grid)})
      threads(%tx, %ty, %tz) in ({sizes(("bdx", "bdy", "bdz"), block)}) {{
        {body}
        gpu.terminator
      }}"""


def line_of(text: str, fragment: str) -> int:
    """The line of the program on which the fragment stands."""
    return text[: text.index(fragment)].count("\n") + 1


def build(text: str, kernels: Any = (), **options: Any) -> executable.Executable:
    return executable.build(outlined(text), "f", {k.name: k for k in kernels}, **options)


def sizes_program(**options: str) -> str:
    """A launch whose grid, block and cluster may use %gx, %gy, %gz, %one, %two and %n (384)."""
    return function(
        "%gx: index, %gy: index, %gz: index",
        "%one = arith.constant 1 : index\n%two = arith.constant 2 : index\n%n = arith.constant 384 : index\n"
        + launch("", **options)
        + "\nreturn",
    )
