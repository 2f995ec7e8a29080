"""The command ``nvdsl``: `arguments` says what it takes, and a module for each of its commands does it.

A package of its own beside nvdsl, so that ``nvdsl --help`` and ``nvdsl run`` need not import MLIR, which takes half a
second. ``python -m nvdsl`` is the same command.
"""

from __future__ import annotations

import importlib
import os
import sys
from pathlib import Path

from nvdsl_command.arguments import parser


def main(arguments: list[str] | None = None) -> int:
    """Run the command; returns its exit code: 0, 1 for a kernel that fails, 2 for input that makes no sense."""
    given = sys.argv[1:] if arguments is None else arguments
    own, scripts = given, []
    if given[:1] in (["check"], ["show"], ["draw"]) and "--" in given:
        own, scripts = given[: given.index("--")], given[given.index("--") + 1 :]
    chosen = parser().parse_args(own)
    chosen.arguments = getattr(chosen, "arguments", scripts)
    try:
        if getattr(chosen, "script", None) is not None and not Path(chosen.script).is_file():
            raise ValueError(f"there is no file {chosen.script}")
        code = importlib.import_module(f"nvdsl_command.{chosen.does}").run(chosen)
        sys.stdout.flush()
        return code
    except BrokenPipeError:  # `nvdsl show ... | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except (ValueError, OSError) as error:  # Refused is a ValueError
        print(f"nvdsl: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130
