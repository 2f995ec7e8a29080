"""What `bench_bound` makes of what its kernels say."""

from __future__ import annotations

import json
import sys
import xml.etree.ElementTree as ET
from typing import Any

import pytest

from benchmarks import bench_bound
from benchmarks.bounds import CASES, CONFIGS, Sample, faster, products, summary
from benchmarks.problems import square
from benchmarks.runner import Runner
from tests.unit.benchmarks.workers import FakeWorker


class FakeBounds(FakeWorker):
    """Kernels that are slower the more they do, and the cooperative ones a bit faster."""

    def time(self, problem: Any, products: list[Any], settings: Any) -> dict[str, Any]:
        rows = []
        for product in products:
            case = [without for without, _ in CASES].index(product.options["without"])
            ms = 1.0 - 0.05 * case + 0.01 * (product.options["schedule"] == "pingpong")
            samples = [Sample(ms, 1.0, 1.5, 1e6)]
            rows.append({**product.plain(), "error": None, "repeats": True, **summary(problem, product, samples)})
        for row in faster(rows):
            row |= {"alone_ratio": 1.2, "alone_ghz": 1.3, "alone_tflops": 600.0, "alone_library_tflops": 500.0}
        return {"library": "fake", "library_error": 1e-4, "highest_ghz": 1.98, "products": rows}


def test_a_perfect_kernel_is_busy_all_the_time():
    cooperative = next(p for p in products() if p.options["schedule"] == "cooperative")
    clocks = 128 * 256 * 8192 / 2048
    found = summary(square(8192), cooperative, [Sample(1.0, 2.0, 1.5, 16 * clocks)])
    assert found["busy"] == pytest.approx(1.0)
    assert found["useful"] == pytest.approx(64 * 32 / 132 / 16), "2048 tiles in 16 rounds of 132"
    assert (found["ratio"], found["ghz"]) == (2.0, 1.5)


def test_each_kernel_does_without_each_thing_once():
    found = {(p.options["schedule"], p.options["without"]) for p in products()}
    assert len(found) == len(products()) == len({p.name for p in products()}) == len(CONFIGS) * len(CASES)


@pytest.fixture
def results(tmp_path, monkeypatch, capsys):
    class Fake(Runner):
        def __init__(self, *args, **options):
            super().__init__(*args, **{**options, "factory": f"{__name__}:FakeBounds", "workers": 1})

    monkeypatch.setattr(bench_bound, "Runner", Fake)
    monkeypatch.setattr(sys, "argv", ["bench_bound.py", "--sizes", "4096", "2048", "--out", str(tmp_path / "x.json")])
    bench_bound.main()
    return json.loads((tmp_path / "x.json").read_text()), (tmp_path / "x.svg").read_text(), capsys.readouterr().out


def test_the_command_writes_a_row_for_each_kernel_and_size(results):
    written, _, table = results
    assert [r["n"] for r in written["rows"]] == len(products()) * [2048] + len(products()) * [4096]
    assert {"ratio", "ghz", "busy", "useful", "schedule", "without", "highest_ghz"} <= set(written["rows"][0])
    assert table.count("cooperative, the whole kernel") == 2


def test_the_faster_kernel_of_each_case_is_drawn(results):
    written, svg, _ = results
    drawn = [r for r in written["rows"] if "alone_ratio" in r]
    assert {(r["n"], r["without"]) for r in drawn} == {(n, without) for n in (2048, 4096) for without, _ in CASES}
    assert {r["schedule"] for r in drawn} == {"cooperative"}
    marks = [e.text for e in ET.fromstring(svg).iter("{http://www.w3.org/2000/svg}title") if "TFLOPS" in (e.text or "")]
    assert len(marks) == 3 * len(drawn), "three panels"


def test_a_problem_that_failed_is_a_row_with_the_reason():
    from benchmarks.runner import Report

    (row,) = bench_bound.rows([Report(square(2048), None, "hung")])
    assert (row["n"], row["failed"]) == (2048, "hung")
    assert "hung" in bench_bound.table([row])
    assert "nothing was timed" in bench_bound.draw([row])


def test_sizes_that_the_few_slices_do_not_divide_are_refused(monkeypatch):
    monkeypatch.setattr(sys, "argv", ["bench_bound.py", "--sizes", "1000"])
    with pytest.raises(SystemExit) as stopped:
        bench_bound.main()
    assert stopped.value.code == 2
