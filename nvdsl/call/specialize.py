"""What a host function is specialized on: the specs of its arguments, and the values that only a run knows.

Arrays by shape, strides and dtype; scalars by dtype; everything else by its value.
"""

from __future__ import annotations

import copy
import inspect
import reprlib
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np

import nvdsl.lang.array  # noqa: F401  (registers the value class of memrefs)
from nvdsl.call import extents
from nvdsl.call.extents import Bound, DynamicSpec, Parameters, ScalarSpec
from nvdsl.driver import arrays
from nvdsl.driver.array_spec import packed_strides
from nvdsl.errors import ArgumentError, frames
from nvdsl.errors.records import dataclass
from nvdsl.lang.extents import Axes, Extent, axis, shaped
from nvdsl.mlir import ir
from nvdsl.trace.dependencies import Dependencies
from nvdsl.trace.tokens import PLAIN, token
from nvdsl.values import dtypes
from nvdsl.values import extents as attributes
from nvdsl.values.traced import wrap


@dataclass(frozen=True)
class ShapeDtype:
    """Stands for an array where only its shape and dtype matter: ``f.compile(nv.ShapeDtype((512, 64), nv.f16))``.

    ``shape`` and ``strides`` are in elements. The default strides are those of a C-contiguous array. A name in place of
    an extent, ``nv.ShapeDtype(("m", "k % 8"), nv.f16)``, stands for every extent: see docs/dynamic.md. None in place
    of a stride then stands for every stride.
    """

    shape: tuple[int | str, ...]
    dtype: dtypes.DType
    strides: tuple[int | None, ...] | None = None

    @property
    def is_named(self) -> bool:
        """Whether it stands for arrays of many shapes."""
        return any(isinstance(extent, str) for extent in self.shape)

    def __post_init__(self) -> None:
        object.__setattr__(self, "dtype", dtypes.element(self.dtype))
        shape, strides = self.shape, self.strides or ()
        if isinstance(shape, (tuple, list)) and self.is_named:
            shape = tuple([x for x in shape if not isinstance(x, str)])
            strides = tuple([x for x in strides if x is not None])
        for what, sizes, least in (("shape", shape, 0), ("strides", strides, float("-inf"))):
            fits = isinstance(sizes, (tuple, list)) and all(isinstance(x, (int, np.integer)) for x in sizes)
            if not fits or any(x < least for x in sizes):  # type: ignore[operator]
                raise ArgumentError(
                    f"ShapeDtype of {what} {sizes!r}",
                    where=frames.caller(),
                    rule="a shape is a tuple of ints of 0 or more: a kernel is compiled for the shapes of its arrays",
                    fix="write ShapeDtype((rows, cols), nv.f16)",
                )
        for extent in self.shape:
            if isinstance(extent, str):
                axis(extent)


class Constant:
    """An argument whose value is part of the specialization: equal to another as `token` says."""

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
    """The arguments of one call: what they are (``specs``), and the run-time ones' ``values`` (a number, or where an
    array lies). ``compiled_for``: what each is specialized on, ``more``: the extents and strides that a run needs
    besides (see `extents`). ``state``: of what the function reads besides, see `dependencies`. ``changes``: a count of
    the function's, when the call began.

    ``key``: what finds the compiled kernel; ``asked``: tells this call from those of other shapes, too."""

    __slots__ = (
        "asked", "changes", "compiled_for", "dependencies", "key", "keywords", "more", "run_time", "run_time_specs",
        "specs", "state", "values",
    )  # fmt: skip

    def __init__(self, described: list[tuple[Any, Any]], keywords: tuple[str, ...], bound: Bound | None = None) -> None:
        self.specs = [spec for spec, _ in described]
        self.compiled_for, self.more = (self.specs, []) if bound is None else bound
        self.keywords, self.changes = keywords, 0
        self.reads(None, 0)
        self.run_time = [i for i, spec in enumerate(self.specs) if spec.__class__ is not Constant]
        self.run_time_specs = [self.specs[i] for i in self.run_time]
        self.values = [described[i][1] for i in self.run_time]

    def reads(self, dependencies: Dependencies | None, state: int) -> None:
        """From now on the call belongs to this state."""
        self.dependencies, self.state = dependencies, state
        self.asked = self.key = self._key(self.specs)
        if self.compiled_for is not self.specs:
            self.key = self._key(self.compiled_for)

    def _key(self, specs: list[Any]) -> tuple[Any, ...]:
        return (self.state, *specs, self.keywords) if self.keywords else (self.state, *specs)

    @property
    def traced_specs(self) -> list[Any]:
        """What the run-time arguments are specialized on."""
        return [self.compiled_for[i] for i in self.run_time]

    @property
    def objects(self) -> list[Any]:
        """The constants that are more than a number, a string, a type."""
        found = [spec for spec in self.specs if spec.__class__ is Constant]
        return [spec.value for spec in found if spec.value.__class__ not in _PLAIN] if found else found

    def extended(self, names: tuple[str, ...], constants: list[Constant]) -> Call:
        """The same call with more keyword arguments, all compile-time constants."""
        call: Call = object.__new__(Call)
        call.specs = self.specs + constants
        call.compiled_for = call.specs if self.compiled_for is self.specs else self.compiled_for + constants
        call.more = self.more
        call.keywords, call.changes = self.keywords + names, self.changes
        call.reads(self.dependencies, self.state)
        call.run_time, call.run_time_specs, call.values = self.run_time, self.run_time_specs, self.values
        return call

    def without_values(self) -> Call:
        """All that a trace needs: a call that is kept for one keeps no array of the caller's."""
        call = copy.copy(self)
        call.values = []
        return call

    def parameters(self, signature: inspect.Signature) -> list[str]:
        """The parameter each argument was passed for. Raises TypeError where the signature has none for one."""
        return parameters_of(signature, len(self.specs), self.keywords)

    def run_time_names(self, signature: inspect.Signature) -> list[str]:
        """The parameter each run-time argument was passed for, and the names of the extents and strides."""
        every = self.parameters(signature)
        names = [every[i] for i in self.run_time]
        return names + Parameters(self.traced_specs).names(names)

    def unhashable(self, name: str) -> ArgumentError:
        constants = [s.value for s in self.specs if isinstance(s, Constant)]
        if any(hasattr(x, "__array__") or hasattr(x, "__dlpack__") for x in constants):
            fix = "pass arrays by position: the parameters behind `*` in `def` are compile-time constants"
        elif any(isinstance(x, list) and x and all(isinstance(y, int | float) for y in x) for x in constants):
            fix = "pass a tuple, or np.array(numbers, np.float32) for what a kernel reads element by element"
        else:
            fix = "pass a tuple instead of a list, a frozen dataclass instead of a dict"
        return ArgumentError(
            f"{name} was given a constant that can't be hashed, among {', '.join(map(reprlib.repr, constants))}",
            where=frames.caller(),
            rule="compile-time arguments are part of what a compilation is found by",
            fix=fix,
        )


