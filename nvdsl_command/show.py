"""``nvdsl show``: the kernels that a script compiles, as MLIR, PTX or SASS, and what they use."""

from __future__ import annotations

import contextlib
import io
import os
import shutil
import sys
import tempfile
from argparse import Namespace
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from nvdsl.call import collect
from nvdsl.errors import NvdslError
from nvdsl.hopper.occupancy import occupancy
from nvdsl.lower import kernels, passes
from nvdsl_command import script
from nvdsl_command.arguments import Refused
from nvdsl_command.side_by_side import side_by_side


def run(chosen: Namespace) -> int:
    step = "" if chosen.view == "steps" else _step(chosen)
    with tempfile.TemporaryDirectory(prefix="nvdsl-") as folder:
        with _dumped(step, folder):
            found = _compiled(chosen)
        shown = _chosen(found, chosen.kernel)
        try:
            if chosen.view == "steps":
                text = _steps(shown, chosen.after, chosen.side_by_side)
            else:
                text = _VIEWS[chosen.view](shown) if not step else _dumps(folder, shown)
        except NvdslError as error:
            raise Refused(f"{error.message}: {error.fix}" if error.fix else error.message) from None
    print(text.rstrip("\n"))
    return 0


def _compiled(chosen: Namespace) -> list[Any]:
    """What the script compiles. Its output is dropped; its error is said where it matters."""
    with collect.compiled() as found, contextlib.redirect_stdout(io.StringIO()):
        outcome = script.run(chosen.script, chosen.arguments)
    if not found:
        why = f"it ended with {outcome.report}" if outcome.report else "it ended without calling an nv.jit function"
        raise Refused(f"{chosen.script} compiled no kernel: {' '.join(why.split())}")
    if outcome.report:
        first = outcome.report.partition("\n")[0]
        print(f"nvdsl: (kernels are only compiled here, and so the script stopped at {first})", file=sys.stderr)
    return found


def _chosen(found: list[Any], name: str | None) -> list[tuple[Any, list[Any]]]:
    """(specialization, its kernels), those that --kernel names."""
    chosen = []
    for one in found:
        mine = [k for k in one.kernels.values() if name in (None, one.name, k.name, k.symbol)]
        if mine:
            chosen.append((one, mine))
    if not chosen:
        names = dict.fromkeys(f"{one.name} ({k.name})" for one in found for k in one.kernels.values())
        raise Refused(f"there is no kernel {name!r}; the script has {', '.join(names) or 'none'}")
    return chosen


# --- one step of the lowering


def _step(chosen: Namespace) -> str:
    """``after:STEP``, ``before:STEP``, or "" for none."""
    for when, name in (("after", chosen.after), ("before", chosen.before)):
        if name is None:
            continue
        if name not in passes.NAMES:
            raise Refused(f"there is no step {name!r}; nvdsl show {chosen.script} passes lists them")
        if chosen.view != "mlir":
            raise Refused(f"--{when} goes with mlir: nvdsl show {chosen.script} mlir --{when} {name}")
        return f"{when}:{name}"
    return ""


@contextlib.contextmanager
def _dumped(step: str, folder: str) -> Iterator[None]:
    """Let the lowering write its modules at ``step`` into ``folder``."""
    kept = {name: os.environ.pop(name, None) for name in ("NVDSL_DUMP", "NVDSL_DUMP_DIR")}
    if step:
        os.environ |= {"NVDSL_DUMP": step, "NVDSL_DUMP_DIR": folder}
    try:
        yield
    finally:
        for name, value in kept.items():
            os.environ.pop(name, None)
            if value is not None:
                os.environ[name] = value


def _dumps(folder: str, shown: list[tuple[Any, list[Any]]]) -> str:
    names = {one.name for one, _ in shown}
    return "\n".join(
        f"// ----- {file.parent.name[4:]} -----\n{file.read_text()}"
        for file in sorted(Path(folder).glob("*/*"))
        if file.parent.name[4:] in names
    )


# --- views


def _mlir(shown: list[tuple[Any, list[Any]]]) -> str:
    return "\n".join(_title(one, one.mlir) for one, _ in shown)


def _ptx(shown: list[tuple[Any, list[Any]]]) -> str:
    return "\n".join(
        _title(one, text) for one, mine in shown for text in dict.fromkeys(k.ptx for k in mine)
    )


def _sass(shown: list[tuple[Any, list[Any]]]) -> str:
    return "\n".join(_title(one, k.sass()) for one, mine in shown for k in mine)


def _title(one: Any, text: str) -> str:
    return f"// ----- {one.name} -----\n{text}"


_COLUMNS = (
    "kernel", "threads", "registers", "spilled", "stack", "shared memory", "barriers", "blocks/SM", "limited by",
)  # fmt: skip


def _resources(shown: list[tuple[Any, list[Any]]]) -> str:
    """One line a kernel; bytes but for the counts."""
    rows = [list(_COLUMNS)]
    for one, mine in shown:
        for kernel in mine:
            r = kernel.resources
            smem = kernel.smem_bytes + r.static_smem
            fits = occupancy(kernel.max_threads, r.registers, smem)
            name = one.name if len(one.kernels) == 1 else f"{one.name}: {kernel.name}"
            spilled = r.spill_stores + r.spill_loads
            numbers = [kernel.max_threads, r.registers, spilled, r.stack, smem, r.barriers, fits.blocks]
            rows.append([name, *(f"{n:,}" for n in numbers), fits.limit])
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    last = len(_COLUMNS) - 1
    lines = [
        "  ".join(
            words.ljust(width) if i in (0, last) else words.rjust(width)
            for i, (words, width) in enumerate(zip(row, widths, strict=True))
        )
        for row in rows
    ]
    return "\n".join(line.rstrip() for line in lines)


def _passes(shown: list[tuple[Any, list[Any]]]) -> str:
    """Each step, whether it runs for these kernels, and why there is one."""
    names: frozenset[str] = frozenset()
    for one, mine in shown:
        wanted = {k.symbol for k in mine}
        found = kernels.read(one.lowered.host)
        names = names.union(*(k.op_names for symbol, k in found.items() if symbol in wanted))
    width = max(map(len, passes.NAMES))
    lines = [
        f"{'runs' if step.wanted(names) else '-':<5} {step.name:<{width}}  {step.why}"
        for step in (*passes.HOST, *passes.DEVICE)
    ]
    return "\n".join(lines)


def _steps(shown: list[tuple[Any, list[Any]]], only: str | None, width: int | None) -> str:
    """The module behind each step of a schedule, or behind those called ``only``; with a ``width`` beside the module
    before it, where they differ (0: of the terminal's)."""
    stages = [(one, *pair) for one, _ in shown for pair in zip((None, *one.stages), one.stages, strict=False)]
    wanted = [(one, old, s) for one, old, s in stages if only in (None, s.name, s.name.partition("(")[0])]
    if not wanted:
        names = ", ".join(dict.fromkeys(stage.name for _, _, stage in stages))
        raise Refused(f"there is no step {only!r}; there are {names}" if stages else "no schedule made these kernels")

    def body(before: Any, after: Any) -> str:
        if width is None or before is None:
            return str(after.text)
        return side_by_side(before.text, after.text, width or shutil.get_terminal_size((160, 24)).columns)

    return "\n".join(f"// ----- {one.name}: {s.name} -----\n// {s.says}\n{body(old, s)}" for one, old, s in wanted)


_VIEWS = {"mlir": _mlir, "ptx": _ptx, "sass": _sass, "resources": _resources, "passes": _passes}
