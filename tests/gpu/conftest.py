"""Every test below this folder needs a Hopper GPU: it is marked `gpu`, and skipped where there is none."""

from pathlib import Path

import pytest

from nvdsl.testing import missing_hopper

HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:  # pytest hands over all items of the run, not only this folder's
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.gpu)


def pytest_runtest_setup() -> None:
    reason = missing_hopper()
    if reason is not None:
        pytest.skip(reason)
