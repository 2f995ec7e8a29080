"""nvdsl.sim.numbers against exact rationals, and against what an H200 did."""

import zlib
from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest

import nvdsl as nv
from nvdsl.sim import numbers

pytestmark = pytest.mark.usefixtures("warnings_off")

F16, BF16 = np.dtype(np.float16), np.dtype(ml_dtypes.bfloat16)
E4M3, E5M2 = np.dtype(ml_dtypes.float8_e4m3fn), np.dtype(ml_dtypes.float8_e5m2)
FORMATS = {"f16": (11, -14), "bf16": (8, -126), "e4m3": (4, -6), "e5m2": (3, -14)}
"""Bits of the significand, and the least exponent of a normal number."""


def bits(x):
    return x.view(f"u{x.itemsize}")


def f32(*words):
    return np.array(words, np.uint32).view(np.float32)


def crc(x):
    return zlib.crc32(np.ascontiguousarray(x).tobytes())


def nearest_even(x, name):
    """``x``, finite, rounded to ``name`` by definition, as if exponents had no upper end."""
    significand, least = FORMATS[name]
    exact = Fraction(float(x))
    if not exact:
        return exact
    exponent = max(int(np.frexp(float(x))[1]) - 1, least)
    unit = Fraction(2) ** (exponent - significand + 1)
    return round(exact / unit) * unit  # Python rounds ties to even


# --- names ---------------------------------------------------------------------------------------


def test_types_by_the_names_of_nvdsl_mlir_and_ptx():
    same = {
        nv.e4m3: ("e4m3", "f8E4M3FN"),
        nv.i8: ("i8", "s8"),
        nv.i32: ("s32",),
        nv.bool_: ("i1",),
        nv.u8: ("u8",),
    }
    for expected, names in same.items():
        assert [numbers.dtype(name) for name in (*names, expected)] == [expected] * (len(names) + 1)
    with pytest.raises(KeyError):
        numbers.dtype("f8E5M2FNUZ")


# --- conversions ---------------------------------------------------------------------------------

# (f32, e4m3, e5m2, f16, bf16, tf32, s32, u32): bits that cvt gave on an H200 (.rn.satfinite to 8 bits, .rn,
# .rna to tf32, .rzi to integers).
MEASURED = [
    (0x7F800000, 0x7E, 0x7B, 0x7C00, 0x7F80, 0x7F800000, 0x7FFFFFFF, 0xFFFFFFFF),
    (0xFF800000, 0xFE, 0xFB, 0xFC00, 0xFF80, 0xFF800000, 0x80000000, 0x00000000),
    (0x7FC00000, 0x7F, 0x7F, 0x7FFF, 0x7FFF, 0x7FC00000, 0x00000000, 0x00000000),
    (0xFFC00000, 0x7F, 0x7F, 0x7FFF, 0x7FFF, 0xFFC00000, 0x00000000, 0x00000000),
    (0x7F800001, 0x7F, 0x7F, 0x7FFF, 0x7FFF, 0x7F800000, 0x00000000, 0x00000000),
    (0x43E00000, 0x7E, 0x5F, 0x5F00, 0x43E0, 0x43E00000, 0x000001C0, 0x000001C0),
    (0x43E7FFFF, 0x7E, 0x5F, 0x5F40, 0x43E8, 0x43E80000, 0x000001CF, 0x000001CF),
    (0x47680000, 0x7E, 0x7B, 0x7B40, 0x4768, 0x47680000, 0x0000E800, 0x0000E800),
    (0x477FF000, 0x7E, 0x7B, 0x7C00, 0x4780, 0x47800000, 0x0000FFF0, 0x0000FFF0),
    (0x477FEFFF, 0x7E, 0x7B, 0x7BFF, 0x4780, 0x477FE000, 0x0000FFEF, 0x0000FFEF),
    (0x7F7FFFFF, 0x7E, 0x7B, 0x7C00, 0x7F80, 0x7F800000, 0x7FFFFFFF, 0xFFFFFFFF),
    (0x80000000, 0x80, 0x80, 0x8000, 0x8000, 0x80000000, 0x00000000, 0x00000000),
    (0x80000001, 0x80, 0x80, 0x8000, 0x8000, 0x80000000, 0x00000000, 0x00000000),
    (0x4F000000, 0x7E, 0x7B, 0x7C00, 0x4F00, 0x4F000000, 0x7FFFFFFF, 0x80000000),
    (0xCF000000, 0xFE, 0xFB, 0xFC00, 0xCF00, 0xCF000000, 0x80000000, 0x00000000),
    (0x4F800000, 0x7E, 0x7B, 0x7C00, 0x4F80, 0x4F800000, 0x7FFFFFFF, 0xFFFFFFFF),
]
COLUMNS = ("e4m3", "e5m2", "f16", "bf16", "tf32", "i32", "u32")