def parameters_of(signature: inspect.Signature, count: int, keywords: tuple[str, ...]) -> list[str]:
    """The parameter of each of ``count`` arguments, the last of them passed by ``keywords``. Raises TypeError where the
    signature has none for one."""
    positional = count - len(keywords)
    bound = signature.bind_partial(*range(positional), **dict.fromkeys(keywords)).arguments
    names = {}
    for name, value in bound.items():
        for position in value if isinstance(value, tuple) else (value,):
            if isinstance(position, int):  # keywords stand for themselves
                names[position] = name
    return [names.get(i, f"argument {i}") for i in range(positional)] + list(keywords)


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
        if argument.is_named:
            return extents.named(argument.shape, argument.dtype, argument.strides), None
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
    """The MLIR type of a specialized argument: a static memref, or a scalar; of a dynamic array, its first element."""
    if isinstance(spec, ScalarSpec):
        return spec.dtype.ir
    if isinstance(spec, DynamicSpec):
        return ir.MemRefType.get([], spec.dtype.ir)
    layout = None
    if spec.strides != packed_strides(spec.shape) or 0 in spec.shape[1:]:  # MLIR takes a step over nothing for unknown
        layout = ir.StridedLayoutAttr.get(0, list(spec.strides))
    return ir.MemRefType.get(list(spec.shape), spec.dtype.ir, layout=layout)


class HostArguments:
    """The arguments of a host function that is being traced: those of the call, then extents (i32) and strides (index)
    of dynamic arrays."""

    def __init__(self, specs: list[Any]) -> None:
        self._specs, self._more = specs, Parameters(specs)

    @property
    def types(self) -> list[Any]:
        extents, strides = self._more.extents, self._more.strides
        more = [dtypes.i32.ir] * len(extents) + [dtypes.index.ir] * len(strides)
        return [argument_type(spec) for spec in self._specs] + more

    def describe(self, function: Any) -> None:
        """Write on a host function what its arguments stand for."""
        if not self._more.dynamic:
            return
        found = [ir.DictAttr.get({}) for _ in self._specs]
        for i, spec in self._more.dynamic:
            found[i] = attributes.attributes(str(Axes(spec.axes)), 1)
        found += [attributes.attributes(name, multiple) for name, multiple in self._more.extents.items()]
        found += [attributes.attributes(f"stride {k} of argument {i}", n) for i, k, n in self._more.strides]
        function.arg_attrs = ir.ArrayAttr.get(found)

    def values(self, arguments: Any) -> list[Any]:
        """The call's arguments as Python sees them, out of the host function's."""
        given, rest = list(arguments)[: len(self._specs)], iter(list(arguments)[len(self._specs) :])
        extents = {name: wrap(next(rest), dtypes.i32) for name in self._more.extents}
        strides = {(i, k): wrap(next(rest), dtypes.index) for i, k, _ in self._more.strides}
        made: list[Any] = []
        for i, (value, spec) in enumerate(zip(given, self._specs, strict=True)):
            if isinstance(spec, ScalarSpec):
                made.append(wrap(value, spec.dtype))
            elif isinstance(spec, DynamicSpec):
                sizes = [extents[one.name] if isinstance(one, Extent) else one for one in spec.axes]
                steps = [step if isinstance(step, int) else strides[i, k] for k, step in enumerate(spec.strides)]
                made.append(shaped(value, spec.dtype, sizes, steps))
            else:
                made.append(value.remember_dtype(spec.dtype))
        return made
