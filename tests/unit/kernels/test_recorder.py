"""The driver that records ends with the test that has it (the fixture ``gpu``)."""

import nvdsl as nv
from nvdsl import sim


def test_it_is_a_gpu(gpu):
    assert not sim.wanted() and nv.no_gpu() is None


def test_later_tests_go_where_this_machine_says():
    """After the one above. A process whose first answer had been the recorder's would never simulate again."""
    assert sim.wanted() == (nv.no_gpu() is not None)