@pytest.mark.parametrize("column", range(7), ids=COLUMNS)
def test_conversions_of_special_numbers(column):
    x = f32(*(row[0] for row in MEASURED))
    found = bits(numbers.convert(x, COLUMNS[column]))
    assert [hex(v) for v in found.tolist()] == [hex(row[1 + column]) for row in MEASURED]


@pytest.mark.parametrize("name", FORMATS)
def test_conversions_round_to_nearest_even(name):
    rng = np.random.default_rng(4)
    spread = np.ldexp(rng.standard_normal(3000), rng.integers(-30, 9, 3000)).astype(np.float32)
    ties = bits(numbers.convert(spread[:500], name).astype(np.float32)) | np.uint32(
        1 << 23 - FORMATS[name][0]  # the bit below the format's last one
    )
    x = np.concatenate([spread, ties.view(np.float32), np.zeros(1, np.float32)])
    x = x[np.abs(x) < (400 if name == "e4m3" else 1e4)]
    found = numbers.convert(x, name)
    assert [Fraction(float(v)) for v in found] == [nearest_even(v, name) for v in x]
    assert np.array_equal(np.signbit(found.astype(np.float32)), np.signbit(x))


@pytest.mark.parametrize(("name", "expected"), [("e4m3", 0x5F1B19EC), ("e5m2", 0xBCD08540)])
def test_every_f16_as_an_8_bit_float(name, expected):
    # the CRC-32 of what cvt.rn.satfinite.*x2.f16x2 gave on an H200 for 0x0000 to 0xFFFF
    assert crc(numbers.convert(np.arange(65536).astype(np.uint16).view(F16), name)) == expected


@pytest.mark.parametrize(
    ("source", "target", "expected"),
    [
        (E4M3, "f16", 0xF0D24278),
        (E5M2, "f16", 0xEDD7848A),
        (F16, "f32", 0x3FCCF55E),
        (BF16, "f32", 0x093B1249),
    ],
)
def test_every_narrow_float_widened(source, target, expected):
    # the CRC-32 of an H200's cvt of each bit pattern, NaNs included
    every = np.arange(1 << 8 * source.itemsize).astype(f"u{source.itemsize}").view(source)
    assert crc(numbers.convert(every, target)) == expected


def test_f64_becomes_bf16_in_one_rounding():
    just_above_tie = 1 + 2.0**-8 + 2.0**-40  # f32 loses the last bit, and then it is a tie
    x = np.array([just_above_tie, -just_above_tie, 1 + 2.0**-8, 1e300, np.nan, -np.inf, 0.0, -0.0])
    found = bits(numbers.convert(x, "bf16")).tolist()
    assert found == [0x3F81, 0xBF81, 0x3F80, 0x7F80, 0x7FFF, 0xFF80, 0, 0x8000]
    integers = np.array([(1 << 30) + (1 << 22) + 1, (1 << 30) + (1 << 22), -3], np.int32)
    assert bits(numbers.convert(integers, "bf16")).tolist() == [0x4E81, 0x4E80, 0xC040]


