"""What a host function is specialized on: the specs of its arguments, and the values that only a run knows.

Arrays by shape, strides and dtype; scalars by dtype; everything else by its value.
"""

from __future__ import annotations

import inspect
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

import nvdsl.lang.array  # noqa: F401  (registers the value class of memrefs)
from nvdsl.driver import arrays
from nvdsl.driver.array_spec import packed_strides
from nvdsl.errors import ArgumentError, frames
from nvdsl.mlir import ir
from nvdsl.trace.dependencies import Dependencies
from nvdsl.trace.tokens import PLAIN, token
from nvdsl.values import dtypes
from nvdsl.values.traced import wrap


@dataclass(frozen=True)
class ShapeDtype:
    """Stands for an array where only its shape and dtype matter: ``f.compile(nv.ShapeDtype((512, 64), nv.f16))``.

    ``shape`` and ``strides`` are in elements. The default strides are those of a C-contiguous array.
    """

    shape: tuple[int, ...]
    dtype: dtypes.DType
    strides: tuple[int, ...] | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "dtype", dtypes.element(self.dtype))
        for what, sizes, least in (("shape", self.shape, 0), ("strides", self.strides or (), float("-inf"))):
            fits = isinstance(sizes, (tuple, list)) and all(isinstance(x, (int, np.integer)) for x in sizes)
            if not fits or any(x < least for x in sizes):
                raise ArgumentError(
                    f"ShapeDtype of {what} {sizes!r}",
                    where=frames.caller(),
                    rule="a shape is a tuple of ints of 0 or more: a kernel is compiled for the shapes of its arrays",
                    fix="write ShapeDtype((rows, cols), nv.f16)",
                )


@dataclass(frozen=True)
class ScalarSpec:
    """A run-time scalar argument of a host function."""

    dtype: dtypes.DType


class Constant:
    """An argument whose value is part of the specialization: equal to another as `constants.token` says."""

    __slots__ = ("_token", "value")

    def __init__(self, value: Any) -> None:
        self.value = value
        self._token = token(value)

    def __eq__(self, other: Any) -> bool:
        return other.__class__ is Constant and other._token == self._token

    def __hash__(self) -> int:
        return hash(self._token)


_PLAIN = PLAIN | {float}


class Call:
    """The arguments of one call: what each is specialized on (``specs``), and the run-time ones' ``values``
    (a number, or where an array lies). ``state``: of what the function reads besides, see `dependencies`.
    ``changes``: a count of the function's, when the call began."""

    __slots__ = ("changes", "dependencies", "key", "keywords", "run_time", "run_time_specs", "specs", "state", "values")

    def __init__(self, described: list[tuple[Any, Any]], keywords: tuple[str, ...]) -> None:
        self.specs = [spec for spec, _ in described]
        self.keywords, self.changes = keywords, 0
        self.reads(None, 0)
        self.run_time = [i for i, spec in enumerate(self.specs) if spec.__class__ is not Constant]
        self.run_time_specs = [self.specs[i] for i in self.run_time]
        self.values = [described[i][1] for i in self.run_time]

    def reads(self, dependencies: Dependencies | None, state: int) -> None:
        """From now on the call belongs to this state."""
        self.dependencies, self.state = dependencies, state
        self.key = (state, *self.specs, self.keywords) if self.keywords else (state, *self.specs)

    @property
    def objects(self) -> list[Any]:
        """The constants that are more than a number, a string, a type."""
        found = [spec for spec in self.specs if spec.__class__ is Constant]
        return [spec.value for spec in found if spec.value.__class__ not in _PLAIN] if found else found

    def extended(self, names: tuple[str, ...], constants: list[Constant]) -> Call:
        """The same call with more keyword arguments, all compile-time constants."""
        call: Call = object.__new__(Call)
        call.specs = self.specs + constants
        call.keywords, call.changes = self.keywords + names, self.changes
        call.reads(self.dependencies, self.state)
        call.run_time, call.run_time_specs, call.values = self.run_time, self.run_time_specs, self.values
        return call

    def parameters(self, signature: inspect.Signature) -> list[str]:
        """The parameter each argument was passed for. Raises TypeError where the signature has none for one."""
        positional = len(self.specs) - len(self.keywords)
        bound = signature.bind_partial(*range(positional), **dict.fromkeys(self.keywords)).arguments
        names = {}
        for name, value in bound.items():
            for position in value if isinstance(value, tuple) else (value,):
                if isinstance(position, int):  # keywords stand for themselves
                    names[position] = name
        return [names.get(i, f"argument {i}") for i in range(positional)] + list(self.keywords)

    def run_time_names(self, signature: inspect.Signature) -> list[str]:
        """The parameter each run-time argument was passed for."""
        every = self.parameters(signature)
        return [every[i] for i in self.run_time]

    def unhashable(self, name: str) -> ArgumentError:
        constants = [s.value for s in self.specs if isinstance(s, Constant)]
        return ArgumentError(
            f"{name} was given a constant that can't be hashed, among {constants}",
            where=frames.caller(),
            rule="compile-time arguments are part of what a compilation is found by",
            fix="pass a tuple instead of a list, a frozen dataclass instead of a dict",
        )


