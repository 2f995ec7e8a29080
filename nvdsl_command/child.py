"""One schedule of ``nvdsl check``, in a process of its own: ``python -m nvdsl_command.child RESULT.json SCRIPT ...``.

The result says how the script ended, and its first report in words.
"""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from pathlib import Path

from nvdsl_command import script

_NOTHING = (
    "no kernel ran\n"
    "  rule: a check simulates the kernels that the script calls, in the script's own process\n"
    "  fix:  call the jit function in the script, with arrays, also where `__name__ == \"__main__\"`"
)


def _simulated() -> bool:
    sim = sys.modules.get("nvdsl.sim")
    return sim is not None and sim.executables > 0


def main() -> int:
    result, path, *arguments = sys.argv[1:]
    outcome = script.run(path, arguments)
    if outcome.code == 0 and not _simulated():
        outcome = script.Outcome(1, f"{path}: {_NOTHING}", "nothing")
    Path(result).write_text(json.dumps(asdict(outcome)), encoding="utf-8")
    if outcome.traceback:
        print(outcome.traceback, file=sys.stderr)
    return outcome.code


if __name__ == "__main__":
    sys.exit(main())
