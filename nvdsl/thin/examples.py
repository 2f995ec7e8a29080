"""What programs in the style of LLVM's examples take from ``tools.nvdsl``, beside the thin layer itself."""

from __future__ import annotations

import ctypes
import types
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from nvdsl.call.specialize import argument_type
from nvdsl.errors import trace_error
from nvdsl.mlir import ir
from nvdsl.mlir import runtime as rt
from nvdsl.mlir.dialects import gpu as provided
from nvdsl.thin.host_function import describe


def get_mlir_ty(arg: Any) -> ir.Type:
    """The type that an argument of `NVDSL.mlir_func` is traced with: i1, index or f32 for bool, int and float, a memref
    for an array. Needs a current ``ir.Context``. Raises ArgumentError for another argument."""
    with ir.Location.unknown():
        return argument_type(describe(arg, 0)[0])


def get_mlir_func_obj_ty(inputArgs: Iterable[Any]) -> list[Any]:
    """Arguments as ``ExecutionEngine.invoke`` takes them: pointers to C's bool, int and float, and to memref
    descriptors of NumPy arrays. nvdsl's own calls don't need them. Raises TraceError for another argument."""
    found: list[Any] = []
    for arg in inputArgs:
        if isinstance(arg, np.ndarray):
            found.append(ctypes.pointer(ctypes.pointer(rt.get_ranked_memref_descriptor(arg))))
            continue
        kinds: dict[type, Any] = {bool: ctypes.c_bool, int: ctypes.c_int, float: ctypes.c_float}
        if type(arg) not in kinds:
            raise trace_error(
                f"get_mlir_func_obj_ty of a {type(arg).__name__}",
                rule="MLIR's execution engine takes bool, int, float and NumPy arrays",
                fix="convert it first",
            )
        found.append((kinds[type(arg)] * 1)(arg))
    return found


class _Gpu(types.ModuleType):
    """The gpu dialect, with the builders' arguments as older versions of the examples write them, too."""

    def __getattr__(self, name: str) -> Any:
        return getattr(provided, name)

    @staticmethod
    def wait(*args: Any, **kwargs: Any) -> Any:
        """``gpu.wait(tokens)``; or ``gpu.wait(token_type, tokens)``, which waits on the host where the type is None."""
        if len(args) == 2:
            op = provided.WaitOp(*args, **kwargs)
            return op.result if args[0] is not None else op
        return provided.wait(*args, **kwargs)

    @staticmethod
    def printf(format: str, *args: Any, **kwargs: Any) -> Any:
        """``gpu.printf(format, x, y)``; or ``gpu.printf(format, [x, y])``."""
        listed = len(args) == 1 and isinstance(args[0], Sequence)
        return provided.printf(format, *(args[0] if listed else args), **kwargs)


gpu = _Gpu("nvdsl.thin.gpu", _Gpu.__doc__)
