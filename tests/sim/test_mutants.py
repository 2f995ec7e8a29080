"""Every mutant of the chapters' kernels is reported; the few that are not are listed, with the reason."""

import dataclasses

import pytest

from nvdsl import sim
from nvdsl.errors import NvdslError
from tests.sim.mutants import mutants
from tests.sim.programs import case

TRIED = [sim.Options(), *(sim.Options(delivery="random", order="random", seed=s) for s in range(3))]

# Mutants that are no bugs, by kernel: how what was changed starts, and why that is right.
HARMLESS: dict[str, dict[str, str]] = {
    "ch4": {"without gpu.barrier of `nv.sync_threads()": "a wgmma group is the warpgroup's: done in all four warps"},
    "compat ch2": {"without gpu.barrier of `mbar[0].init": "the block is one warp"},
}


def survivors(name):
    """(number of mutants, what the unreported ones changed, how each ended)."""
    one, found, count = case(name), [], 0
    for what, module in mutants(one.program.module):
        count += 1
        if not _reported(dataclasses.replace(one.program, module=module), one):
            found.append(f"{what}: {_numbers(one)}")
    return count, found


def _reported(program, one):
    for options in TRIED:
        one.reset()
        try:
            program.run(options)
        except NvdslError:
            return True
    return False


def _numbers(one):
    try:
        one.check()
    except AssertionError:
        return "wrong numbers"
    return "right numbers"


@pytest.mark.parametrize("name", ["ch2", "ch3", "ch4", "ch5 narrow", "compat ch2", "compat ch3"])
def test_mutants_are_reported(name):
    _, found = survivors(name)
    assert not [s for s in found if not any(s.startswith(h) for h in HARMLESS.get(name, ()))]
