"""Results that several runs make together."""

import json

import pytest

from benchmarks import attention_drawn, paired, partial

FIRST, SECOND, THIRD = ({"command": f"python bench.py {i}", "machine": {"date": f"2026-01-0{i}"}} for i in (1, 2, 3))


def row(n, causal, rate):
    return {"n": n, "causal": causal, "kernel": rate}


def test_a_row_says_which_run_measured_it():
    first = partial.merged({}, FIRST, [row(1, True, 10.0), row(2, True, 20.0)], ("n", "causal"))
    assert first == {"runs": [FIRST], "rows": [row(1, True, 10.0) | {"run": 0}, row(2, True, 20.0) | {"run": 0}]}
    second = partial.merged(first, SECOND, [row(2, True, 21.0), row(2, False, 5.0)], ("n", "causal"))
    assert second["runs"] == [FIRST, SECOND]
    assert [(r["n"], r["causal"], r["kernel"], r["run"]) for r in second["rows"]] == [
        (1, True, 10.0, 0), (2, True, 21.0, 1), (2, False, 5.0, 1),
    ]  # fmt: skip
    third = partial.merged(second, THIRD, [row(1, True, 11.0)], ("n", "causal"))
    assert third["runs"] == [SECOND, THIRD]
    assert [(r["kernel"], r["run"]) for r in third["rows"]] == [(11.0, 1), (21.0, 0), (5.0, 0)]


def test_a_result_of_one_run_has_its_command_and_machine():
    whole = {**FIRST, "unit": "TFLOPS", "rows": [row(1, True, 10.0), row(2, True, 20.0)]}
    found = partial.merged(whole, SECOND, [row(2, True, 22.0)], ("n", "causal"))
    assert found["runs"] == [FIRST, SECOND]
    assert [r["run"] for r in found["rows"]] == [0, 1]


def test_what_is_written_is_read_again(tmp_path, monkeypatch):
    monkeypatch.setattr(paired, "machine", lambda: {"gpu": "none"})
    path = tmp_path / "result.json"
    for n in (1, 2):
        rows = partial.write(path, "bench.py", [row(n, False, 1.0)], ("n", "causal"), partial.read(path), unit="TFLOPS")
        assert [r["n"] for r in rows] == list(range(1, n + 1))
    assert [run["machine"] for run in json.loads(path.read_text())["runs"]] == [{"gpu": "none"}] * 2


def test_the_parts_are_all_problems():
    every = list(range(11))
    assert sorted(sum((partial.part(every, f"{i}/4") for i in (1, 2, 3, 4)), [])) == every
    with pytest.raises(ValueError, match="5/4"):
        partial.part(every, "5/4")


def test_a_seed_draws_the_same_problems_of_attention():
    few, many = attention_drawn.drawn(3, 9), attention_drawn.drawn(3, 40)
    assert few == many[:9] and len(set(many)) == 40 and attention_drawn.drawn(4, 9) != few
    assert {p.kind for p in many} == set(attention_drawn.KINDS)
    assert all(p.heads % p.kv_heads == 0 and p.size % 8 == 0 and 1e7 < p.work < 4e12 for p in many)
    always = [problem for problems in attention_drawn.SETS.values() for problem, _ in problems]
    assert all(p.heads % p.kv_heads == 0 and sum(p.lengths) in (0, p.keys) and p.work > 1e11 for p in always)
    names = attention_drawn.Problem._fields
    row = dict(zip(names, json.loads(json.dumps(many[4])), strict=True))
    again = partial.merged(
        {"rows": [row | {"kernel": 1.0}]}, FIRST, [many[4]._asdict()], attention_drawn.Problem._fields
    )
    assert len(again["rows"]) == 1
