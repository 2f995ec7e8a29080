"""The chapters under compute-sanitizer, as a table: python tests/gpu/sanitize.py

memcheck (accesses out of bounds, misaligned), racecheck (shared memory, with wgmma's operands), synccheck (barriers).
The last rows are controls: kernels with a mistake that the tool must find, so that a clean table means something.
Says why and ends with 0 where compute-sanitizer or a Hopper GPU is missing; ends with 1 where a row is not as it
should be.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

TOOLS = {
    "memcheck": (),
    "racecheck": ("--check-warpgroup-mma", "yes"),
    "synccheck": (),
}
CONTROLS = {"memcheck": "outside", "racecheck": "race", "synccheck": "divergent"}
_SUMMARY = re.compile(r"(?:ERROR|RACECHECK) SUMMARY: (\d+) (?:error|hazard)")


def control(name: str) -> None:
    """A kernel with a mistake."""
    from tests.sim import kernels

    ints = np.zeros(64, np.int32)
    if name == "outside":
        kernels.indexed(np.zeros(64, np.int32), ints, shift=1 << 24)
    elif name == "race":
        kernels.exchange(ints, meet=False)
    else:
        kernels.divergent(ints)


def missing() -> str:
    """Why nothing can be checked here; "" when all is there."""
    from nvdsl.testing import missing_hopper

    if shutil.which("compute-sanitizer") is None:
        return "compute-sanitizer is not on the PATH (it comes with the CUDA toolkit)"
    return missing_hopper() or ""


def check(tool: str, command: list[str], timeout: float) -> tuple[int | None, str, float]:
    """(errors that the tool found, None when it gave no summary; its output; seconds)."""
    start = time.monotonic()
    settings = {"NVDSL_LINEINFO": "1", "NVDSL_VERIFY": "off", "NVDSL_TARGET": "gpu", "NVDSL_CACHE": "off"}
    environment = {**os.environ, **settings}
    environment["PYTHONPATH"] = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    try:
        run = subprocess.run(
            ["compute-sanitizer", "--tool", tool, *TOOLS[tool], sys.executable, *command],
            cwd=ROOT, env=environment, timeout=timeout, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip
        text = run.stdout
    except subprocess.TimeoutExpired as error:
        text = f"no end after {timeout:g} s\n{error.stdout or ''}"
    found = _SUMMARY.findall(text)
    return (int(found[-1]) if found else None), text, time.monotonic() - start


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tools", nargs="+", choices=TOOLS, default=list(TOOLS))
    parser.add_argument("--timeout", type=float, default=120.0, help="seconds of one program under one tool")
    parser.add_argument("--verbose", action="store_true", help="print what the tools say")
    parser.add_argument("--control", choices=CONTROLS.values(), help=argparse.SUPPRESS)
    parser.add_argument("programs", nargs="*", help="default: all chapters")
    options = parser.parse_args()
    if options.control:
        control(options.control)
        return 0
    reason = missing()
    if reason:
        print(f"skipped: {reason}")
        return 0
    programs = options.programs or [str(path.relative_to(ROOT)) for path in sorted((ROOT / "chapters").glob("ch*.py"))]
    width = max(map(len, [*programs, "control: divergent"]))
    print(f"{'program':{width}}  tool       errors  seconds")
    wrong = 0
    for program in programs:
        for tool in options.tools:
            wrong += row(program, width, tool, [program], options, lambda errors: errors == 0)
    for tool in options.tools:
        command = [str(Path(__file__).relative_to(ROOT)), "--control", CONTROLS[tool]]
        name = f"control: {CONTROLS[tool]}"
        wrong += row(name, width, tool, command, options, lambda errors: bool(errors))
    print("all as it should be" if not wrong else f"{wrong} of these rows are not as they should be")
    return 1 if wrong else 0


def row(name, width, tool, command, options, right) -> bool:
    """Print one row; True where it is not ``right``."""
    errors, text, seconds = check(tool, command, options.timeout)
    wrong = not right(errors)
    shown = "none given" if errors is None else errors
    print(f"{name:{width}}  {tool:9}  {shown:>6}  {seconds:7.1f}{'   <- wrong' if wrong else ''}", flush=True)
    if wrong or options.verbose:
        print("\n".join(f"    {line}" for line in text.splitlines()[-25:]), flush=True)
    return wrong


if __name__ == "__main__":
    sys.exit(main())
