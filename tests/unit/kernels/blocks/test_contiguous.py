"""Copies that TMA can read: the same elements, whatever the strides of the source, in rows of whole 16 bytes."""

import numpy as np
import pytest

import nvdsl as nv
from nvdsl.ir.walk import constant, find
from nvdsl.kernels.blocks.contiguous import contiguous, is_turned, pack, pack_both, padded_cols
from tests.exhaustive import sample
from tests.unit.kernels import array
from tests.unit.kernels.strided import strided


@nv.jit
def packed(flat, out, *, shape, strides, start):
    found = contiguous(strided(flat, shape, strides, start))
    assert found.strides[-1] == 1 and found.strides[-2] * found.dtype.bytes % 16 == 0
    pack.__wrapped__(found, out, turned=False)


def check(dtype, shape, strides, start=0):
    memory = np.arange(start + 1 + sum((n - 1) * s for n, s in zip(shape, strides, strict=True)))
    memory = (memory % 251 - 125).astype(dtype.numpy)
    numbers = np.lib.stride_tricks.as_strided(memory.astype(np.float32)[start:], shape, [4 * s for s in strides])
    out = np.zeros(shape, dtype.numpy)
    packed(memory, out, shape=shape, strides=strides, start=start, target="sim")
    np.testing.assert_array_equal(out.astype(np.float32), numbers)


@pytest.mark.parametrize("dtype", sample([nv.f16, nv.bf16, nv.f32, nv.e4m3, nv.i8, nv.e5m2], 3), ids=lambda t: t.name)
@pytest.mark.parametrize("strides", [(71, 1), (1, 67)], ids=["rows", "columns"])
def test_each_type_by_rows_and_by_columns(dtype, strides):
    check(dtype, (67, 70), strides)


@pytest.mark.parametrize(
    ("shape", "strides", "start"),
    [
        ((1, 1), (1, 1), 0),
        ((1, 130), (130, 1), 3),
        ((130, 1), (1, 1), 1),
        ((5, 7), (30, 3), 2),  # neither axis is contiguous
        ((5, 7), (0, 1), 0),  # one row for all
        ((3, 65, 9), (700, 9, 1), 0),
        ((3, 9, 65), (700, 1, 9), 5),
        ((2, 9, 65), (0, 1, 9), 0),
    ],
)
def test_shapes_and_strides(shape, strides, start):
    check(nv.f16, shape, strides, start)


@pytest.mark.parametrize("turned", [(False, True), (True, True)])
def test_two_by_one_kernel(turned):
    """A matrix, and a stack of other sizes."""
    rng = np.random.default_rng(0)
    sources = [rng.integers(-9, 9, shape).astype(np.int8) for shape in ((70, 131), (2, 9, 65))]
    given = [np.asfortranarray(x) if x.ndim == 2 and t else x for x, t in zip(sources, turned, strict=True)]
    copies = [np.zeros_like(x) for x in sources]
    (a, b), (c, d) = given, copies
    pack_both(a, c, b, d, turned_a=turned[0], turned_b=turned[1], target="sim")
    for copy, source in zip(copies, sources, strict=True):
        np.testing.assert_array_equal(copy, source)


def test_rows_are_padded_to_16_bytes():
    assert [padded_cols(cols, nv.f16) for cols in (1, 8, 9)] == [8, 8, 16]
    assert padded_cols(17, nv.i8) == 32


def test_one_compiled_copy_for_all_shapes():
    before = len(pack._compiled._made)
    sizes = nv.ShapeDtype(("rows", "cols"), nv.f16, (None, None)), nv.ShapeDtype(("rows", "cols"), nv.f16, (None, 1))
    assert len(pack.compile(*sizes, turned=False).kernels) == 1
    assert len(pack._compiled._made) == before + 1
    assert is_turned((3, 4), (1, 3)) and not is_turned((3, 1), (1, 3)) and not is_turned((3, 4), (4, 1))


@nv.jit
def copied(source, out):
    pack.__wrapped__(source, out, turned=False)


@pytest.mark.parametrize(
    ("shape", "blocks"),
    [((64 * 65_536, 8), 65_536), ((65_536, 3, 65), 2 * 65_536), ((8, 64 * 65_536), 65_536)],
    ids=["rows", "batches", "columns"],
)
def test_more_tiles_than_a_grid_has_blocks_along_y_or_z(shape, blocks):
    module = copied.trace(array(nv.f16, *shape), array(nv.f16, *shape))
    (launch,) = find(module, "gpu.launch")
    assert [constant(x) for x in list(launch.operands)[:3]] == [blocks, 1, 1]
