"""nvdsl/values/vector.py, and what a vector answers: built, sliced, converted, reduced in the thread."""

import numpy as np
import pytest

import nvdsl as nv
from nvdsl.errors import TraceError
from nvdsl.values.traced import Unsigned
from tests.unit.traced import ptx, tracing


def test_the_elements_meet_as_in_operators() -> None:
    with tracing(nv.f16, nv.u8, nv.i32, nv.e4m3) as (h, u, i, e):
        meets = [
            ([1, 2], nv.i32), ([1, 2.0], nv.f32), ([True, False], nv.bool_), ([h, 1, 2.0], nv.f16), ([1.0, i], nv.f32),
            ([u, 3], nv.u8), ([u, i], nv.i32), ([h, np.float32(1)], nv.f32), ([e, e], nv.e4m3),
            ((x for x in (h, h)), nv.f16),
        ]  # fmt: skip
        for elements, t in meets:
            assert nv.vector(elements).dtype is t
        assert type(nv.vector([u, u])) is Unsigned
        assert nv.vector([h, 1], nv.i64).dtype is nv.i64 and nv.vector(nv.e5m2, [h, 1]).dtype is nv.e5m2
        assert nv.vector(nv.vector([h, h, 3])[:2]).shape == (2,)


def test_what_is_no_list_of_numbers_is_refused() -> None:
    with tracing(nv.f16, nv.e4m3) as (h, e):
        for bad in ([], h, 3, None, ["x"], [nv.vector([h, h])], [h, e], [h, None]):
            with pytest.raises(TraceError):
                nv.vector(bad)
        with pytest.raises(TraceError, match="tf32"):
            nv.vector([h], nv.tf32)


def test_reductions_of_a_number_are_refused() -> None:
    with tracing(nv.f32) as trace, pytest.raises(TraceError, match="traced number"):
        trace[0].sum()


def test_names_of_numpy_of_plain_numbers() -> None:
    assert (nv.maximum(1, 2), nv.minimum(1, 2), nv.where(False, 1, 2)) == (2, 1, 2)


@pytest.mark.parametrize(("t", "name"), [(nv.f16, "f16x2"), (nv.bf16, "bf16x2")])
def test_pairs_of_16_bits_take_one_instruction(t, name) -> None:
    def body(v):
        return [nv.maximum(v * v + v, v).sum()]

    text = ptx(body, t, vector=8)
    assert text.count(f"max.{name}") == 4
    assert sum(text.count(f"add.{rounding}{name}") for rounding in ("rn.", "")) >= 3
