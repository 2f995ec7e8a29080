"""Dynamic extents of a call: what the annotations of a function say of its arrays, checked and taken out of the shapes.

A compiled kernel knows of a dynamic array its dtype, the axes that are constants, the names and promises of the others,
and of the strides which axis is contiguous, those that the constants make, and of the rest by what power of two they
are multiples, as far as the promises let them be. Everything else is an argument of the host function.
"""

from __future__ import annotations

import inspect
import math
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, NamedTuple, get_args, get_origin

from nvdsl.driver.array_spec import ArraySpec, packed_strides
from nvdsl.errors import ArgumentError, frames
from nvdsl.errors.records import dataclass
from nvdsl.lang.array import Array
from nvdsl.lang.extents import MOST, Axes, Extent, axis
from nvdsl.values.dtypes import DType

ALIGNMENT = 16
"""Bytes: a stride's residues matter up to here, for TMA and the widest access of a thread."""


class Stride(NamedTuple):
    """A stride that a run knows, a multiple of ``multiple`` elements in every call."""

    multiple: int


@dataclass(frozen=True)
class ScalarSpec:
    """A run-time scalar argument of a host function."""

    dtype: DType


@dataclass(frozen=True)
class DynamicSpec:
    """What a kernel is specialized on of an array with named extents."""

    dtype: DType
    axes: tuple[int | Extent, ...]
    strides: tuple[int | Stride, ...]

    def __str__(self) -> str:
        return f"{self.dtype.name} {Axes(self.axes)}"


@dataclass(frozen=True)
class NamedSpec:
    """What a `ShapeDtype` with names in place of extents stands for. ``strides``: None for packed ones, and in place of
    one that is not a constant."""

    dtype: DType
    axes: tuple[int | Extent, ...]
    strides: tuple[int | None, ...] | None


class Bound(NamedTuple):
    """The arguments of one call: what each is specialized on, and the extents and strides that a run needs besides."""

    specs: list[Any]
    values: list[Any]


class Parameters:
    """What a host function takes besides its arguments ``specs``: each named extent once, then the strides."""

    def __init__(self, specs: Sequence[Any]) -> None:
        self.dynamic = [(i, spec) for i, spec in enumerate(specs) if spec.__class__ is DynamicSpec]
        self.extents: dict[str, int] = {}  # name -> multiple
        for _, spec in self.dynamic:
            for one in spec.axes:
                if isinstance(one, Extent):
                    self.extents[one.name] = math.lcm(self.extents.get(one.name, 1), one.multiple)
        self.strides = [
            (i, k, step.multiple)
            for i, spec in self.dynamic
            for k, step in enumerate(spec.strides)
            if isinstance(step, Stride)
        ]

    def names(self, arguments: Sequence[str]) -> list[str]:
        """What messages call them."""
        return [*self.extents, *(f"stride {k} of {arguments[i]}" for i, k, _ in self.strides)]


def read(function: Callable[..., Any], signature: inspect.Signature) -> dict[str, Axes]:
    """What a function's annotations say of axes, by parameter.

    Raises ArgumentError for one that can't be understood.
    """
    found = {}
    for name, parameter in signature.parameters.items():
        annotation = _evaluated(function, name, parameter.annotation)
        axes = _axes(annotation)
        if axes is None:
            continue
        if parameter.kind is parameter.KEYWORD_ONLY:
            raise ArgumentError(
                f"{name} of {function.__name__} is keyword-only, and annotated as an array",
                where=frames.caller(),
                rule="keyword-only parameters are compile-time constants",
                fix=f"write {name} before the `*`",
            )
        found[name] = axes
    return found


_WITHOUT_AXES = frozenset(("Any", "nv.Array", "bool", "int", "float", "str", "tuple[bool, bool]", "nv.DType"))
"""What most annotations are, which need no evaluation."""
_ANNOTATED = re.compile(r"\b(Array|Shaped)\s*\[")


def _evaluated(function: Callable[..., Any], name: str, annotation: Any) -> Any:
    """An annotation that is a string as what it says; it may use what surrounds the function."""
    if not isinstance(annotation, str):
        return annotation
    if annotation in _WITHOUT_AXES:
        return None
    code = function.__code__
    cells = zip(code.co_freevars, function.__closure__ or (), strict=True)
    scope = {**_around(function), **{n: c.cell_contents for n, c in cells if _is_full(c)}}
    try:
        return eval(annotation, function.__globals__, scope)
    except ArgumentError:
        raise
    except Exception as error:
        if _ANNOTATED.search(annotation) is None:
            return None  # for type checkers alone, perhaps
        raise ArgumentError(
            f"the annotation of {name} of {function.__name__}, {annotation}, can't be evaluated: {error}",
            where=frames.caller(),
            rule="an array's axes are read where the function is decorated",
            fix="import what the annotation names, outside of `if TYPE_CHECKING`",
        ) from None


