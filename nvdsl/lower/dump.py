"""Printing what the lowering is at: to stderr, or to numbered files."""

from __future__ import annotations

import itertools
import re
import sys
from pathlib import Path
from typing import Any

from nvdsl.errors import ToolchainError
from nvdsl.lower.kernels import symbol_name
from nvdsl.lower.options import Options
from nvdsl.lower.passes import Step
from nvdsl.lower.result import KernelBinary

_calls = itertools.count()


class Dump:
    """The dumps of one call of `lower`: what of `Options.dump` comes by is written.

    With `Options.dump_dir` each goes to ``DIR/NNN-HOST/NN-NAME.EXT``: NNN counts the calls in this process, HOST is the
    host function, NN counts the files.
    """

    def __init__(self, options: Options, module: Any) -> None:
        self._wanted = options.dump
        self._folder: Path | None = None
        self._files = itertools.count()
        if options.dump and options.dump_dir:
            self._folder = Path(options.dump_dir, f"{next(_calls):03}-{_host_name(module)}")
            try:
                self._folder.mkdir(parents=True, exist_ok=True)
            except OSError as error:
                raise ToolchainError(
                    f"no folder {self._folder} can be made: {error.strerror}", fix="name another one (NVDSL_DUMP_DIR)"
                ) from None

    def module(self, name: str, module: Any) -> None:
        """The module at ``name``: trace, host, before:PASS or after:PASS."""
        if self._wants(name):
            self._write(name, "mlir", str(module))

    def left_out(self, step: Step) -> None:
        """Say so if somebody waits for a step that does not run."""
        for when in ("before", "after"):
            if f"{when}:{step.name}" in self._wanted:
                self._write(f"{when}:{step.name}", "mlir", f"// left out: no {' or '.join(step.needs)}\n")

    def text(self, name: str, of: str, extension: str, text: str) -> None:
        """Something of kernel or module ``of``."""
        if self._wants(name):
            self._write(f"{name} {of}", extension, text)

    def binary(self, symbol: str, binary: KernelBinary) -> None:
        if self._wants("sass"):
            try:
                self._write(f"sass {symbol}", "sass", binary.sass())
            except ToolchainError:  # with "all", whoever has no nvdisasm gets the rest
                if "sass" in self._wanted:
                    raise
        smem = f"{binary.smem_bytes} bytes dynamic shared memory"
        self.text("resources", symbol, "txt", f"{symbol}: {binary.resources}, {smem}\n")

    def _wants(self, name: str) -> bool:
        """``all`` is everything but the modules before each pass, which are those after the one before."""
        return name in self._wanted or ("all" in self._wanted and not name.startswith("before:"))

    def _write(self, name: str, extension: str, text: str) -> None:
        if self._folder is None:
            print(f"// ----- nvdsl: {name} -----\n{text}", file=sys.stderr)
            return
        file = re.sub(r"[^\w.-]+", "-", f"{next(self._files):02}-{name}.{extension}")
        (self._folder / file).write_text(text)


def _host_name(module: Any) -> str:
    for op in module.body.operations:
        if op.operation.name == "func.func":
            return symbol_name(op)
    return "module"
