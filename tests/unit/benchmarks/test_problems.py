"""Sets of problems, candidates, and which product is chosen: all that needs neither torch nor a GPU."""

from __future__ import annotations

import pytest

from benchmarks.candidates import can_run, ranked, shorter, words
from benchmarks.problems import FP8, INT8, SETS, TF32, Workload, problems, square
from benchmarks.products import Product, chosen
from tests.exhaustive import sample


def test_the_squares_are_the_61_sizes():
    found = problems("squares-f16")
    assert [p.m for p in found] == list(range(1024, 16385, 256))
    assert len(found) == 61
    assert {p.kind for p in found} == {"f16.f32.f16.NN"}


@pytest.mark.parametrize("name", SETS)
def test_keys_tell_the_problems_of_a_set_apart(name):
    found = problems(name)
    assert len({p.key for p in found}) == len(found)
    assert all(p.tolerance > 0 or p.acc == "i32" for p in found)


def test_sizes_replace_a_sets_own():
    assert {p.m for p in problems("layouts", [512])} == {512}
    assert {p.layout for p in problems("layouts", [512])} == {"NN", "NT", "TN", "TT"}
    with pytest.raises(ValueError, match="0 to 11"):
        problems("ragged", [12])


@pytest.mark.parametrize(
    "problem",
    sample([square(1024), square(8192), square(3072, acc="f16"), square(4096, **FP8), square(2048, **TF32),
            square(2048, **INT8), Workload(16, 4096, 4096, layout="NT")], 3),
    ids=lambda p: p.key,
)  # fmt: skip
def test_candidates_can_run_and_differ(problem):
    found = ranked(problem)
    assert len({words(config) for config in found}) == len(found) >= 10
    assert all(can_run(config, problem) for config in found)
    assert ranked(problem, 3) == found[:3]


def test_tiles_that_leave_sms_idle_rank_behind_those_that_fill_them():
    names = [words(config) for config in ranked(square(1024))]
    few, many = (next(i for i, name in enumerate(names) if tile in name) for tile in (" 128x256x", " 64x128x"))
    assert many < few


def test_shorter_leaves_out_defaults_only():
    assert shorter({"tile_m": 128, "tile_n": 192, "schedule": "cooperative", "stages": 4}) == {"tile_n": 192}
    assert words({"tile_n": 192, "group": 12}) == "cooperative 128x192x64, group=12"


def test_the_nearest_row_of_a_search_is_chosen():
    rows = [
        {"problem": {"kind": "f16.f32.f16.NN", "m": n, "n": n, "k": n}, "config": {"group": n}} for n in (1024, 4096)
    ]
    rows.append({"problem": {"kind": "f16.f32.f16.NN", "m": 2048, "n": 2048, "k": 2048}, "failed": "no"})
    assert chosen(square(4096), "matmul", rows).config == {"group": 4096}
    assert chosen(square(1280), "matmul", rows).config == {"group": 1024}
    assert chosen(square(1280, layout="NT"), "matmul", rows) == Product("nvdsl", "matmul")
    assert chosen(square(1280, layout="NT"), "gemm", rows).config is not None
