"""Division by a number that the host knows: exact for all of 31 bits, in Python and in a kernel."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import nvdsl as nv
from nvdsl.kernels.blocks.divisor import Divisor
from tests.exhaustive import sample

MOST = 2**31 - 1
numbers = st.one_of(st.integers(0, 300), st.integers(0, MOST), st.integers(MOST - 300, MOST))


@nv.jit
def quotients(x: nv.Array, out: nv.Array, d, e, *, known):
    one, other = Divisor.of(d), Divisor.of(e if known is None else known)

    @nv.kernel(grid=1, block=32)
    def kernel():
        i = nv.thread_id.x
        chosen = Divisor.select(i % 2 == 0, one, other)
        for j, divisor in enumerate((one, chosen)):
            quotient, remainder = divisor.divmod(x[i])
            out[i, j, 0] = quotient
            out[i, j, 1] = remainder

    kernel()


@pytest.mark.parametrize("known", sample([None, 128, 7, 1], 2))
@given(x=st.lists(numbers, min_size=32, max_size=32), d=numbers.filter(bool), e=numbers.filter(bool))
@settings(max_examples=25)
def test_quotient_and_remainder(known, x, d, e):
    x = np.array([*x[:-4], MOST, 0, d, d - 1], np.int32)
    out = np.empty((32, 2, 2), np.int32)
    quotients(x, out, d, e, known=known, target="sim")
    assert [tuple(row) for row in out[:, 0]] == [divmod(n, d) for n in x.tolist()]
    chosen = [(d, known or e)[i % 2] for i in range(32)]
    assert [tuple(row) for row in out[:, 1]] == [divmod(n, by) for n, by in zip(x.tolist(), chosen, strict=True)]


def test_a_known_divisor_is_left_to_the_compiler():
    assert Divisor.of(12) == Divisor(12) and Divisor(12).divmod(100) == (8, 4)
    assert Divisor.select(False, Divisor(3), Divisor(5)) == Divisor(5)
