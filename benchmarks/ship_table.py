"""From the results of searches to the table that nvdsl comes with.

    python benchmarks/ship_table.py search-f16.json search-bf16.json [--least 1.01] [--out FILE]

Each problem becomes the entry that nv.matmul looks for with such arrays. Of two of the same class of shapes the one
with the higher ratio stays. What nv.matmul would choose anyway, what was not the same twice, and what was hardly
faster than nv.matmul's own choice is left out.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from benchmarks.problems import Workload  # noqa: E402

CAPABILITY = "9.0"


def call_of(problem: Workload) -> tuple[Any, Any]:
    """The tuned function that nv.matmul calls for a problem, and the call as it is specialized; no array is needed."""
    import nvdsl as nv
    from nvdsl.kernels.blocks.linear_combination import LinearCombination
    from nvdsl.kernels.gemm import dispatch
    from nvdsl.kernels.gemm.problem import GemmProblem, Matrix

    dtype = getattr(nv, "f32" if problem.dtype == "tf32" else problem.dtype)
    m, n, k = problem.m, problem.n, problem.k
    given = {"a": _matrix(dtype, m, k, problem.layout[0]), "b": _matrix(dtype, k, n, problem.layout[1])}
    if problem.scales:
        rows, cols = (m, n) if problem.scales == "rows" else (1, 1)
        given |= {"scale_a": Matrix(nv.f32, (rows, 1), (1, 1)), "scale_b": Matrix(nv.f32, (1, cols), (cols, 1))}
    given["out"] = _matrix(getattr(nv, problem.out), m, n, "N")
    scaled = bool(problem.scales)
    finish = LinearCombination(False, scaled, scaled, False, False, None)
    product = GemmProblem.of(given, getattr(nv, problem.acc), None)
    road = dispatch.find(product, finish, None, "sim")  # its SMs: an H200's
    arrays = [nv.ShapeDtype(slot.spec.shape, slot.spec.dtype, slot.spec.strides) for _, slot in road.slots]
    return road.function, road.function._asked(tuple(arrays), road.options)


def _matrix(dtype: Any, rows: int, cols: int, letter: str) -> Any:
    from nvdsl.kernels.gemm.problem import Matrix

    return Matrix(dtype, (rows, cols), (cols, 1) if letter == "N" else (1, rows))


def records(rows: list[dict[str, Any]], gpu: str, date: str, least: float) -> dict[str, Any]:
    """Question (JSON) -> record, of the rows of one search. ``least``: how many times faster than what nv.matmul
    chooses by itself a configuration must be, where that was tried too."""
    from nvdsl.kernels.gemm.config import Config
    from nvdsl.tune.space import Config as Chosen
    from nvdsl.tune.store import Record

    found: dict[str, Any] = {}
    for row in rows:
        if not row.get("config") or not row["tried"][0]["repeats"]:
            continue
        plain = {name: value for name, value in row["problem"].items() if name != "kind"}
        function, call = call_of(Workload(**plain))
        if not hasattr(function, "choice"):
            continue  # the simple kernel: there is nothing to choose
        usual = function._choose(call, function._problem(call), "off")[1]["config"]
        config = Config(**{name: value for name, value in row["config"].items() if name != "tile_k"})
        if config == usual or row["ratio"] < least * _own_ratio(row):
            continue
        question = function._question(function._problem(call))
        measured = {"ratio": round(row["ratio"], 4), "tflops": round(row["tflops"]), "date": date}
        record = Record(
            question, {"name": gpu, "capability": CAPABILITY}, {}, Chosen({"config": config}).plain(), measured
        )
        key = json.dumps(question, sort_keys=True)
        if key not in found or found[key].measured["ratio"] < measured["ratio"]:
            found[key] = record
    return found


def _own_ratio(row: dict[str, Any]) -> float:
    """What nv.matmul's own choice reached in a search, 0 where it was too slow to be paired with cuBLAS."""
    return max([p["ratio"] for p in row["tried"] if "ratio" in p and "config" not in p], default=0.0)


def main() -> None:
    from nvdsl.tune import table

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("searches", type=Path, nargs="+", help="files of search_matmul.py")
    parser.add_argument("--least", type=float, default=1.01, help="times faster than nv.matmul's own choice")
    parser.add_argument("--out", type=Path, help="default: the table that nv.matmul reads")
    args = parser.parse_args()
    found: dict[str, Any] = {}
    problems = 0
    for path in args.searches:
        search = json.loads(path.read_text())
        machine = search["machine"]
        problems += len(search["rows"])
        found |= records(search["rows"], machine["gpu"], machine.get("date", ""), args.least)
    if not found:
        raise SystemExit(f"nothing of {problems} problems is faster than what nv.matmul chooses by itself")
    kernel = next(iter(found.values())).question["kernel"]
    written = table.write(args.out or "matmul", kernel, found.values())
    print(f"{len(found)} entries of {problems} problems: {written}")


if __name__ == "__main__":
    main()
