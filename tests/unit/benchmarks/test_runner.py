"""The runner beside workers that hang, crash and refuse."""

from __future__ import annotations

import time

import pytest

from benchmarks.problems import square
from benchmarks.products import Product
from benchmarks.runner import Report, Runner
from benchmarks.worker import Settings

pytestmark = pytest.mark.usefixtures("quick_python")

FAKE = "tests.unit.benchmarks.workers:FakeWorker"


def run(tasks, factory=FAKE, deadline=None, **options):
    reports: list[Report] = []
    runner = Runner(Settings(seconds=0.0), reports.append, factory=factory, **{"workers": 2, **options})
    if deadline is not None:
        runner._deadline = lambda problem, products: deadline
    runner.run(tasks)
    return {r.problem: r for r in reports}, runner


@pytest.mark.parametrize("compile_first", [True, False])
def test_every_problem_is_reported_once(compile_first):
    tasks = [(square(n), [Product("nvdsl")]) for n in (256, 512, 1024)]
    reports, runner = run(tasks, compile_first=compile_first)
    assert set(reports) == {p for p, _ in tasks}
    assert all(r.result["products"][0]["ratio"] > 1 for r in reports.values())
    assert runner.machine == {"gpu": "none"}


@pytest.mark.parametrize(("bad", "why"), [("hanger", "hung"), ("crasher", "exit code 7"), ("spiller", "spills")])
def test_a_bad_product_costs_only_itself(bad, why):
    problem = square(256)
    reports, _ = run([(problem, [Product("good"), Product(bad), Product("fine")])], deadline=1.0)
    rows = {row["name"]: row for row in reports[problem].result["products"]}
    assert why in rows[bad]["failed"]
    assert all("failed" not in rows[name] for name in ("good", "fine"))


def test_a_refusal_is_the_problems_and_others_go_on():
    tasks = [(square(256), [Product("refuser")]), (square(512), [Product("nvdsl")])]
    reports, _ = run(tasks, workers=1)
    assert reports[square(256)].failed == "no such thing"
    assert reports[square(512)].result is not None


def test_what_is_left_without_products_is_reported():
    reports, _ = run([(square(256), [Product("spiller")])])
    assert [row["name"] for row in reports[square(256)].result["products"]] == ["spiller"]


def test_nothing_is_begun_after_the_limit():
    start = time.monotonic()
    reports, _ = run([(square(n), [Product("nvdsl")]) for n in (256, 512)], limit=0.0)
    assert {r.failed for r in reports.values()} == {"not begun: the time was up"}
    assert time.monotonic() - start < 20


def test_workers_that_do_not_start_are_told():
    tasks = [(square(n), [Product("nvdsl")]) for n in (256, 512)]
    reports, _ = run(tasks, factory="tests.unit.benchmarks.workers:Unstartable")
    assert len(reports) == 2
    assert any("no GPU here" in r.failed for r in reports.values())
