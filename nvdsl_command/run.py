"""``nvdsl run``: a script, its kernels in the simulator."""

from __future__ import annotations

import os
import sys
from argparse import Namespace
from pathlib import Path

from nvdsl_command.arguments import PICTURES, check_file


def run(chosen: Namespace) -> int:
    """Become the script's own Python process: its output, its traceback and its exit code are the script's."""
    found = environment(chosen.delivery, chosen.order, chosen.seed, chosen.level)
    for name, path in (("NVDSL_SIM_TRACE", chosen.trace), ("NVDSL_SIM_PICTURE", chosen.picture)):
        if path:
            check_file(path, PICTURES if path is chosen.picture else ())
            found[name] = path
    sys.stdout.flush()
    os.execve(sys.executable, [sys.executable, chosen.script, *chosen.arguments], found)


def environment(delivery: str = "", order: str = "", seed: int | None = None, level: str = "") -> dict[str, str]:
    """The environment in which a Python process simulates like that (what is not given stays as it is), and in
    which it finds this nvdsl."""
    chosen = {"TARGET": "sim", "SIM_DELIVERY": delivery, "SIM_ORDER": order, "SIM_LEVEL": level}
    found = dict(os.environ) | {f"NVDSL_{name}": value for name, value in chosen.items() if value}
    if seed is not None:
        found["NVDSL_SIM_SEED"] = str(seed)
    home = str(Path(__file__).resolve().parents[1])
    if Path(home).name not in ("site-packages", "dist-packages"):  # a checkout
        found["PYTHONPATH"] = os.pathsep.join(filter(None, [home, os.environ.get("PYTHONPATH", "")]))
    return found
