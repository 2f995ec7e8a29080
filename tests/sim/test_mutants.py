"""Every mutant of a correct kernel is reported at a right line; the few that are not are listed, with the reason.

Here are some of each kernel's, chosen by their number; `make mutants` takes them all and writes docs/mutations.md.
"""

import re

import pytest

from tests.sim.mutants import table
from tests.sim.mutants.subjects import SUBJECTS, subject

MOST = 32
"""Mutants of one kernel that are tried here."""


def chosen(mutants):
    """The first of each kind, and others from all over the kernel."""
    first = list({m.kind: m for m in reversed(mutants)}.values())
    others = [m for m in mutants if m not in first]
    room = max(MOST - len(first), 1)
    return [*first, *others[:: -(-len(others) // room) or 1]]


@pytest.mark.parametrize("name", SUBJECTS)
def test_mutants_are_reported_at_a_right_line(name):
    one = subject(name)
    rows = [table.Row(name, mutant, one.judge(mutant)) for mutant in chosen(one.mutants)]
    assert len(rows) >= min(len(one.mutants), 15)
    assert not [str(row) for row in table.unexplained(rows)]


def test_the_table_is_of_these_kernels_and_says_enough():
    written = table.PATH.read_text()
    kernels = written.partition("## By kernel")[2].partition("\n## ")[0]
    assert re.findall(r"^\| ([^|]+?) \| +\d", kernels, re.M) == [*SUBJECTS, "all"]
    rate = re.search(r"\*\*([\d.]+) %\*\*", written)
    assert rate and float(rate[1]) >= 95
    assert "not explained" not in written
