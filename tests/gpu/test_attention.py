"""Attention and fragments on the device: what the simulator runs, and larger."""

import ml_dtypes
import numpy as np
import pytest

from nvdsl.kernels.attention.forward import Config, config
from nvdsl.testing import in_child
from tests.unit.kernels.attending import CASES, Case, check

LARGE = (
    *(Case(4, 1000, 1000, head_size=d, causal=c, config=config(d, c)) for d in (64, 128, 256) for c in (False, True)),
    Case(8, 2048, 2048, head_size=128, kv_heads=2, causal=True, dtype=np.float16, config=config(128, True)),
    Case(16, 1024, 4096, head_size=128, causal=True, spread=8.0, config=Config(blocks=132)),
    Case(3, 1152, 1100, head_size=64, spread=8.0, config=Config(tile_n=96, consumers=3, stages=2, blocks=7)),
)


def call(function, *arrays, **constants):
    function(*arrays, **constants)


@in_child(timeout=280)
def test_the_simulators_cases():
    for case in CASES:
        check(call, case)


@in_child(timeout=280)
def test_larger_cases():
    for case in LARGE:
        check(call, case)


@in_child(timeout=120)
def test_the_same_bits_each_time():
    from tests.unit.kernels.attending import arrays, attention

    case = Case(4, 1024, 1024, head_size=128, causal=True, config=Config(), dtype=ml_dtypes.bfloat16)
    found = set()
    for _ in range(20):
        q, k, v, o, lse = arrays(case)
        attention(q, k, v, o, lse, causal=True, config=case.config)
        found.add(o.tobytes() + lse.tobytes())
    assert len(found) == 1


@in_child(timeout=280)
def test_fragments():
    """The simulator's tests of fragments, on the device."""
    import tests.sim.test_fragment_tensors as cases

    def on_device(function, *arrays, options=None, **constants):
        function(*arrays, **constants)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cases, "run", on_device)
        for shape in ((64, 8), (128, 24), (64, 40)):
            cases.test_operators_are_numpys(*shape)
        for dtype in (np.float16, np.float32, np.float64, np.int32, ml_dtypes.bfloat16):
            cases.test_types(np.dtype(dtype))
        cases.test_a_product_in_a_sum_is_rounded_once()
        for axis in (0, 1):
            for op in ("sum", "max", "min"):
                for dtype in (np.float32, np.float16, np.int32):
                    cases.test_reductions(op, axis, dtype, None)
        cases.test_bools_are_counted_and_joined()
        cases.test_parts_of_sums_add_up_once()
        cases.test_parts_of_a_fragment()
        for cols in (40, 41):
            cases.test_bounds(cols)
        for dtype, swizzle, n in cases.TILES:
            cases.test_tiles_take_and_give_fragments(dtype, swizzle, n)
        for dtype in cases.CARRIED:
            cases.test_loops_and_branches_carry_fragments(dtype)
