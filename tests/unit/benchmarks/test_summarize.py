"""What is kept of searches and sweeps: a line for each problem."""

import json

from benchmarks.paired import dumps
from benchmarks.summarize import summarized, summary

PROBLEM = {"m": 64, "n": 32, "k": 16, "kind": "f16.f32.f16.NN"}


def tried(ratio, **config):
    return {"config": config or None, "ratio": ratio, "ratio_low": ratio - 0.1, "ratio_high": ratio + 0.1}


def test_the_best_is_kept_beside_what_was_chosen():
    row = {"problem": PROBLEM, "tried": [tried(1.0), tried(1.25, tile_n=192), {"config": {}, "coarse_ms": 3.0}]}
    found = summarized(row)
    assert (found["size"], found["tried"], found["best"]) == ("64x32x16", 3, "cooperative 128x192x64")
    assert (found["ratio"], found["spread"], found["chosen"], found["gain"]) == (1.25, [1.15, 1.35], 1.0, 1.25)


def test_what_was_never_paired_has_no_gain():
    assert summarized({"problem": PROBLEM, "tried": [tried(1.25, tile_n=192)]})["gain"] is None
    assert summarized({"problem": PROBLEM, "tried": [], "failed": "spills"})["failed"] == "spills"


def test_a_row_is_a_line_and_numbers_have_five_digits():
    row = {"problem": PROBLEM, "tried": [tried(1.0), tried(1.234567, tile_n=64)]}
    search = {"command": "python x", "rows": [row] * 3}
    text = dumps(summary(search))
    assert len(text.splitlines()) == 3 + 5
    kept = json.loads(text)
    assert kept["command"] == "python x" and [row["ratio"] for row in kept["rows"]] == [1.2346] * 3
