"""What is tuned for: a function's arguments, and the class that calls with the same answer share."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import field
from typing import Any

from nvdsl.call.extents import NamedSpec, Parameters
from nvdsl.call.specialize import Call, Constant
from nvdsl.driver.array_spec import ArraySpec, packed_strides
from nvdsl.errors import ArgumentError, frames
from nvdsl.errors.records import dataclass
from nvdsl.lang.extents import Axes
from nvdsl.tune import names
from nvdsl.values import dtypes


@dataclass(frozen=True)
class Problem:
    """``arguments``: by parameter, an `ArraySpec` (dtype, shape, strides in elements), a `ScalarSpec`, or a
    constant's value. ``run_time``: the names of those that are no constants, in the order of the call. ``values``:
    of the run-time scalars; ``more``: of the named extents and the strides that a run takes behind the arguments."""

    arguments: Mapping[str, Any]
    run_time: tuple[str, ...]
    values: Mapping[str, Any]
    more: Mapping[str, int] = field(default_factory=dict)

    @property
    def arrays(self) -> dict[str, ArraySpec]:
        return {name: spec for name, spec in self.arguments.items() if isinstance(spec, ArraySpec)}

    @property
    def constants(self) -> dict[str, Any]:
        return {name: value for name, value in self.arguments.items() if name not in self.run_time}

    def __str__(self) -> str:
        return ", ".join(f"{n} {s}" for n, s in self.arrays.items()) + "".join(
            f", {n}={v!r}" for n, v in self.constants.items()
        )


def of_call(call: Call, parameters: list[str]) -> Problem:
    """``parameters``: the parameter of each argument; those of a ``*rest`` are told apart by number."""
    unique, seen = [], set()
    for name in parameters:
        number = 0
        while (key := f"{name}{number}" if number or parameters.count(name) > 1 else name) in seen:
            number += 1
        seen.add(key)
        unique.append(key)
    arguments, values = {}, {}
    run_time = [unique[i] for i in call.run_time]
    for i, (name, spec) in enumerate(zip(unique, call.specs, strict=True)):
        if isinstance(spec, NamedSpec):
            raise ArgumentError(
                f"{name} is {spec.dtype.name} {Axes(spec.axes)}, without sizes",
                where=frames.caller(),
                rule="a tuned function chooses its configuration by the sizes of its arrays",
                fix="pass the tuned parameters, or an array or nv.ShapeDtype with sizes",
            )
        arguments[name] = spec.value if isinstance(spec, Constant) else spec
        if i in call.run_time and not isinstance(spec, ArraySpec):
            values[name] = call.values[call.run_time.index(i)]
    names = Parameters(call.traced_specs).names(run_time)
    more = {f"the argument {name}": value for name, value in zip(names, call.more, strict=True)}
    return Problem(arguments, tuple(run_time), values, more)


def layout(spec: ArraySpec) -> str:
    """``"row"`` (C-contiguous), ``"column"`` (its transpose is), or ``"strided"``."""
    if spec.strides == packed_strides(spec.shape):
        return "row"
    if spec.strides[::-1] == packed_strides(spec.shape[::-1]):
        return "column"
    return "strided"


def extent_class(extent: int) -> str:
    """Extents of one class: the same nearest power of two, and the same largest power of two (up to 256) that
    divides them. ``extent_class(5120) == "4096/256"``; 0 to 16 stand for themselves."""
    if extent <= 16:
        return str(extent)
    return f"{2 ** round(math.log2(extent))}/{math.gcd(extent, 256)}"


def shape_class(problem: Problem) -> str:
    """The default class of the arrays' shapes: `extent_class` of each extent."""
    return ", ".join(f"{n} {'x'.join(map(extent_class, s.shape))}" for n, s in problem.arrays.items())


def question(problem: Problem, kernel: str, classify: Callable[..., Any] | None) -> dict[str, Any]:
    """What a tuned configuration answers, as JSON: the kernel, dtypes and layouts, the shape class, constants."""
    kinds = {}
    for name, spec in problem.arguments.items():
        if isinstance(spec, ArraySpec):
            kinds[name] = f"{spec.dtype.name} {layout(spec)}"
        elif name in problem.run_time:
            kinds[name] = spec.dtype.name
        else:
            kinds[name] = _constant(spec)
    chosen = names.call(classify, problem.arguments, "shape_class") if classify else shape_class(problem)
    try:
        return json.loads(json.dumps({"kernel": kernel, "arguments": kinds, "shapes": chosen}))
    except TypeError as error:
        raise ArgumentError(
            f"the shape_class of {kernel} is {chosen!r}: {error}",
            where=names.line(classify),
            rule="a class of shapes is kept as JSON",
            fix="return a string, numbers, or a list of them",
        ) from None


def _constant(value: Any) -> str:
    """A constant's text that is the same in every process, where it has one."""
    if isinstance(value, dtypes.DType):
        return value.name
    name = getattr(value, "__qualname__", None)
    return f"{value.__module__}.{name}" if name else repr(value)