def test_integers():
    x = np.array([2.9, -2.9, 300, -300, np.nan, 1e30], np.float32)
    assert numbers.convert(x, "i8").tolist() == [2, -2, 127, -128, 0, 127]
    assert numbers.convert(x, "u8").tolist() == [2, 0, 255, 0, 0, 255]
    assert numbers.convert(x, "i64").tolist()[-1] == 2**63 - 1
    assert numbers.convert(np.array([2.0**63, -(2.0**63), 2.0**62]), "i64").tolist() == [
        2**63 - 1,
        -(2**63),
        2**62,
    ]
    assert numbers.convert(np.array([2.0**64, 2.0**63]), "u64").tolist() == [2**64 - 1, 2**63]
    assert numbers.convert(np.array([300, -1], np.int32), "u8").tolist() == [44, 255]
    assert numbers.convert(np.array([0.0, -0.0, np.nan, 0.1]), "i1").tolist() == [False, False, True, True]
    assert numbers.convert(np.array([70000, -5], np.int32), "f16").tolist() == [np.inf, -5]


def test_scalars_and_shapes():
    assert numbers.convert(np.float32(np.nan), "f16").view(np.uint16) == 0x7FFF
    assert numbers.convert(np.float32(1e9), "e4m3") == 448
    assert numbers.convert(np.zeros((2, 3, 4), np.float32), "e5m2").shape == (2, 3, 4)


def test_the_source_of_a_conversion_stays_as_it_is():
    x = np.array([np.nan, 1], F16)
    before = bits(x).tolist()
    for target in ("f16", "f32", "bf16", "e4m3"):
        numbers.convert(x, target)
    assert bits(x).tolist() == before


# --- tf32 ----------------------------------------------------------------------------------------

# (f32, what TMA stores for a tensor map of tf32), measured on an H200
MEASURED_TF32 = [
    (0x3F801000, 0x3F800000),
    (0x3F803000, 0x3F804000),
    (0x3F801001, 0x3F802000),
    (0x3F800FFF, 0x3F800000),
    (0xBF803000, 0xBF804000),
    (0x7F800000, 0x7F800000),
    (0xFF800000, 0xFF800000),
    (0x7F800001, 0x7FFFE000),
    (0x7FFFFFFF, 0x7FFFE000),
    (0xFFC00001, 0x7FFFE000),
    (0x00001000, 0x00000000),
    (0x00001001, 0x00002000),
    (0x7F7FFFFF, 0x7F800000),
    (0x80001001, 0x80002000),
    (0x007FFFFF, 0x00800000),
    (0x40490FDB, 0x40490000),
]


def test_the_three_roundings_of_tf32():
    x, expected = (f32(*column) for column in zip(*MEASURED_TF32, strict=True))
    assert bits(numbers.round_tf32_even(x)).tolist() == bits(expected).tolist()
    tie = f32(0x3F801000, 0xBF803000, 0x3F801FFF)
    assert bits(numbers.round_tf32_even(tie)).tolist() == [0x3F800000, 0xBF804000, 0x3F802000]
    assert bits(numbers.round_tf32(tie)).tolist() == [0x3F802000, 0xBF804000, 0x3F802000]
    assert bits(numbers.truncate_tf32(tie)).tolist() == [0x3F800000, 0xBF802000, 0x3F800000]


# --- reductions ----------------------------------------------------------------------------------

