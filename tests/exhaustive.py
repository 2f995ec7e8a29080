"""Which tests `make test` leaves to `make test-all`: more of the same, that a nightly run tries."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

exhaustive = pytest.mark.exhaustive


def sample(values: Iterable[Any], count: int) -> list[Any]:
    """For `pytest.mark.parametrize`: ``values``, of which ``count`` evenly spread ones (the first among them) are tried
    by `make test`, and all by `make test-all`. A value may be a tuple, for several names."""
    values = list(values)
    usual = {round(i * len(values) / count) for i in range(count)}
    return [
        value if i in usual else pytest.param(*(value if isinstance(value, tuple) else [value]), marks=exhaustive)
        for i, value in enumerate(values)
    ]
