"""From a search of many configurations to what is kept of it: a line for each problem.

    python benchmarks/search_matmul.py squares-f16 layouts --top 8 --out build/search-f16.json
    python benchmarks/summarize.py build/search-f16.json --out benchmarks/results/search-f16-h200.json

``best``: of all that were tried, with its ratio to cuBLAS and its spread (10 % to 90 % of the pairs). ``chosen``: the
ratio of what nv.matmul took by itself, None where it was too slow to be paired; ``gain``: the best one's over it.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from benchmarks.candidates import words  # noqa: E402
from benchmarks.paired import dumps  # noqa: E402


def summarized(row: dict[str, Any]) -> dict[str, Any]:
    """One problem of a search."""
    problem, tried = row["problem"], [product for product in row["tried"] if "ratio" in product]
    size = "x".join(str(problem[name]) for name in "mnk")
    found = {"kind": problem["kind"], "size": size, "tried": len(row["tried"])}
    if not tried:
        return {**found, "failed": row.get("failed") or "nothing was timed"}
    best = max(tried, key=lambda product: product["ratio"])
    own = max((product["ratio"] for product in tried if product.get("config") is None), default=None)
    return {
        **found,
        "best": words(best.get("config")),
        "ratio": best["ratio"],
        "spread": [best["ratio_low"], best["ratio_high"]],
        "chosen": own,
        "gain": best["ratio"] / own if own else None,
    }


def summary(search: dict[str, Any]) -> dict[str, Any]:
    """All but the raw rows, and a line for each problem instead of them."""
    return {**search, "rows": [summarized(row) for row in search["rows"]]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("search", type=Path, help="a file of search_matmul.py")
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    args.out.write_text(dumps(summary(json.loads(args.search.read_text()))))
    print(f"{args.out}: {len(args.out.read_text().splitlines())} lines")


if __name__ == "__main__":
    main()