def _around(function: Callable[..., Any]) -> Mapping[str, Any]:
    """The variables of the function that is making this one."""
    frame = sys._getframe()
    while frame is not None and frame.f_globals is not function.__globals__:
        frame = frame.f_back  # type: ignore[assignment]
    return {} if frame is None else frame.f_locals


def _is_full(cell: Any) -> bool:
    try:
        cell.cell_contents  # noqa: B018
    except ValueError:
        return False
    return True


def _axes(annotation: Any) -> Axes | None:
    """What an annotation says of an array, None where it says nothing of axes; of ``Array[...] | None`` too."""
    if get_origin(annotation) is Annotated:
        kind, *rest = get_args(annotation)
        if isinstance(kind, type) and issubclass(kind, Array):
            return rest[0] if len(rest) == 1 and isinstance(rest[0], Axes) else Axes.parse(tuple(rest))
        return None
    found = [axes for one in get_args(annotation) if get_origin(one) is Annotated and (axes := _axes(one)) is not None]
    return found[0] if len(found) == 1 else None


class Extents:
    """The annotations of one function: ``axes`` by parameter, as `read` gives them."""

    def __init__(self, function: str, axes: Mapping[str, Axes]) -> None:
        self._function, self._axes, self.named = function, axes, bool(axes)
        self._multiples: dict[str, int] = {}
        for one in [x for array in axes.values() for x in array.axes if isinstance(x, Extent)]:
            self._multiples[one.name] = math.lcm(self._multiples.get(one.name, 1), one.multiple)

    def bind(self, parameters: Sequence[str], specs: Sequence[Any]) -> Bound:
        """The arguments ``specs`` of one call, each for one of ``parameters``. Raises ArgumentError where a promise is
        broken, or equal names stand for different extents."""
        found: dict[str, tuple[int | None, str, Any]] = {}
        made = list(specs)
        for i, (name, spec) in enumerate(zip(parameters, specs, strict=True)):
            axes = self._axes.get(name)
            if spec.__class__ is NamedSpec:
                made[i] = self._merged(name, spec, axes)
            elif axes is not None and spec.__class__ is ScalarSpec:
                raise self._error(f"{name} is a number, and annotated as an array {axes}", "pass an array")
            elif axes is not None and spec.__class__ is ArraySpec:
                self._check(name, spec, axes, found)
                made[i] = self._dynamic(spec, axes)
        wanted = Parameters(made)
        values: list[Any] = [found[name][0] if name in found else None for name in wanted.extents]
        for i, k, _ in wanted.strides:
            values.append(specs[i].strides[k] if specs[i].__class__ is ArraySpec else None)
        return Bound(made, values)

    def _check(self, name: str, spec: ArraySpec, axes: Axes, found: dict[str, tuple[Any, str, Any]]) -> None:
        if len(spec.shape) != len(axes.axes):
            raise self._error(
                f"{name} has shape {spec.shape}, and is annotated {axes}", f"pass an array of {len(axes.axes)} axes"
            )
        for k, (one, extent) in enumerate(zip(axes.axes, spec.shape, strict=True)):
            if isinstance(one, int):
                if one != extent:
                    raise self._error(
                        f"{name} has shape {spec.shape}: axis {k} is {extent}, and annotated {one}",
                        f"pass an array with {one} there, or name the axis",
                    )
            elif one is not None:
                self._check_extent(name, spec, k, one, extent, found)

    def _check_extent(
        self, name: str, spec: ArraySpec, k: int, one: Extent, extent: int, found: dict[str, tuple[Any, str, Any]]
    ) -> None:
        known, other, shape = found.setdefault(one.name, (extent, name, spec.shape))
        if known != extent:
            raise self._error(
                f"{one.name} is {known} in {other}, of shape {shape}, and {extent} in {name}, of shape {spec.shape} "
                f"(axis {k})",
                f"pass arrays that agree in {one.name}, or give the axes different names",
                "axes of one name have one extent",
            )
        multiple = self._multiples[one.name]
        if extent % multiple:
            raise self._error(
                f"{one.name} is {extent} in {name}, of shape {spec.shape} (axis {k})",
                f"pad the axis to {-(-extent // multiple) * multiple}, or drop `% {multiple}` if the kernel can do "
                "without it",
                f"{one.name} is a multiple of {multiple}, as the annotation promises: the compiler relies on it",
            )
        if extent > MOST:
            raise self._error(
                f"{one.name} is {extent:,} in {name}, of shape {spec.shape} (axis {k})",
                "split the array, or annotate the axis `...`: a constant may be larger",
                f"a named extent is an i32, {MOST:,} at most",
            )

    def _error(self, message: str, fix: str, rule: str = "an array is as its annotation says") -> ArgumentError:
        return ArgumentError(f"{self._function}: {message}", where=frames.caller(kernels=False), rule=rule, fix=fix)

    def _dynamic(self, spec: ArraySpec, axes: Axes) -> Any:
        """A spec without the named extents; of an array that has none, as it was."""
        pairs = zip(axes.axes, spec.shape, strict=True)
        named = tuple(one if isinstance(one, Extent) else extent for one, extent in pairs)
        if all(isinstance(one, int) for one in named):
            return spec
        promised = [self._multiples[one.name] if isinstance(one, Extent) else one for one in named]
        return DynamicSpec(spec.dtype, named, _classes(named, promised, _strides(spec, promised), spec.dtype))

    def _merged(self, name: str, spec: NamedSpec, axes: Axes | None) -> DynamicSpec:
        """What a `ShapeDtype` with names and the annotation say together."""
        merged = list(spec.axes)
        if axes is not None:
            if len(spec.axes) != len(axes.axes):
                raise self._error(f"{name} is {Axes(spec.axes)}, and annotated {axes}", "give it as many axes")
            for k, (one, given) in enumerate(zip(axes.axes, spec.axes, strict=True)):
                same = isinstance(given, Extent) and (one is None or isinstance(one, Extent) and one.name == given.name)
                if not (same or one is None or one == given or isinstance(one, Extent) and isinstance(given, int)):
                    raise self._error(
                        f"{name} is {Axes(spec.axes)}, and annotated {axes}: axis {k} differs",
                        "write the annotation's name, or a number",
                    )
                merged[k] = one if isinstance(one, Extent) else given
        promised = [max(self._multiples.get(x.name, 1), x.multiple) if isinstance(x, Extent) else x for x in merged]
        typical = [p * _LARGE if isinstance(x, Extent) else p for x, p in zip(merged, promised, strict=True)]
        steps = list(packed_strides(tuple(typical)))
        for k, step in enumerate(spec.strides or ()):
            steps[k] = math.prod(typical) * ALIGNMENT if step is None else step
        return DynamicSpec(spec.dtype, tuple(merged), _classes(merged, promised, steps, spec.dtype))


