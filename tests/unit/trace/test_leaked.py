"""Traced values that outlive their trace: pytest shows the arguments of the functions that an error came through."""

import numpy as np
import pytest

import nvdsl as nv
from nvdsl.errors import TraceError


def test_an_error_in_a_loop_leaves_values_that_can_be_shown():
    kept = []

    @nv.jit
    def host(x: nv.Array["n"]):  # noqa: F821
        (n,) = x.shape

        @nv.kernel(grid=1, block=32)
        def kernel():
            for k in nv.range(n):
                value = k * n
                for _ in range(50):
                    value = value * n + k
                    kept.append(value)
                kept.append(x[k:n])
                nv.no_such_name(value)

        kernel()

    with pytest.raises(TraceError, match="no_such_name"):
        host(np.zeros(8, np.float32), target="sim")
    *values, part = kept  # the loop is erased, and they with it
    for value in values:
        assert f"{value!r} {value!s} {value}" == "<a traced value> <a traced value> <a traced value>"
        with pytest.raises(TraceError, match="is not known"):
            bool(value)
        for late in (lambda x: x + 1, lambda x: -x, lambda x: x < 3):
            with pytest.raises(TraceError, match="no function is being traced"):
                late(value)
    assert repr(part) == str(part) == f"{part}"
    assert "f32" in str(part)
