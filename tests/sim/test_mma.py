"""mma.sync in the simulator: every type and shape, at both levels, whole warps only, and the sums' exact bits."""

import zlib

import numpy as np
import pytest

from nvdsl import sim
from nvdsl.errors import VerifyError
from nvdsl.layout import mma_a, mma_b, mma_c
from nvdsl.sim import mma as semantics
from tests.sim import mma
from tests.sim.simulate import run, traced, verdict_of

TOLERANCE = {"f32": 4e-6, "f16": 2e-2, "i32": 0, "f64": 1e-14}
F64_SUMS = {(8, 4): 0x811EB5E6, (16, 4): 0x81526132, (16, 8): 0x957B4713, (16, 16): 0xAADA3A68}
"""The checksum of the sums that an H200 gave for `mma.wide_f64`, by (m, k)."""


@pytest.mark.parametrize("form", mma.FORMS, ids=lambda form: "-".join(map(str, form)))
def test_product(form):
    given = mma.arguments(*form)
    program = traced(mma.product, *given, types=form[:3])
    for options in (sim.Options(), sim.Options(level="nvvm", exact=True)):
        given[3][...] = 0
        program.run(options)
        error = np.abs(given[3].astype(np.float64) - mma.expected(*given[:3])).max()
        assert error <= TOLERANCE[form[2]], options


@pytest.mark.parametrize("itemsize", [1, 2, 4, 8])
def test_layouts_are_the_simulators(itemsize):
    per = max(4 // itemsize, 1)
    lane = np.arange(32)[None, :, None]
    for m, groups in ((8, 1), (16, 1), (16, 2), (16, 4)):
        k = 4 * per * groups
        element = np.arange(per)[None, None]
        a, b = mma_a(itemsize, k, m), mma_b(itemsize, k)
        found = a(lane, (element, np.arange(m // 8 * groups)[:, None, None]))
        assert all((x == y).all() for x, y in zip(found, semantics._a(per, m, k), strict=True))
        found = b(lane, (element, np.arange(groups)[:, None, None]))
        assert all((x == y).all() for x, y in zip(found, semantics._b(per, k), strict=True))
        found = mma_c(m)(lane[..., 0], np.arange(m // 4)[:, None])
        assert all((x == y).all() for x, y in zip(found, semantics._c(m), strict=True))


@pytest.mark.parametrize("types", [("f16", "f16", "f32", 16, 16), ("e4m3", "e4m3", "f32", 16, 32)])
@pytest.mark.parametrize("level", sim.options.LEVELS)
def test_a_part_of_a_warp(types, level):
    error = verdict_of(traced(mma.product, *mma.arguments(*types), types=types[:3], lanes=16), sim.Options(level=level))
    assert error is not None and error.kind == "divergent-collective", error
    assert "mma.sync.aligned with 16 of its 32 lanes" in str(error)


def test_exact_sums_are_cut_off():
    """A tensor core cuts off what does not fit into a float32: three quarters of the last bit are lost, not rounded."""
    a, b, c, d = mma.arguments("f16", "f16", "f32", 16, 16)
    a[...], b[...], c[...] = 0, 0, 2.0**16
    a[:, :2], b[:2] = 2.0**-4, [[2.0**-4], [2.0**-5]]
    for exact, expected in ((True, 2.0**16), (False, 2.0**16 + 2.0**-7)):
        run(mma.product, a, b, c, d, types=("f16", "f16", "f32"), options=sim.Options(exact=exact))
        assert (d == expected).all()


@pytest.mark.parametrize(("m", "k"), F64_SUMS)
def test_f64_sums_are_fused_in_the_order_of_k(m, k):
    a, b, c = mma.wide_f64(m, k)
    run(mma.product, a, b, c, d := np.zeros((m, 8)), types=("f64",) * 3, options=sim.Options(exact=True))
    assert zlib.crc32(d.tobytes()) == F64_SUMS[m, k]


@pytest.mark.parametrize("level", sim.options.LEVELS)
def test_nvgpus_own_ops(level):
    a, b, _, d = mma.arguments("f16", "f16", "f32", 16, 16)
    run(mma.by_nvgpu, a, b, d, options=sim.Options(level=level))
    assert np.abs(d - mma.expected(a, b, np.zeros_like(d))).max() <= TOLERANCE["f32"]


def test_the_verifier_knows_nvgpus_ops():
    a, b, _, d = mma.arguments("f16", "f16", "f32", 16, 16)
    with pytest.raises(VerifyError, match="a part of a warp reaches ldmatrix.sync.aligned"):
        mma.by_nvgpu.trace(a, b, d, lanes=16)
