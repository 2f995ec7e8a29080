"""The arrays of a call as kernels see them: rows, a row for all rows, a number for each row."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import nvdsl as nv
from nvdsl.errors import ArgumentError
from nvdsl.kernels.arguments import ALIGNMENT, Argument
from nvdsl.kernels.rows.beside import access_to_copies
from nvdsl.kernels.rows.choose import choose
from nvdsl.kernels.rows.choose_persistent import choose_persistent
from nvdsl.kernels.rows.config import MOST_COLUMNS, RowsConfig

FLOATS = (nv.f16, nv.bf16, nv.f32)

_MANY, _MANY_WIDE = 1 << 22, 1 << 24
"""Elements of rows for which it pays to copy weights before, at 2 us, where rows begin anywhere, and where a weight and
a bias of f32 are taken in two pieces beside rows of 16 bits."""


class Rows:
    """An array of rows, that is, with all axes but the last made one."""

    def __init__(self, argument: Argument, dtypes: Sequence[nv.DType] = FLOATS) -> None:
        self.argument, spec = argument, argument.spec
        _check_type(argument, dtypes)
        if not spec.shape or spec.shape[-1] < 1:
            raise ArgumentError(
                f"{argument.name} has the shape {spec.shape}", rule="the last axis has one element or more",
                fix="leave out the call: there is nothing to compute" if spec.shape else _shaped(argument, (1,)),
            )  # fmt: skip
        self.shape, self.dtype, self.cols = spec.shape, spec.dtype, spec.shape[-1]
        if self.cols > MOST_COLUMNS:
            raise ArgumentError(
                f"{argument.name} has rows of {self.cols:,} elements", rule=f"a row has at most {MOST_COLUMNS:,}",
                fix="compute longer rows by operations on arrays",
            )  # fmt: skip
        self.rows = math.prod(spec.shape[:-1])
        if self.cols > 1 and spec.strides[-1] != 1:
            raise _uneven(argument)
        self.step = _step(argument, spec.shape[:-1], spec.strides[:-1])

    @staticmethod
    def of(name: str, array: Any) -> Rows:
        """An input."""
        return Rows(Argument.of(name, array))

    @property
    def multiple(self) -> int:
        """Of how many elements the start of each row is a multiple."""
        unaligned = self.argument.memory[0] % ALIGNMENT // self.dtype.bytes
        return math.gcd(self.step, unaligned or ALIGNMENT)

    def like(self, name: str, array: Any) -> Rows:
        """An input of the same shape."""
        found = Rows.of(name, array)
        if found.shape != self.shape:
            raise ArgumentError(
                f"{name} has the shape {found.shape}", rule=f"it has that of {self.argument.name}, {self.shape}",
                fix=_shaped(found.argument, self.shape),
            )  # fmt: skip
        return found

    def result(self, name: str, array: Any, dtype: nv.DType, dtypes: Sequence[nv.DType] = FLOATS) -> Rows:
        """An output of the same shape; a new one of ``dtype`` where ``array`` is None or True."""
        return Rows(Argument.output(name, _given(array), self.argument, self.shape, dtype), dtypes)

    def view(self) -> Any:
        """What a kernel takes for it."""
        return self.argument.view((self.rows, self.cols), (self.step, 1))


class Vector:
    """A row for all rows."""

    def __init__(self, argument: Argument, rows: Rows) -> None:
        self.argument, self.dtype, spec = argument, argument.spec.dtype, argument.spec
        _check_type(argument, FLOATS)
        if spec.shape != (rows.cols,):
            raise ArgumentError(
                f"{argument.name} has the shape {spec.shape}",
                rule=f"it is one row of x, which has {rows.cols} elements",
                fix=_shaped(argument, (rows.cols,)),
            )
        if rows.cols > 1 and spec.strides != (1,):
            raise _uneven(argument)
        unaligned = argument.memory[0] % ALIGNMENT // spec.dtype.bytes
        self.multiple = math.gcd(rows.cols, unaligned or ALIGNMENT)

    @staticmethod
    def of(name: str, array: Any, rows: Rows) -> Vector | None:
        """An input; None for None."""
        return None if array is None else Vector(Argument.of(name, array), rows)

    @staticmethod
    def output(name: str, array: Any, rows: Rows, dtype: nv.DType) -> Vector | None:
        """An output; a new one of ``dtype`` where ``array`` is True; None for None."""
        if array is None:
            return None
        return Vector(Argument.output(name, _given(array), rows.argument, (rows.cols,), dtype), rows)

    def view(self) -> Any:
        return self.argument.view((self.argument.spec.shape[0],), (1,))


class PerRow:
    """A number for each row: the shape is that of the rows without the last axis."""

    def __init__(self, argument: Argument, rows: Rows, dtypes: Sequence[nv.DType] = (nv.f32,)) -> None:
        self.argument, spec = argument, argument.spec
        _check_type(argument, dtypes)
        if spec.shape != rows.shape[:-1]:
            raise ArgumentError(
                f"{argument.name} has the shape {spec.shape}",
                rule=f"it has one element for each row of x: {rows.shape[:-1]}",
                fix=_shaped(argument, rows.shape[:-1]),
            )
        self.rows, self.step = rows.rows, _step(argument, spec.shape, spec.strides) if spec.shape else 1

    @staticmethod
    def output(name: str, array: Any, rows: Rows) -> PerRow | None:
        """An output of f32; a new one where ``array`` is True; None for None."""
        if array is None:
            return None
        return PerRow(Argument.output(name, _given(array), rows.argument, rows.shape[:-1], nv.f32), rows)

    def view(self) -> Any:
        return self.argument.view((self.rows,), (self.step,))


def view(x: Any) -> Any:
    """What a kernel takes for an array that may be left out."""
    return None if x is None else x.view()


def check_apart(
    written: Sequence[Any], read: Sequence[Any], same: Sequence[Any] = ()
) -> list[tuple[Argument, Argument, bool]]:
    """Raises ArgumentError where an output shares memory with another one, or with an input. One of ``same``, inputs
    whose rows a thread has read before it writes any of them, may be an output itself. Returns what was compared."""
    outs = [x.argument for x in written if x is not None]
    pairs = [(out, other, False) for i, out in enumerate(outs) for other in outs[:i]]
    pairs += [(out, x.argument, False) for out in outs for x in read if x is not None]
    pairs += [(out, x.argument, True) for out in outs for x in same if x is not None]
    for out, other, or_same in pairs:
        out.check_apart(other, or_same=or_same)
    return pairs


def configuration(read: Sequence[Rows | None], others: Sequence[Any], *, passes: int = 2) -> RowsConfig:
    """How threads share the rows of a call: those that it reads. ``others``: its further arrays; ``passes``: how often
    a thread takes what it read."""
    given, beside = [x for x in read if x is not None], sum(isinstance(x, Vector) for x in others)
    written = [x for x in others if isinstance(x, Rows)]
    config = choose(
        given[0].cols, *_access(given, others), arrays=len(given), smallest=_smallest(given), passes=passes,
        beside=beside, written=bool(written), alike=_alike([*given, *others]), apart=_apart(given, written),
    )  # fmt: skip
    copied, elements = [x.dtype for x in others if isinstance(x, Vector)], given[0].rows * given[0].cols
    pieces = copied == [nv.f32] * 2 and config.wide * 4 > ALIGNMENT and config.lanes >= 32
    if copied and (config.ragged and elements >= _MANY or pieces and elements >= _MANY_WIDE):
        return replace(config, copies=access_to_copies(given[0].cols, copied, config))
    return config


def persistent(read: Sequence[Rows | None], others: Sequence[Any], weight: Vector | None) -> RowsConfig:
    """The same for a persistent grid, to which rows come ahead of their turns. ``weight``: one of ``others``."""
    given = [x for x in read if x is not None]
    return choose_persistent(
        given[0].cols, *_access(given, others), arrays=len(given), smallest=_smallest(given),
        beside=0 if weight is None else weight.dtype.bytes, alike=_alike([*given, *others]),
    )  # fmt: skip


def _access(read: Sequence[Rows], others: Sequence[Any]) -> tuple[int, int]:
    """Bytes of the largest elements, and of how many elements all rows' starts are a multiple."""
    arrays = [*read, *(x for x in others if isinstance(x, Rows | Vector))]
    return max(x.dtype.bytes for x in arrays if isinstance(x, Rows)), math.gcd(*(x.multiple for x in arrays))


