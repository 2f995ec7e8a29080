"""From the device module to PTX text that names the user's lines."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import PurePath
from typing import Any

from nvdsl.errors import Where
from nvdsl.errors.records import dataclass
from nvdsl.lower.kernels import symbol_name
from nvdsl.lower.narrow_stores import through_registers
from nvdsl.mlir import ir
from nvdsl.mlir.dialects import gpu

_FILE = re.compile(r'^\s*\.file\s+(\d+)\s+"(.*)"', re.MULTILINE)
_LOC = re.compile(r"^\s*\.loc\s+(\d+)\s+(\d+)\s")
_DEBUG_LABEL = re.compile(r"^\$L__(tmp|func_begin|func_end|info_string)\d+:")


@dataclass(frozen=True)
class Ptx:
    """PTX of one ``gpu.module``. ``lines[i]``: what line of the user's source PTX line ``i + 1`` came from."""

    module: str
    text: str
    lines: tuple[Where | None, ...]

    def where(self, line: int) -> Where | None:
        """The user's line of PTX line ``line``, counted from 1."""
        return self.lines[line - 1] if 0 < line <= len(self.lines) else None

    def for_blocks(self, kernel: str, blocks: int) -> Ptx:
        """The same with registers for another number of its blocks on an SM."""
        pattern = rf"(\.entry {re.escape(kernel)}\([^{{]*\.minnctapersm )\d+"
        return replace(self, text=re.sub(pattern, rf"\g<1>{blocks}", self.text))

    def around(self, line: int) -> str:
        """PTX line ``line`` with two lines before and after it, numbered."""
        text = self.text.splitlines()
        shown = range(max(line - 3, 0), min(line + 2, len(text)))
        return "\n".join(f"{'>' if i == line - 1 else ' '}{i + 1:6} {text[i]}" for i in shown)


def read(device: Any, *, lineinfo: bool) -> list[Ptx]:
    """The PTX in a device module after `passes.EMIT_PTX`, one for each ``gpu.binary``."""
    found = []
    for op in device.body.operations:
        if op.operation.name == "gpu.binary":
            (attribute,) = ir.ArrayAttr(op.attributes["objects"])
            code = gpu.ObjectAttr(attribute).object
            text = code.decode() if isinstance(code, bytes) else code
            found.append(annotate(symbol_name(op), text.rstrip("\0"), lineinfo=lineinfo))
    return found


def annotate(module: str, text: str, *, lineinfo: bool) -> Ptx:
    """Read the ``.loc`` directives of the backend's ``text``.

    With ``lineinfo`` they stay. Without it a comment takes the place of each, and the rest of the debug
    information goes: ptxas would write line tables into the cubin.
    """
    files = {int(number): path for number, path in _FILE.findall(text)}
    out: list[str] = []
    lines: list[Where | None] = []
    here: Where | None = None
    for line, loc in _statements(text, keep_debug=lineinfo):
        if loc:
            file, number = loc
            there = Where(files.get(file, "?"), number) if number else None
            if there == here and not lineinfo:
                continue
            here = there
            if not lineinfo:
                line = f"\t// {PurePath(here.file).name}:{here.line}" if here else "\t//"
        out.append(through_registers(line))
        lines.append(here)
    return Ptx(module, "\n".join(out) + "\n", tuple(lines))


def _statements(text: str, *, keep_debug: bool) -> Iterator[tuple[str, tuple[int, int] | None]]:
    """The lines of ``text``, each with (file, line) if it is a ``.loc``; debug information only if kept.

    Within inline PTX the backend counts up the line number with each line of its text: these go.
    """
    inline, section = False, False
    for line in text.splitlines():
        stripped = line.strip()
        if stripped in ("// begin inline asm", "// end inline asm"):
            inline = stripped == "// begin inline asm"
        loc = _LOC.match(line) if stripped.startswith(".loc") else None
        if loc:
            if not inline:
                yield line, (int(loc[1]), int(loc[2]))
            continue
        if not keep_debug:
            if section:
                section = stripped != "}"
                continue
            if stripped.startswith(".section"):
                section = "}" not in stripped
                continue
            if stripped.startswith(".file") or _DEBUG_LABEL.match(line):
                continue
        yield line, None
