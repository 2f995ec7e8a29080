"""Running the steps of the pass list, and saying at the user's line what one of them refused."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from nvdsl.errors import LowerError
from nvdsl.ir.location import where
from nvdsl.ir.walk import walk
from nvdsl.lower import passes
from nvdsl.lower.dump import Dump
from nvdsl.lower.kernels import Kernel
from nvdsl.lower.options import Options
from nvdsl.mlir import ir, passmanager

_TRANSLATABLE = ("builtin.module", "gpu.module", "llvm.", "nvvm.")


def run_all(
    steps: Iterable[passes.Step], module: Any, kernels: dict[str, Kernel], options: Options, dump: Dump
) -> None:
    """Run the steps that the kernels need on ``module``, in place. Raises LowerError."""
    traced: frozenset[str] = frozenset().union(*(kernel.op_names for kernel in kernels.values()))
    for step in steps:
        if not step.wanted(traced, options.debug):
            dump.left_out(step)
            continue
        dump.module(f"before:{step.name}", module)
        if step.rewrite is not None:
            step.rewrite(module, kernels, options)
        else:
            run_passes(step.name, step.pipeline, module)
        dump.module(f"after:{step.name}", module)


def generate_ptx(module: Any) -> None:
    """Turn each ``gpu.module`` into a ``gpu.binary`` that holds PTX. Raises LowerError."""
    with _refused("the verifier"):  # once for all passes and rewrites
        module.operation.verify()
    try:
        run_passes("the NVPTX backend", passes.EMIT_PTX, module)
    except LowerError:
        left = [op for op in walk(module) if not op.name.startswith(_TRANSLATABLE)]
        if not left:
            raise
        leftover = next((op for op in left if op.name != "builtin.unrealized_conversion_cast"), left[0])
        raise LowerError(
            f"`{leftover.name}` has no lowering to LLVM: {_first_line(str(leftover))}",
            where=where(leftover),
            rule="what none of the steps in nvdsl/lower/passes.py converts can't become PTX",
            fix="write it with other ops; NVDSL_DUMP=after:convert-gpu-to-nvvm shows what is left",
        ) from None


def run_passes(name: str, pipeline: str, module: Any) -> None:
    """Run MLIR passes, at module level. Raises LowerError with the line of the op that the first error is about.

    The module is not verified after each of them, which took a third of their time: `generate_ptx` does so once."""
    manager = passmanager.PassManager.parse(f"builtin.module({pipeline})")
    manager.enable_verifier(False)
    with _refused(name):
        manager.run(module.operation)


@contextmanager
def _refused(name: str) -> Iterator[None]:
    try:
        yield
    except ir.MLIRError as error:
        first = error.error_diagnostics[0]
        raise LowerError(
            f"{name} refused the kernel: {_first_line(first.message)}",
            where=where(ir.Location.from_attr(first.location.attr)),  # a diagnostic's own has no subclass
            fix=f"NVDSL_DUMP=before:{name} prints the module that it was given" if name in passes.NAMES else "",
        ) from None


def _first_line(text: str) -> str:
    return text.strip().partition("\n")[0][:400]