def _alike(arrays: Sequence[Any]) -> bool:
    """Whether each row begins as far behind a multiple of 16 bytes in all arrays of rows, in elements, and the first
    ones at one."""
    rows = [x for x in arrays if isinstance(x, Rows)]
    starts = {x.step % ALIGNMENT if x.rows > 1 else 0 for x in rows}
    return len(starts) == 1 and all(x.argument.aligned for x in rows)


def _apart(read: Sequence[Rows], written: Sequence[Rows]) -> bool:
    """Whether that is so of all but the one that is written, whose elements are as large, and which begins at 16 bytes,
    too."""
    sizes = {x.dtype.bytes for x in [*read, *written]}
    return len(written) == 1 and len(sizes) == 1 and written[0].argument.aligned and _alike(read)


def _smallest(read: Sequence[Rows]) -> int:
    return min(x.dtype.bytes for x in read)


def results(out: Any, *others: Any) -> Any:
    """What a call returns: ``out``, or a tuple of it and of those of ``others`` that were asked for."""
    found = tuple(x.argument.result() for x in (out, *others) if x is not None)
    return found[0] if len(found) == 1 else found


def asked(arrays: tuple[Any, ...], outputs: int) -> tuple[Any, ...]:
    """A call's arrays, of which the last ones are ``outputs``: None for each of these that it doesn't want."""
    for array in arrays:
        if array is False:
            wanted = [None if each is False else each for each in arrays[-outputs:]]
            return (*arrays[:-outputs], *wanted)
    return arrays


