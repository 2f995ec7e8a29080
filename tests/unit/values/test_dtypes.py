"""nvdsl/values/dtypes.py: the table of element types, and where two of them meet."""

import copy
import pickle

import ml_dtypes
import numpy as np
import pytest

from nvdsl.errors import TraceError
from nvdsl.mlir import ir
from nvdsl.values import dtypes as nv

TABLE = [  # type, bits, bytes, signed, NumPy, MLIR
    (nv.f64, 64, 8, True, "float64", "f64"),
    (nv.f32, 32, 4, True, "float32", "f32"),
    (nv.tf32, 32, 4, True, "float32", "tf32"),
    (nv.f16, 16, 2, True, "float16", "f16"),
    (nv.bf16, 16, 2, True, "bfloat16", "bf16"),
    (nv.e4m3, 8, 1, True, "float8_e4m3fn", "f8E4M3FN"),
    (nv.e5m2, 8, 1, True, "float8_e5m2", "f8E5M2"),
    (nv.i64, 64, 8, True, "int64", "i64"),
    (nv.i32, 32, 4, True, "int32", "i32"),
    (nv.i16, 16, 2, True, "int16", "i16"),
    (nv.i8, 8, 1, True, "int8", "i8"),
    (nv.u64, 64, 8, False, "uint64", "i64"),
    (nv.u32, 32, 4, False, "uint32", "i32"),
    (nv.u16, 16, 2, False, "uint16", "i16"),
    (nv.u8, 8, 1, False, "uint8", "i8"),
    (nv.bool_, 1, 1, False, "bool", "i1"),
    (nv.index, 64, 8, True, "int64", "index"),
]


def test_the_table_is_complete() -> None:
    assert [row[0] for row in TABLE] == list(nv.ALL)


@pytest.mark.parametrize("row", TABLE, ids=lambda row: row[0].name)
def test_table(row) -> None:
    t, bits, size, signed, numpy, mlir = row
    assert (t.bits, t.bytes, t.signed) == (bits, size, signed)
    assert t.numpy == np.dtype(numpy) and t.numpy.itemsize == size
    assert t.is_float is (t.name[0] in "fbte" and t is not nv.bool_)
    assert t.is_unsigned is (t.name[0] == "u")
    assert nv.by_name(t.name) is t and repr(t) == f"nv.{t.name}"
    with ir.Context():
        assert str(t.ir) == mlir


def test_numpys_types_are_equal() -> None:
    for t, *_, numpy, _ in (row for row in TABLE if row[0] not in (nv.tf32, nv.index)):
        dtype = np.dtype(numpy)
        assert t == dtype and dtype == t and t == dtype.type and not t != dtype
        assert [other for other in nv.ALL if other == dtype] == [t]
    assert nv.f32 != np.complex64 and nv.tf32 != np.float32 and nv.f32 is not None and nv.f32 != 3


def test_what_is_no_type_is_not_compared() -> None:
    """Python would say that it differs, and a branch on a type would go the other way."""
    for other in ("f32", "float32", float, int):
        with pytest.raises(TraceError, match="NumPy dtype"):
            nv.f32 == other  # noqa: B015


@pytest.mark.parametrize("t", [t for t in nv.ALL if t not in (nv.tf32, nv.bool_)], ids=repr)
def test_limits(t) -> None:
    info = ml_dtypes.finfo(t.numpy) if t.is_float else np.iinfo(t.numpy)
    assert (t.min, t.max) == (info.min, info.max)


def test_limits_of_tf32_and_bool() -> None:
    # 8 bits of exponent as f32, 10 of mantissa: the largest f32 without its low 13 bits
    assert nv.tf32.max == float((np.float32(nv.f32.max).view(np.uint32) & 0xFFFFE000).view(np.float32))
    assert (nv.tf32.min, nv.bool_.min, nv.bool_.max) == (-nv.tf32.max, 0, 1)


@pytest.mark.parametrize("t", nv.ALL, ids=repr)
def test_one_object_per_type(t) -> None:
    assert copy.deepcopy(t) is t
    assert pickle.loads(pickle.dumps(t)) is t
    assert {t: 1}[t] == 1


def test_frozen() -> None:
    with pytest.raises(AttributeError):
        nv.f32.bits = 64  # type: ignore[misc]


def test_from_ir() -> None:
    with ir.Context():
        for t in nv.ALL:
            signed = nv.by_name("i" + t.name[1:]) if t.is_unsigned else t  # MLIR's integers are signless
            assert nv.from_ir(t.ir) is signed
        for text in ("i128", "i4", "vector<4xf32>", "memref<4xf32>", "none", "f8E8M0FNU"):
            with pytest.raises(TypeError, match="no nvdsl element type"):
                nv.from_ir(ir.Type.parse(text))


def test_from_numpy() -> None:
    for t in nv.ALL:
        expected = {nv.tf32: nv.f32, nv.index: nv.i64}.get(t, t)
        assert nv.from_numpy(t.numpy) is expected
        assert nv.from_numpy(t.numpy.type) is expected
    assert nv.from_numpy("float16") is nv.f16
    for other in ("complex64", ">f4", "O", "U3", ml_dtypes.float8_e4m3b11fnuz):
        with pytest.raises(TypeError, match="no nvdsl element type"):
            nv.from_numpy(other)


def test_of() -> None:
    assert nv.of(nv.e5m2) is nv.e5m2
    assert (nv.of(True), nv.of(1), nv.of(1.0)) == (nv.bool_, nv.i32, nv.f32)
    assert nv.of(np.zeros(3, ml_dtypes.bfloat16)) is nv.bf16
    assert nv.of(np.uint8(3)) is nv.u8
    with ir.Context():
        assert nv.of(nv.f16.ir) is nv.f16
    with pytest.raises(TypeError, match="no element type"):
        nv.of("f32")


MEET = [
    ("f64 f32", "f64"),
    ("f32 f16", "f32"),
    ("f32 bf16", "f32"),
    ("f16 bf16", "f32"),
    ("i64 f16", "f16"),
    ("u8 bf16", "bf16"),
    ("index f32", "f32"),
    ("bool_ f16", "f16"),
    ("index i64", "index"),
    ("index u64", "index"),
    ("bool_ index", "index"),
    ("i8 i32", "i32"),
    ("u8 i32", "i32"),
    ("u32 i64", "i64"),
    ("i32 u64", "u64"),
    ("i32 u32", "u32"),
    ("i8 u8", "u8"),
    ("bool_ u8", "u8"),
    ("bool_ i8", "i8"),
    ("bool_ bool_", "bool_"),
    ("tf32 f32", None),
    ("e4m3 e5m2", None),
    ("e4m3 f16", None),
    ("i32 e5m2", None),
    ("e4m3 e4m3", "e4m3"),
]


@pytest.mark.parametrize(("pair", "expected"), MEET)
def test_common(pair: str, expected: str | None) -> None:
    a, b = (nv.by_name(name) for name in pair.split())
    found = nv.common(a, b)
    assert (found and found.name) == expected


def test_common_is_symmetric_and_never_narrows() -> None:
    for a in nv.ALL:
        for b in nv.ALL:
            t = nv.common(a, b)
            assert t is nv.common(b, a)
            if t is not None and a.kind == b.kind:
                assert t.bits >= max(a.bits, b.bits)