_LARGE = 1 << 20
"""An extent that isn't known counts as so many times what it is a multiple of, where axes are put in order."""


def _strides(spec: ArraySpec, promised: Sequence[int]) -> tuple[int, ...]:
    """Those of an array without elements say nothing: packed ones then, of extents that are promised."""
    if 0 not in spec.shape:
        return spec.strides
    return packed_strides(tuple([extent or max(p, 1) for extent, p in zip(spec.shape, promised, strict=True)]))


def _classes(
    axes: Sequence[int | Extent], promised: Sequence[int], strides: Sequence[int], dtype: DType
) -> tuple[int | Stride, ...]:
    """What a kernel is specialized on of the strides. ``promised``: what each extent is a multiple of."""
    contiguous = max((k for k, step in enumerate(strides) if step == 1), default=None)
    whole = max(ALIGNMENT // dtype.bytes, 1)
    found: list[int | Stride] = []
    for k, step in enumerate(strides):
        inner = [x for x in axes[k + 1 :] if isinstance(x, int)]
        if k == contiguous or len(inner) == len(axes) - k - 1 and step == math.prod(inner):
            found.append(step)
        else:
            reach = abs(step) or math.inf  # rows that are one row are the axis farthest out
            nearer = [p for p, other in zip(promised, strides, strict=True) if abs(other) < reach]
            found.append(Stride(math.gcd(step, math.prod(nearer), whole)))
    return tuple(found)


def named(shape: Sequence[Any], dtype: DType, strides: Sequence[int | None] | None) -> NamedSpec:
    """What a `ShapeDtype` with names says."""
    axes = tuple(axis(x) if isinstance(x, str) else int(x) for x in shape)
    return NamedSpec(dtype, axes, None if strides is None else tuple(strides))  # type: ignore[arg-type]
