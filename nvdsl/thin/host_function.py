"""A call of a host function of the thin layer: simulated, or compiled and launched."""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from nvdsl import sim
from nvdsl.call import collect
from nvdsl.call.compiled import Compiled
from nvdsl.call.device import synchronize
from nvdsl.call.specialize import ScalarSpec, ShapeDtype, describe_argument
from nvdsl.driver import arrays
from nvdsl.driver.array_spec import ArraySpec
from nvdsl.driver.stream import Stream
from nvdsl.errors import ArgumentError, frames
from nvdsl.errors.tracebacks import at_call
from nvdsl.mlir import ir
from nvdsl.trace import effects
from nvdsl.values import dtypes


class HostFunction:
    """What `ThinFunction`, `LoadedFunction` and `LoadedKernel` have in common: each makes an ``ir.Module`` for the
    arguments of a call (`_module`), whose first op is the host function. A call waits for its kernels."""

    __name__: str

    def __init__(self, name: str) -> None:
        self.__name__ = name
        self._cache: dict[Any, Compiled] = {}

    def _module(self, specs: list[Any], **kwargs: Any) -> ir.Module:
        """The verified module for arguments with ``specs``."""
        raise NotImplementedError

    @at_call
    def __call__(self, *args: Any, stream: Stream | None = None, target: str | None = None, **kwargs: Any) -> None:
        if os.environ.get("MLIR_NVDSL_PRINT_IR") == "1":
            print(self.trace(*args, **kwargs))
            return
        if collect.active():
            self.compile(*args, **kwargs)
            return
        described = [describe(a, i) for i, a in enumerate(args)]
        values, specs = [value for _, value in described], [spec for spec, _ in described]
        if sim.wanted(target):
            module = self._module(specs, **kwargs)
            written = effects.written_arguments(module.body.operations[0])
            sim.run(module, self.__name__, values, specs, written=written)
            return
        self.compile(*args, **kwargs).executable()(values, specs, stream)
        synchronize()  # a gpu.launch without a token is synchronous

    @at_call
    def trace(self, *args: Any, **kwargs: Any) -> ir.Module:
        """Only trace and verify; returns the ``ir.Module``."""
        return self._module([describe(a, i)[0] for i, a in enumerate(args)], **kwargs)

    @at_call
    def compile(self, *args: Any, **kwargs: Any) -> Compiled:
        """Trace, verify and lower, without a GPU."""
        from nvdsl.lower import compiler
        from nvdsl.lower.options import Options

        # The body may read globals of the user's module (tile sizes, say), so a key of arguments alone
        # can't tell that two calls agree: the traced text is the key.
        module = self.trace(*args, **kwargs)
        key = str(module)
        if key not in self._cache:
            lowered = compiler.lower(module, Options.from_environment())
            written = effects.written_arguments(module.body.operations[0])
            self._cache[key] = Compiled(self.__name__, lambda: module, lowered, written, seconds=dict(lowered.stages))
            collect.add(self._cache[key])
        return self._cache[key]


def describe(argument: Any, position: int) -> tuple[Any, Any]:
    """(value, or memory of an array; what it is specialized by) of a call's argument. Raises ArgumentError.

    An int is an index and a float an f32, also as a NumPy scalar; arrays are described by shape, strides and dtype."""
    if isinstance(argument, np.generic):
        argument = argument.item()
    if isinstance(argument, bool):
        return ScalarSpec(dtypes.bool_), argument
    if isinstance(argument, int):
        return ScalarSpec(dtypes.index), argument
    if isinstance(argument, float):
        return ScalarSpec(dtypes.f32), argument
    if isinstance(argument, ShapeDtype):
        spec, _ = describe_argument(argument)
        if isinstance(spec, ArraySpec):
            return spec, None
        raise ArgumentError(
            f"argument {position} is {argument}",
            where=frames.caller(),
            rule="an array of the thin layer has one shape",
            fix="write ints, or use @nv.jit",
        )
    described = arrays.describe(argument)
    if described is not None:
        return described
    raise ArgumentError(
        f"argument {position} is a {type(argument).__name__}",
        where=frames.caller(),
        rule="positional arguments are arrays, bool, int or float; others go by keyword and stay Python values",
        fix="pass it by keyword",
    )
