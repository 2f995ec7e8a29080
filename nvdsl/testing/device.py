"""Whether this machine can run Hopper kernels, for tests that need one that can."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")


@functools.cache
def missing_hopper() -> str | None:
    """Why this machine can't run Hopper kernels, or None where it can."""
    from nvdsl.driver.device import probe  # late: only tests of the device need the driver layer

    reason = probe()
    return None if reason is None else str(reason)


def requires_hopper(test: Callable[P, R]) -> Callable[P, R]:
    """Decorator: mark a test `gpu` and skip it, with the reason, where there is no usable Hopper GPU."""
    import pytest

    @functools.wraps(test)
    def guarded(*args: P.args, **kwargs: P.kwargs) -> R:
        reason = missing_hopper()
        if reason is not None:
            pytest.skip(reason)
        return test(*args, **kwargs)

    return pytest.mark.gpu(guarded)
