"""Tensor maps: the parameters in the driver's order, and every rule of cuTensorMapEncodeTiled."""

from __future__ import annotations

import pytest

from nvdsl.hopper.tensor_maps import TensorMap


def gemm_operand(**changes):
    """A 128x64 f16 box of a 512x256 array, legal as it is."""
    fields = {
        "element": "f16",
        "shape": (512, 256),
        "strides": (256, 1),
        "box": (128, 64),
        "swizzle": "swizzle_128b",
        "l2promo": "l2promo_128b",
    }
    return TensorMap(**{**fields, **changes})


def test_parameters_are_innermost_first_with_strides_in_bytes():
    tensor_map = TensorMap("f32", (2, 3, 8, 16), (384, 128, 16, 1), (1, 2, 4, 16))
    assert tensor_map.dims == (16, 8, 3, 2)
    assert tensor_map.stride_bytes == (64, 512, 1536)
    assert tensor_map.box_dims == (16, 4, 2, 1)
    assert tensor_map.check() == []


def test_modes_are_the_drivers_enum_values():
    # FLOAT16 6, interleave NONE 0, swizzle 128B 3, L2 promotion 128B 2, fill NONE 0
    assert gemm_operand().modes == (6, 0, 3, 2, 0)
    interleaved = TensorMap("i8", (4, 4, 32), (128, 32, 1), (1, 1, 32), "swizzle_32b", "none", "zero", "interleave_32b")
    assert interleaved.modes == (0, 2, 1, 0, 0)
    assert TensorMap("tf32", (8, 8), (8, 1), (8, 8), oob="nan").modes == (11, 0, 0, 0, 1)


@pytest.mark.parametrize(
    ("element", "data_type"),
    [("i1", 0), ("i8", 0), ("f8E4M3FN", 0), ("f8E5M2", 0), ("i16", 1), ("i32", 3), ("i64", 5), ("f16", 6), ("f32", 7)]
    + [("f64", 8), ("bf16", 9), ("tf32", 11)],
)
def test_data_types(element, data_type):
    assert TensorMap(element, (16, 16), (16, 1), (16, 16)).modes[0] == data_type


@pytest.mark.parametrize("rank", [1, 2, 3, 4, 5])
def test_ranks_1_to_5_are_legal(rank):
    strides = tuple(16 ** (rank - 1 - i) for i in range(rank))
    assert TensorMap("f16", (16,) * rank, strides, (16,) * rank).check(address=0x1000) == []


def test_a_dimension_of_one_element_has_any_stride():
    tensor_map = TensorMap("f16", (1, 1, 24), (7, 13, 1), (1, 1, 8))
    assert tensor_map.stride_bytes == (48, 48)
    assert tensor_map.check() == []


@pytest.mark.parametrize(
    ("element", "shape", "strides", "past"),
    [
        ("f16", (96,), (1,), 0),
        ("f16", (100,), (1,), 8),
        ("i8", (1,), (1,), 15),
        ("f32", (1, 3), (3, 1), 4),  # a single row: nobody knows what follows
        ("f16", (2, 100), (104, 1), 0),  # padding follows each row
        ("f16", (2, 1, 100), (104, 7, 1), 0),
        ("f16", (3, 2, 100), (0, 104, 1), 8),  # one matrix for all: their stride says nothing of the padding
        ("f16", (2, 100), (96, 1), 8),  # rows overlap
    ],
)
def test_stores_write_past_the_end_where_no_padding_follows(element, shape, strides, past):
    assert TensorMap(element, shape, strides, shape).past_end == past


def test_broadcast_dimension_is_legal():
    assert TensorMap("f16", (4, 64), (0, 1), (4, 64)).check() == []


VIOLATIONS = {
    "element": (gemm_operand(element="index"), None, "element type index"),
    "rank 0": (gemm_operand(shape=(), strides=(), box=()), None, "rank 0: 1 to 5"),
    "rank 6": (TensorMap("f16", (8,) * 6, (8,) * 6, (8,) * 6), None, "rank 6: 1 to 5"),
    "box rank": (gemm_operand(box=(64,)), None, "1 box sizes and 2 strides for 2 dimensions"),
    "address": (gemm_operand(), 0x1008, "0x1008 is 8 bytes past a multiple of 16"),
    "empty": (gemm_operand(shape=(0, 256)), None, "axis 0 has 0 elements: 1 to 2^32"),
    "huge": (gemm_operand(shape=(2**32 + 1, 256)), None, "axis 0 has 4294967297 elements"),
    "transposed": (gemm_operand(strides=(1, 512)), None, "the innermost) has a stride of 512 elements"),
    "odd row": (
        gemm_operand(strides=(257, 1)),
        None,
        "axis 0 has a stride of 514 bytes (257 elements of f16)",
    ),
    "long stride": (gemm_operand(strides=(2**40, 1)), None, "0 to 2^40 - 1"),
    "negative": (gemm_operand(strides=(-256, 1)), None, "axis 0 has a stride of -512 bytes: 0 to 2^40"),
    "box 257": (gemm_operand(box=(257, 64)), None, "axis 0 of the box has 257 elements: 1 to 256"),
    "box 0": (gemm_operand(box=(0, 64)), None, "axis 0 of the box has 0 elements"),
    "box row": (
        gemm_operand(box=(64, 60)),
        None,
        "120 bytes (60 elements of f16): it must be a multiple of 16",
    ),
    "swizzle 128": (gemm_operand(box=(64, 128)), None, "swizzle_128b allows at most 128 bytes (64 elements)"),
    "swizzle 32": (
        gemm_operand(box=(64, 32), swizzle="swizzle_32b"),
        None,
        "allows at most 32 bytes (16 elements)",
    ),
    "unknown swizzle": (gemm_operand(swizzle="128"), None, "swizzle '128': one of none, swizzle_32b"),
    "nan of ints": (gemm_operand(element="i16", oob="nan"), None, "oob nan with i16"),
    "nan of fp8": (gemm_operand(element="f8E4M3FN", oob="nan"), None, "oob nan with f8E4M3FN"),
    "interleave rank": (gemm_operand(interleave="interleave_16b"), None, "rank 2 with interleave_16b"),
    "interleave swizzle": (
        TensorMap("f16", (4, 4, 16), (64, 16, 1), (1, 1, 16), "swizzle_64b", interleave="interleave_32b"),
        None,
        "swizzle swizzle_64b with interleave_32b",
    ),
    "interleave address": (
        TensorMap("f16", (4, 4, 16), (64, 16, 1), (1, 1, 16), "swizzle_32b", interleave="interleave_32b"),
        0x1010,
        "16 bytes past a multiple of 32",
    ),
    "interleave stride": (
        TensorMap("f16", (4, 4, 8), (40, 8, 1), (1, 1, 8), "swizzle_32b", interleave="interleave_32b"),
        None,
        "must be a multiple of 32 bytes",
    ),
}


@pytest.mark.parametrize("name", VIOLATIONS)
def test_each_rule(name):
    tensor_map, address, text = VIOLATIONS[name]
    assert any(text in problem.what for problem in tensor_map.check(address)), tensor_map.check(address)
    assert all(problem.fix for problem in tensor_map.check(address))


def test_every_violated_rule_is_listed():
    problems = TensorMap("f16", (512, 100), (100, 1), (300, 100), "swizzle_128b").check(address=8)
    assert len(problems) == 5  # address, row stride, box dimension, box row multiple, box row of the swizzle


def test_legal_maps_break_no_rule():
    assert gemm_operand().check(0x7F0000000010) == []
