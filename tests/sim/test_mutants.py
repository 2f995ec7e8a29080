"""Every mutant of a correct kernel is reported at a right line; the few that are not are listed, with the reason.

`make test` tries some of every fourth kernel's, `make test-all` all; `make mutants` writes docs/mutations.md.
"""

import re

import pytest

from tests.exhaustive import exhaustive, sample
from tests.sim.mutants import table
from tests.sim.mutants.subjects import SUBJECTS, subject
from tests.sim.mutants.survivors import ENTRIES

SOME = 3
"""Mutants of one kernel that `make test` tries."""

PARTS = 5
"""Tests in which `make test-all` tries all mutants of one kernel."""


def without_reasons(name, mutants):
    """None of those that may survive: it takes every schedule to see, and either is right."""
    return [m for m in mutants if not any(entry.fits(name, m) for entry in ENTRIES)]


def some(name, mutants):
    """Of all kinds, and others in each kernel."""
    mutants = without_reasons(name, mutants) or mutants
    mutants = sorted(mutants, key=lambda m: m.kind)
    apart = max(len(mutants) // SOME, 1)
    return mutants[list(SUBJECTS).index(name) % apart :: apart][:SOME]


def part(k):
    """The k-th part of all: the parts of a large kernel are judged side by side."""
    return pytest.param(lambda name, mutants: without_reasons(name, mutants)[k::PARTS], marks=exhaustive, id=f"part{k}")


@pytest.mark.parametrize("chosen", [pytest.param(some, id="some"), *map(part, range(PARTS))])
@pytest.mark.parametrize("name", sample(SUBJECTS, len(SUBJECTS) // 4))
def test_mutants_are_reported_at_a_right_line(name, chosen):
    one = subject(name)
    rows = [table.Row(name, mutant, one.judge(mutant)) for mutant in chosen(name, one.mutants)]
    assert rows or chosen is not some
    assert not [str(row) for row in table.unexplained(rows)]


def test_the_table_is_of_these_kernels_and_says_enough():
    written = table.PATH.read_text()
    kernels = written.partition("## By kernel")[2].partition("\n## ")[0]
    assert re.findall(r"^\| ([^|]+?) \| +\d", kernels, re.M) == [*SUBJECTS, "all"]
    rate = re.search(r"\*\*([\d.]+) %\*\*", written)
    assert rate and float(rate[1]) >= 98
    assert "not explained" not in written
