"""What becomes of measured numbers: rows, summaries, plots, the shipped table."""

from __future__ import annotations

import json
import sys
import xml.etree.ElementTree as ET

import pytest

from benchmarks import bench_matmul, charts, search_matmul, ship_table
from benchmarks.drawn import DRAWN, drawn
from benchmarks.problems import SETS, Workload, problems, square
from benchmarks.runner import Report, Runner


def product(ratio: float, **more):
    return {"name": "nvdsl", "road": "matmul", "error": 1e-4, "repeats": True, "ms": 1.0, "library_ms": ratio,
            "tflops": 700.0 * ratio, "library_tflops": 700.0, "ratio": ratio, "ratio_low": ratio - 0.01,
            "ratio_high": ratio + 0.01, "pairs": 12, "sustained": ratio, **more}  # fmt: skip


def report(problem: Workload, *products) -> Report:
    return Report(problem, {"library": "cuBLAS", "library_error": 1e-4, "products": list(products)})


def test_a_summary_has_the_geometric_mean_and_names_what_failed():
    rows = [
        bench_matmul.row(report(square(1024), product(0.5))),
        bench_matmul.row(report(square(2048), product(2.0, repeats=False))),
        bench_matmul.row(Report(square(4096), None, "hung")),
    ]
    (entry,) = bench_matmul.summary(rows).values()
    assert entry["geometric_mean"] == pytest.approx(1.0)
    assert entry["lowest"] == {"size": "1024", "ratio": 0.5}
    assert (entry["failed"], entry["unstable"], entry["problems"]) == (["4096"], ["2048"], 3)


@pytest.mark.parametrize("name", SETS)
def test_every_set_has_a_plot(name):
    rows = [bench_matmul.row(report(p, product(1.0 + 0.01 * (i % 5)))) for i, p in enumerate(problems(name))]
    root = ET.fromstring(str(charts.sweep(SETS[name][0], rows)))
    marks = [e for e in root.iter("{http://www.w3.org/2000/svg}title") if "TFLOPS" in (e.text or "")]
    assert len(marks) >= len(rows)


def test_a_plot_without_timed_rows_says_so():
    assert "nothing was timed" in str(charts.sweep("none", [bench_matmul.row(Report(square(256), None, "hung"))]))


def test_the_first_of_a_search_is_the_fastest_that_was_the_same_twice():
    found = search_matmul.row(
        report(
            square(1024),
            product(1.2, name="racy", repeats=False, config={"group": 1}),
            product(1.1, name="good", config={"group": 2}),
            {"name": "broken", "failed": "spills"},
        )
    )
    assert found["config"] == {"group": 2}
    assert [p["name"] for p in found["tried"]] == ["good", "racy", "broken"]


def test_the_shipped_table_is_what_nv_matmul_looks_up(tmp_path):
    from nvdsl.tune import table

    problem = square(5120, layout="NT")
    best = product(1.2, config={"tile_n": 64, "stages": 5, "group": 3})
    row = search_matmul.row(report(problem, best, product(1.0)))
    found = ship_table.records([row], "NVIDIA H200", "2026-01-01", 1.005)
    function, call = ship_table.call_of(problem)
    path = table.write(tmp_path / "table.json", function.kernel, found.values())
    question = function._question(function._problem(call))
    entry = table.look_up(path, question, {"name": "NVIDIA H200", "capability": "9.0"})
    config = function.space.revive(entry)["config"]
    assert (config.tile_n, config.stages, config.group) == (64, 5, 3)
    hardly_faster = search_matmul.row(report(problem, best, product(1.199)))
    assert not ship_table.records([hardly_faster], "NVIDIA H200", "2026-01-01", 1.005)


def test_the_command_writes_a_result_and_a_plot(tmp_path, monkeypatch, capsys):
    class Fake(Runner):
        def __init__(self, *args, **options):
            super().__init__(*args, **options, factory="tests.unit.benchmarks.workers:FakeWorker")

    monkeypatch.setattr(bench_matmul, "Runner", Fake)
    arguments = ["squares-f16", "powers", "--sizes", "256", "512", "--workers", "1", "--results", str(tmp_path)]
    monkeypatch.setattr(sys, "argv", ["bench_matmul.py", *arguments])
    bench_matmul.main()
    for name in ("squares-f16", "powers"):
        written = json.loads((tmp_path / f"matmul-{name}.json").read_text())
        assert [r["size"] for r in written["rows"]] == ["256", "512"]
        assert written["machine"] == {"gpu": "none"}
        ET.parse(tmp_path / f"matmul-{name}.svg")
    assert "geometric mean" in capsys.readouterr().out


@pytest.mark.parametrize("arguments", [[], ["squares"], ["ragged", "--sizes", "99"]])
def test_wrong_arguments_are_refused(arguments, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["bench_matmul.py", *arguments])
    with pytest.raises(SystemExit) as stopped:
        bench_matmul.main()
    assert stopped.value.code == 2


def test_a_seed_draws_the_same_problems():
    for name in DRAWN:
        few, many = drawn(name, 3, 5), drawn(name, 3, 20)
        assert few == many[:5] and len(set(many)) == 20 and drawn(name, 4, 5) != few
    assert {p.kind for p in drawn("random", 1, 9, "e4m3.f32.bf16.NT.rows")} == {"e4m3.f32.bf16.NT.rows"}
