"""For tests of traced values: what a trace computes, which ops it has, which PTX it becomes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from types import SimpleNamespace
from typing import Any

import ml_dtypes  # noqa: F401  (NumPy learns bfloat16 and float8)
import numpy as np

from nvdsl.lower import kernels, legalize
from nvdsl.mlir import ir, passmanager
from nvdsl.mlir.dialects import func, gpu
from nvdsl.values import dtypes
from nvdsl.values.dtypes import DType
from nvdsl.values.traced import Value, bitcast, cast


@cache
def _context() -> Any:
    """One for all tests: a new one takes 30 ms."""
    return ir.Context()


@contextmanager
def tracing(*arguments: DType, vector: int | None = None) -> Iterator[Any]:
    """The arguments of a function that is being traced; ``.module`` is its module."""
    with _context(), ir.Location.unknown():
        types = [t.ir if vector is None else ir.VectorType.get([vector], t.ir) for t in arguments]
        module = ir.Module.create()
        with ir.InsertionPoint(module.body):
            function = func.FuncOp("f", (types, []))
        block = function.add_entry_block()
        with ir.InsertionPoint(block):
            values = [t(x) if t.is_unsigned else x for t, x in zip(arguments, block.arguments, strict=True)]
            yield Trace(module, values)
            func.ReturnOp([])
        module.operation.verify()


class Trace(list):
    def __init__(self, module: Any, arguments: list[Any]) -> None:
        super().__init__(arguments)
        self.module = module

    @property
    def ops(self) -> list[str]:
        """The names of the ops traced so far, without the prefix of arith."""
        (function,) = self.module.body.operations
        return [op.operation.name.removeprefix("arith.") for op in function.regions[0].blocks[0].operations]


@contextmanager
def one_of_each() -> Iterator[Any]:
    """A function that is being traced, with an argument of every type, by the type's name."""
    with tracing(*dtypes.ALL) as trace:
        yield SimpleNamespace(**{t.name: x for t, x in zip(dtypes.ALL, trace, strict=True)})


def evaluate(build: Callable[[], list[Any]]) -> list[Any]:
    """The numbers that the traced values returned by ``build`` come to: MLIR itself folds the constants.

    Each is a NumPy scalar or array of the value's dtype. Python numbers pass through.
    """
    with _context(), ir.Location.unknown():
        module = ir.Module.create()
        with ir.InsertionPoint(module.body):
            function = func.FuncOp("f", ([], []))
        with ir.InsertionPoint(function.add_entry_block()):
            results = build()
            traced = [x for x in results if isinstance(x, Value)]
            kinds = [(x.dtype, x.shape) for x in traced]
            func.ReturnOp(traced)
        function.attributes["function_type"] = ir.TypeAttr.get(ir.FunctionType.get([], [x.type for x in traced]))
        module.operation.verify()
        passmanager.PassManager.parse("builtin.module(canonicalize)").run(module.operation)
        (block,) = function.regions[0]
        returned = list(block.operations)[-1].operands
        numbers = iter([_read(x, *kind) for x, kind in zip(returned, kinds, strict=True)])
        return [next(numbers) if isinstance(x, Value) else x for x in results]


def _read(x: Any, t: DType, shape: tuple[int, ...]) -> Any:
    op = x.owner
    assert op.name == "arith.constant", f"not folded: {op}"
    attribute = op.attributes["value"]
    if shape:
        splat = ir.DenseElementsAttr(attribute).get_splat_value()  # tests use vectors of equal elements
        return np.full(shape, _number(splat.value, t), t.numpy)
    return _number(attribute.value, t)


def _number(n: Any, t: DType) -> Any:
    if t.is_float:
        return t.numpy.type(n)
    return t.numpy.type(n % (1 << t.bits) if not t.signed else n)


def ptx(build: Callable[..., list[Any]], *arguments: DType, vector: int | None = None) -> str:
    """The PTX of a kernel that stores what ``build`` returns for ``arguments``, for sm_90a."""
    with _context(), ir.Location.unknown():
        types = [str(t.ir) if vector is None else f"vector<{vector}x{t.ir}>" for t in arguments]
        formals = "".join(f", %a{i}: {type}" for i, type in enumerate(types))
        module = ir.Module.parse(
            'gpu.module @m [#nvvm.target<chip = "sm_90a", features = "+ptx80", O = 3>] {'
            f"gpu.func @k(%out: !llvm.ptr{formals}) kernel {{ gpu.return }} }}"
        )
        kernel = module.body.operations[0].regions[0].blocks[0].operations[0]
        block = kernel.regions[0].blocks[0]
        with ir.InsertionPoint.at_block_begin(block):
            out, *values = block.arguments
            values = [t(x) if t.is_unsigned else x for t, x in zip(arguments, values, strict=True)]
            for result in build(*values):
                stored = cast(result, dtypes.i64) if result.dtype is dtypes.index else result
                stored = bitcast(stored, dtypes.i8) if stored.dtype.bits == 8 else stored
                ir.Operation.create("llvm.store", operands=[stored, out], attributes={"volatile_": ir.UnitAttr.get()})
        legalize.instructions(module, kernels.read(module), None)
        passmanager.PassManager.parse(f"builtin.module({_PASSES})").run(module.operation)
        objects = ir.ArrayAttr(module.body.operations[0].attributes["objects"])
        return gpu.ObjectAttr(objects[0]).object.decode()


_PASSES = (
    "convert-arith-to-llvm,convert-index-to-llvm,canonicalize,cse,"
    "gpu.module(convert-gpu-to-nvvm,canonicalize,cse,reconcile-unrealized-casts),gpu-module-to-binary{format=isa}"
)
