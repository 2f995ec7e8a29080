"""Names and forms of LLVM's examples beside the thin layer itself."""

import ctypes

import numpy as np
import pytest

from nvdsl import thin
from nvdsl.errors import ArgumentError, TraceError
from nvdsl.ir.walk import find
from nvdsl.mlir import ir
from nvdsl.mlir.dialects import gpu


def test_a_star_import_gives_what_the_examples_lean_on():
    names = {}
    exec("from nvdsl.thin import *", names)
    expected = ("rt", "sys", "ctypes", "os", "errno", "functools", "np", "get_mlir_ty", "get_mlir_func_obj_ty")
    assert set(expected) <= set(names)
    assert names["rt"].get_ranked_memref_descriptor(np.zeros((2, 3))).shape[1] == 3


@pytest.mark.parametrize(
    ("argument", "type"),
    [(True, "i1"), (3, "index"), (2.0, "f32"), (np.zeros((4, 8), np.float16), "memref<4x8xf16>")],
    ids=["bool", "int", "float", "array"],
)
def test_get_mlir_ty(argument, type):
    with ir.Context():
        assert str(thin.get_mlir_ty(argument)) == type


def test_get_mlir_ty_of_another_object():
    with ir.Context(), pytest.raises(ArgumentError, match="is a str"):
        thin.get_mlir_ty("text")


def test_get_mlir_func_obj_ty():
    array = np.arange(6, dtype=np.float32).reshape(2, 3)
    flag, number, factor, memref = thin.get_mlir_func_obj_ty([True, 7, 0.5, array])
    assert (flag[0], number[0], factor[0]) == (True, 7, 0.5)
    assert (flag._type_, number._type_, factor._type_) == (ctypes.c_bool, ctypes.c_int, ctypes.c_float)
    assert list(memref.contents.contents.shape) == [2, 3]
    with pytest.raises(TraceError, match="of a str"):
        thin.get_mlir_func_obj_ty(["text"])


def test_waits_of_older_examples():
    @thin.NVDSL.mlir_func
    def main(n):
        token = thin.gpu.wait(gpu.AsyncTokenType.get(), [])
        newer = thin.gpu.wait([token])
        thin.gpu.wait(None, [newer])

    waits = find(main.trace(1), "gpu.wait")
    assert [len(op.results) for op in waits] == [1, 1, 0] and [len(op.operands) for op in waits] == [0, 1, 1]
    main(1, target="sim")


def test_printf_of_older_examples(capfd):
    @thin.NVDSL.mlir_func
    def main(n):
        @thin.NVDSL.mlir_gpu_launch(grid=(1, 1, 1), block=(1, 1, 1))
        def kernel():
            thread = thin.gpu.thread_id(thin.gpu.Dimension.x)
            thin.gpu.printf("%llu and %llu\n", [thread, thread + n])
            thin.gpu.printf("%llu, %llu\n", thread, thread + n)
            thin.gpu.printf("nothing\n")

        kernel()

    main(5, target="sim")
    assert capfd.readouterr().out == "0 and 5\n0, 5\nnothing\n"


def test_operators_are_signed():
    @thin.NVDSL.mlir_func
    def main(out):
        @thin.NVDSL.mlir_gpu_launch(grid=(1, 1, 1), block=(1, 1, 1))
        def kernel():
            before = thin.gpu.thread_id(thin.gpu.Dimension.x) - 1
            results = [before // 2, before / 2, before % 4, before < 3]
            for i, value in enumerate(results):
                number = value if str(value.type) == "index" else thin.arith.index_castui(thin.T.index(), value)
                thin.memref.store(thin.arith.index_cast(thin.T.i32(), number), out, [thin.const(i)])

        kernel()

    found = np.zeros(4, np.int32)
    main(found, target="sim")
    assert found.tolist() == [-1, -1, 3, 1]