_BOOL, _F32, _I32, _I64 = (ScalarSpec(t) for t in (dtypes.bool_, dtypes.f32, dtypes.i32, dtypes.i64))


def number(x: bool | int | float) -> tuple[ScalarSpec, Any]:
    """What a plain number is specialized on, and its run-time value. Raises ArgumentError for an int beyond 64 bits."""
    if x.__class__ is float:
        return _F32, x
    if x.__class__ is bool:
        return _BOOL, x
    if -(1 << 31) <= x < 1 << 31:
        return _I32, x
    if -(1 << 63) <= x < 1 << 63:
        return _I64, x
    raise ArgumentError(
        f"an argument is {x}",
        rule=f"an int is passed as i32, or as i64 where it doesn't fit: {-(1 << 63)} to {(1 << 63) - 1}",
        fix="np.uint64(x) passes a u64, float(x) an f32; a keyword-only parameter is a constant of any size",
    )


def describe_argument(argument: Any) -> tuple[Any, Any]:
    """(what to specialize on, run-time value) of one argument."""
    kind = argument.__class__
    if kind is bool or kind is int or kind is float:
        return number(argument)
    if kind is ShapeDtype:
        return arrays.spec_of(argument.shape, argument.dtype, argument.strides), None
    if isinstance(argument, np.generic):
        try:
            return ScalarSpec(dtypes.from_numpy(argument.dtype)), argument
        except TypeError as error:
            raise ArgumentError(f"an argument is {argument!r}: {error}", fix="convert it to one of these") from None
    described = arrays.describe(argument)
    if described is not None:
        return described
    return Constant(argument), None


def describe_arguments(
    function: str, parameters: Sequence[str], constants: Collection[str], args: Sequence[Any], kwargs: Mapping[str, Any]
) -> list[tuple[Any, Any]]:
    """`describe_argument` of all arguments; those passed by a name in ``constants`` are compile-time constants.

    Raises ArgumentError with the name of the parameter, one of ``parameters`` of ``function``."""
    described: list[tuple[Any, Any]] = []
    try:
        for argument in args:
            described.append(describe_argument(argument))
        for name, argument in kwargs.items():
            described.append((Constant(argument), None) if name in constants else describe_argument(argument))
    except ArgumentError as error:
        at, last = len(described), len(parameters) - 1
        if at >= len(args):
            name = list(kwargs)[at - len(args)]
        else:
            name = parameters[min(at, last)] if parameters else f"argument {at}"
        error.message = f"{name} of {function}: {error.message}"
        raise
    return described


def argument_type(spec: Any) -> Any:
    """The MLIR type of a specialized argument: a static memref, or a scalar."""
    if isinstance(spec, ScalarSpec):
        return spec.dtype.ir
    layout = None
    if spec.strides != packed_strides(spec.shape):
        layout = ir.StridedLayoutAttr.get(0, list(spec.strides))
    return ir.MemRefType.get(list(spec.shape), spec.dtype.ir, layout=layout)


def traced_argument(value: Any, spec: Any) -> Any:
    if isinstance(spec, ScalarSpec):
        return wrap(value, spec.dtype)
    return value.remember_dtype(spec.dtype)