def _given(array: Any) -> Any:
    return None if array is True else array


def _check_type(argument: Argument, dtypes: Sequence[nv.DType]) -> None:
    if argument.spec.dtype not in dtypes:
        names = [dtype.name for dtype in dtypes]
        rule = " or ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)
        wanted = nv.f32.name if nv.f32 in dtypes else names[-1]
        raise ArgumentError(
            f"{argument.name} is of {argument.spec.dtype.name}", rule=f"its elements are {rule}",
            fix=f"out_dtype=nv.{wanted}, say" if argument.is_new else f"pass {argument.name} as {wanted}, say",
        )  # fmt: skip


def _shaped(argument: Argument, shape: tuple[int, ...]) -> str:
    """What to write for an array of another shape."""
    if math.prod(argument.spec.shape) == math.prod(shape):
        return f"pass {argument.name}.reshape({shape})"
    return f"pass an array of the shape {shape}"


def _step(argument: Argument, shape: tuple[int, ...], strides: tuple[int, ...]) -> int:
    """Elements from one row to the next."""
    axes = [(n, step) for n, step in zip(shape, strides, strict=True) if n > 1]
    if 0 not in shape and not all(step == n * inner for (_, step), (n, inner) in zip(axes, axes[1:], strict=False)):
        raise _uneven(argument)
    return axes[-1][1] if axes else argument.spec.shape[-1]


def _uneven(argument: Argument) -> ArgumentError:
    return ArgumentError(
        f"{argument.name} has the shape {argument.spec.shape} and the strides {argument.spec.strides}",
        rule="the elements of a row lie side by side, and rows at even distances",
        fix=f"pass a contiguous copy of {argument.name}",
    )
