"""gpu.all_reduce and gpu.subgroup_reduce in loaded text, beside NumPy."""

import functools
import operator

import ml_dtypes
import numpy as np
import pytest

from nvdsl import thin
from nvdsl.errors import SimError, TraceError, VerifyError

TYPES = {
    "f32": np.float32, "f64": np.float64, "f16": np.float16, "bf16": ml_dtypes.bfloat16, "i8": np.int8, "i16": np.int16,
    "i32": np.int32, "i64": np.int64,
}  # fmt: skip
FOLDS = {
    "add": operator.add, "mul": operator.mul, "minsi": min, "maxsi": max, "minnumf": min, "maxnumf": max,
    "minimumf": min, "maximumf": max, "and": operator.and_, "or": operator.or_, "xor": operator.xor,
    "minui": lambda a, b: min(a, b, key=lambda x: int(x) % 256), "maxui": None,
}  # fmt: skip


def loaded(reduce: str, type: str, threads: int):
    return thin.load(f"""
gpu.module @m {{
  gpu.func @k(%x: memref<{threads}x{type}>, %o: memref<{threads}x{type}>) kernel {{
    %i = gpu.thread_id x
    %j = gpu.thread_id y
    %n = gpu.block_dim x
    %row = arith.muli %j, %n : index
    %t = arith.addi %i, %row : index
    %v = memref.load %x[%t] : memref<{threads}x{type}>
    {reduce}
    memref.store %s, %o[%t] : memref<{threads}x{type}>
    gpu.return
  }}
}}
""", name="reduce.mlir")["k"]  # fmt: skip


def given(type: str, threads: int):
    whole = np.random.default_rng(threads).integers(-2, 3, threads)
    return (whole + (whole == 0)).astype(TYPES[type])


def of(operation: str, type: str, values):
    fold = FOLDS[operation]
    with np.errstate(over="ignore"):
        return functools.reduce(lambda a, b: TYPES[type](fold(a, b)), values)


CASES = [
    *[("add", type) for type in TYPES], ("mul", "f32"), ("mul", "i32"), ("minsi", "i16"), ("maxsi", "i64"),
    ("minnumf", "f32"), ("maxnumf", "f16"), ("minimumf", "bf16"), ("maximumf", "f64"), ("and", "i8"), ("or", "i32"),
    ("xor", "i64"), ("minui", "i8"),
]  # fmt: skip


@pytest.mark.parametrize(("operation", "type"), CASES)
def test_of_a_block(operation, type):
    """Of whole and of parts of warps, of blocks of one and of two axes."""
    for block in (1, 31, 64, (10, 7)):
        threads = int(np.prod(block))
        x = given(type, threads)
        y = np.zeros_like(x)
        loaded(f"%s = gpu.all_reduce {operation} %v uniform {{}} : ({type}) -> ({type})", type, threads)(
            x, y, grid=1, block=block, target="sim"
        )
        np.testing.assert_array_equal(y, np.full_like(y, of(operation, type, x)))


@pytest.mark.parametrize(("operation", "type"), CASES)
def test_of_a_warp(operation, type):
    x = given(type, 64)
    y = np.zeros_like(x)
    loaded(f"%s = gpu.subgroup_reduce {operation} %v : ({type}) -> {type}", type, 64)(
        x, y, grid=1, block=64, target="sim"
    )
    for warp in (slice(0, 32), slice(32, 64)):
        np.testing.assert_array_equal(y[warp], np.full_like(y[warp], of(operation, type, x[warp])))


def test_of_a_part_of_a_warp():
    """Four lanes at distances of two."""
    x = given("i32", 32)
    y = np.zeros_like(x)
    loaded("%s = gpu.subgroup_reduce add %v cluster(size = 4, stride = 2) : (i32) -> i32", "i32", 32)(
        x, y, grid=1, block=32, target="sim"
    )
    lanes = [[lane & ~6 | 2 * part for part in range(4)] for lane in range(32)]
    np.testing.assert_array_equal(y, x[lanes].sum(1))


def test_by_a_region_and_twice(monkeypatch):
    """The second time begins when nobody reads the memory any more, under any schedule."""
    text = """
    %a = gpu.all_reduce %v {
    ^bb(%p : f32, %q : f32):
      %abs = math.absf %q : f32
      %r = arith.maximumf %p, %abs : f32
      gpu.yield %r : f32
    } : (f32) -> (f32)
    %b = gpu.all_reduce add %v {} : (f32) -> (f32)
    %s = arith.addf %a, %b : f32"""
    x = given("f32", 96)
    x[50] = -9
    for seed in range(4):
        y = np.zeros_like(x)
        monkeypatch.setenv("NVDSL_SIM_ORDER", "random")
        monkeypatch.setenv("NVDSL_SIM_SEED", str(seed))
        loaded(text, "f32", 96)(x, y, grid=1, block=96, target="sim")
        np.testing.assert_array_equal(y, np.full_like(y, 9 + x.sum()), err_msg=str(seed))


def test_in_a_branch_it_is_reported_at_its_line():
    text = """
    %half = arith.constant 40 : index
    %few = arith.cmpi ult, %t, %half : index
    %s = scf.if %few -> (f32) {
      %a = gpu.all_reduce add %v {} : (f32) -> (f32)
      scf.yield %a : f32
    } else {
      scf.yield %v : f32
    }"""
    x = given("f32", 64)
    with pytest.raises((VerifyError, SimError)) as caught:
        loaded(text, "f32", 64)(x, x.copy(), grid=1, block=64, target="sim")
    assert str(caught.value.where) == "reduce.mlir:14"


def test_what_is_not_lowered_is_refused_at_its_line():
    with pytest.raises(TraceError, match="all_reduce of i4") as caught:
        loaded("%w = arith.trunci %v : i8 to i4\n    %q = gpu.all_reduce add %w {} : (i4) -> (i4)\n"
               "    %s = arith.extui %q : i4 to i8", "i8", 32)  # fmt: skip
    assert str(caught.value.where) == "reduce.mlir:11"