SPECIAL = {
    "f16": "3C00 0001 8001 0400 7C00 7E00 FC00 8000 0000 3C01 7BFF 1000 1001 7C01 BC00 0200",
    "bf16": "3F80 0001 8001 0080 7F80 7FC0 FF80 8000 0000 3F81 7F7F 3B80 3B81 7F81 BF80 0040",
    "f32": "3F800000 00000001 80000001 00800000 7F800000 7FC00000 FF800000 80000000 "
    "00000000 3F800001 7F7FFFFF 33800000 33800001 7F800001 BF800000 00400000",
    "i32": "0 1 2 3 FFFFFFFF FFFFFFFE 80000000 7FFFFFFF 5 7 64 C8 55 AA A 9",
    "i64": "0 1 2 3 FFFFFFFFFFFFFFFF FFFFFFFFFFFFFFFE 8000000000000000 7FFFFFFFFFFFFFFF 5 7 64 C8 55 AA A 9",
}
# the CRC-32 of each combined with each by cp.reduce.async.bulk.tensor on an H200
MEASURED_REDUCTIONS = {
    ("bf16", "add"): 0x3163B47F,
    ("bf16", "max"): 0x82A02D40,
    ("bf16", "min"): 0xBE34DF9F,
    ("f16", "add"): 0x8892360D,
    ("f16", "max"): 0x99985A44,
    ("f16", "min"): 0xCBA779E3,
    ("f32", "add"): 0x5CDD16F1,
    ("i32", "add"): 0xC28BB407,
    ("i32", "and"): 0xDD0533C7,
    ("i32", "max"): 0x03FB6844,
    ("i32", "min"): 0x067164DE,
    ("i32", "or"): 0xD88F3F5D,
    ("i32", "xor"): 0xEA3FA3B4,
    ("i64", "max"): 0x58AB43C7,
    ("i64", "min"): 0x401027CD,
}


@pytest.mark.parametrize(("name", "kind"), MEASURED_REDUCTIONS)
def test_reductions_have_an_h200s_bits(name, kind):
    dtype = numbers.dtype(name).numpy
    words = np.array([int(word, 16) for word in SPECIAL[name].split()], f"u{dtype.itemsize}").view(dtype)
    found = numbers.reduction(kind, np.repeat(words, 16), np.tile(words, 16))
    assert crc(found) == MEASURED_REDUCTIONS[name, kind]


# --- a tensor core's sum -------------------------------------------------------------------------


def total(a, b, acc, fraction=25):
    rows = (np.array([x], np.float64) for x in (a, b))
    return numbers.dot_accumulate(*rows, np.array([[acc]], np.float64), fraction, (-14, -14, -126))[0, 0]


def test_addends_are_cut_off_below_the_largest():
    assert total([2.0**-25], [1], 1.0) == 1 + 2.0**-25
    assert total([2.0**-26], [1], 1.0) == 1
    assert total([-(2.0**-26)], [1], 1.0) == 1  # toward zero, each addend
    assert total([2.0**-26] * 4, [1] * 4, 1.0) == 1  # before they are added
    assert total([1.0], [2.0**-10], 2.0**-40) == 2.0**-10
    assert total([2.0**-13], [1], 1.0, fraction=13) == 1 + 2.0**-13
    assert total([2.0**-14], [1], 1.0, fraction=13) == 1


def test_exponents_are_those_of_the_formats():
    # 1.5 * 1.5 = 2.25 counts with exponent 0, not 1; a subnormal number with the least exponent
    assert total([1.5], [1.5], 2.0**-25) == 2.25 + 2.0**-25
    assert total([2.0**-24], [1.0], 2.0**-39) == 2.0**-24 + 2.0**-39
    assert total([2.0**-24], [1.0], 2.0**-40) == 2.0**-24
    assert total([0.0], [2.0**15], 2.0**-40) == 2.0**-40  # a zero does not count


def test_truncation_to_f32():
    x = np.array(
        [
            1 + 2.0**-23 + 2.0**-24,
            -1 - 2.0**-24,
            2.0**-149 * 1.75,
            2.0**-150,
            2.0**128 - 2.0**100,
            2.0**128,
            np.nan,
        ]
    )
    found = numbers.truncate(x, 23)
    assert bits(found).tolist() == [0x3F800001, 0xBF800000, 1, 0, 0x7F7FFFFF, 0x7F800000, 0x7FFFFFFF]
    assert numbers.truncate(np.array([1 + 2.0**-13 + 2.0**-14]), 13) == np.float32(1 + 2.0**-13)
