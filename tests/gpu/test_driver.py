"""The driver layer on the device: driver_check.py's table, each line of which must be ok."""

from nvdsl.testing import run_in_child


def test_driver_check():
    out = run_in_child("tests/gpu/driver_check.py", timeout=180).stdout
    assert "checks passed" in out
    assert "FAILED" not in out
