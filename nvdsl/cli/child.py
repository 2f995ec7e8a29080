"""One schedule of ``nvdsl check``, in a process of its own: ``python -m nvdsl.cli.child RESULT.json script.py ...``.

The result says how the script ended, and its first report in words.
"""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from pathlib import Path

from nvdsl.cli import script


def main() -> int:
    result, path, *arguments = sys.argv[1:]
    outcome = script.run(path, arguments)
    Path(result).write_text(json.dumps(asdict(outcome)), encoding="utf-8")
    if outcome.traceback:
        print(outcome.traceback, file=sys.stderr)
    return outcome.code


if __name__ == "__main__":
    sys.exit(main())
