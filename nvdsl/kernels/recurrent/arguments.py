"""The arguments of a recurrent layer's call: inputs, weights of all layers and directions, states; checked."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import nvdsl as nv
from nvdsl.errors import ArgumentError
from nvdsl.errors.records import dataclass
from nvdsl.kernels.arguments import Argument
from nvdsl.kernels.recurrent.part import Part

TYPES = (nv.f16, nv.bf16)

_ACCESS = 16
"""Bytes of the widest access."""


@dataclass(frozen=True)
class Weights:
    """Of one layer and direction, as torch.nn has them. ``inputs``: [gates * hidden, inputs], ``hidden``: [gates *
    hidden, hidden], and their biases, [gates * hidden] each, or None."""

    inputs: Argument
    hidden: Argument
    input_bias: Argument | None
    hidden_bias: Argument | None
    units: int

    @property
    def wide(self) -> int:
        """Elements of an access to the rows of ``hidden``."""
        return access(self.hidden)

    @property
    def arrays(self) -> list[Argument | None]:
        """In the order in which a call gives them."""
        return [self.inputs, self.hidden, self.input_bias, self.hidden_bias]

    def of_kinds(self, argument: Argument | None, gates: int) -> Part | None:
        """A weight or a bias with an axis of the kinds of gates before the others."""
        return None if argument is None else Part.of(argument).split(0, gates)


def access(x: Argument) -> int:
    """Elements of the widest access to rows of ``x``: they lie side by side, and all rows start at its multiples."""
    *steps, last = x.spec.strides
    size = x.spec.dtype.bytes
    if last != 1 and x.spec.shape[-1] > 1:
        return 1
    return math.gcd(_ACCESS // size, x.spec.shape[-1], x.memory[0] // size if x.host is None else 0, *steps)


def in_pairs(x: Argument) -> bool:
    """Whether a kernel may read two neighbours of ``x`` at once wherever it reads pairs: of rows that lie side by side
    and have an even number of elements, each starts at a pair. A host array is a packed copy."""
    *steps, last = x.spec.strides
    if x.host is not None or last != 1 or x.spec.shape[-1] % 2:
        return True
    return x.memory[0] % (2 * x.spec.dtype.bytes) == 0 and not any(step % 2 for step in steps)


def inputs(x: Any, batch_first: bool) -> tuple[Argument, tuple[int, int, int]]:
    """``x``, and its steps, rows of the batch and elements a step."""
    found = Argument.of("x", x)
    shape = found.spec.shape
    _of_type(found)
    if len(shape) not in (2, 3):
        raise ArgumentError(
            f"x has the shape {shape}",
            rule="(steps, batch, inputs), with batch_first (batch, steps, inputs), or (steps, inputs) without a batch",
        )
    steps, batch = (shape[0], 1) if len(shape) == 2 else shape[1::-1] if batch_first else shape[:2]
    if shape[-1] < 1 or steps < 1:
        raise ArgumentError(f"x has the shape {shape}", rule="a sequence has a step or more, and a step an element")
    return found, (steps, batch, shape[-1])


def step(x: Any) -> tuple[Argument, tuple[int, int]]:
    """``x`` of a cell, and its rows of the batch and elements."""
    found = Argument.of("x", x)
    shape = found.spec.shape
    _of_type(found)
    if len(shape) not in (1, 2) or shape[-1] < 1:
        raise ArgumentError(f"x has the shape {shape}", rule="(batch, inputs), or (inputs,), of one input or more")
    return found, (shape[0] if len(shape) == 2 else 1, shape[-1])


def cell_weights(given: Sequence[Any], x: Argument, width: int, gates: int) -> Weights:
    """w_ih, w_hh, b_ih, b_hh; each bias may be None. A simple cell takes a state of any number of units."""
    names = ("w_ih", "w_hh", "b_ih", "b_hh")
    arrays = [None if w is None else Argument.of(name, w) for name, w in zip(names, given, strict=True)]
    return _weights(arrays, x, width, gates, gates == 1)


def weights(given: Sequence[Any], x: Argument, width: int, gates: int, directions: int) -> list[list[Weights]]:
    """Those of each layer, one for each direction. ``given``: flat, as torch.nn's ``_flat_weights``."""
    arrays = [Argument.of(f"weights[{i}]", w) for i, w in enumerate(given)]
    biased = len(arrays) > 2 and len(arrays[2].spec.shape) == 1
    each = 4 if biased else 2
    if not arrays or len(arrays) % (each * directions):
        raise ArgumentError(
            f"{len(arrays)} weights",
            rule=f"{'w_ih, w_hh, b_ih, b_hh' if biased else 'w_ih, w_hh'} for each layer"
            + (" and direction" if directions == 2 else ""),
            fix="pass them in the order of torch.nn.LSTM's _flat_weights (of one without proj_size)",
        )
    layers: list[list[Weights]] = []
    for start in range(0, len(arrays), each * directions):
        layer = [_weights(arrays[i : i + each], x, width, gates) for i in range(start, start + each * directions, each)]
        first = layers[0][0] if layers else layer[0]
        for one in layer:
            if one.units != first.units:
                _shape(one.hidden, (gates * first.units, first.units))
        layers.append(layer)
        width = directions * first.units
    return layers


def _weights(
    arrays: Sequence[Argument | None], x: Argument, width: int, gates: int, any_state: bool = False
) -> Weights:
    """``any_state``: the state before may have another number of units."""
    w_ih, w_hh, b_ih, b_hh = [*arrays, None, None][:4]
    if w_ih is None or w_hh is None:
        raise ArgumentError("no weights", rule="w_ih and w_hh are matrices")
    for array in (w_ih, w_hh):
        if array.spec.dtype is not x.spec.dtype:
            raise ArgumentError(
                f"{array.name} is of {array.spec.dtype.name}", rule=f"weights have the type of x, {x.spec.dtype.name}",
                fix="convert it",
            )  # fmt: skip
        if len(array.spec.shape) != 2:
            raise ArgumentError(f"{array.name} has the shape {array.spec.shape}", rule="a weight is a matrix")
    rows, columns = w_hh.spec.shape
    hidden = rows if any_state else columns
    if hidden < 1 or columns < 1 or rows != gates * hidden:
        turned = columns == gates * rows and rows > 0
        raise ArgumentError(
            f"{w_hh.name} has the shape {w_hh.spec.shape}",
            rule=f"w_hh is ({f'{gates} * ' if gates > 1 else ''}hidden, hidden)",
            fix=f"pass {w_hh.name}.T" if turned else "pass w_ih, w_hh and the biases in this order",
        )
    _shape(w_ih, (rows, width))
    for bias in (b_ih, b_hh):
        if bias is None:
            continue
        if bias.spec.dtype not in (*TYPES, nv.f32):
            raise ArgumentError(f"{bias.name} is of {bias.spec.dtype.name}", rule="biases are f16, bf16 or f32")
        _shape(bias, (gates * hidden,))
    return Weights(w_ih, w_hh, b_ih, b_hh, hidden)


def states(given: Any, names: Sequence[str], x: Argument, shape: tuple[int, ...]) -> list[Argument | None]:
    """The parts of a state, as many as there are names; None for zeros."""
    if given is None:
        return [None] * len(names)
    if len(names) == 1:
        return [state(names[0], given, x, shape)]
    if not isinstance(given, tuple | list) or len(given) != len(names):
        raise ArgumentError("a state that is no pair", rule=f"the state of an LSTM is ({', '.join(names)})",
                            fix="pass a tuple of both, of which each may be None")  # fmt: skip
    return [state(name, array, x, shape) for name, array in zip(names, given, strict=True)]


def state(name: str, array: Any, x: Argument, shape: tuple[int, ...]) -> Argument | None:
    """A state at first; None for zeros."""
    if array is None:
        return None
    found = Argument.of(name, array)
    if found.spec.dtype is not x.spec.dtype:
        raise ArgumentError(
            f"{name} is of {found.spec.dtype.name}", rule=f"it has the type of x, {x.spec.dtype.name}", fix="convert it"
        )
    _shape(found, shape)
    return found


def _shape(found: Argument, shape: tuple[int, ...]) -> None:
    if found.spec.shape != shape:
        turned = len(shape) == 2 and found.spec.shape == shape[::-1]
        raise ArgumentError(
            f"{found.name} has the shape {found.spec.shape}", rule=f"its shape is {shape} here",
            fix=f"pass {found.name}.T" if turned else f"pass an array of the shape {shape}",
        )  # fmt: skip


def _of_type(x: Argument) -> None:
    if x.spec.dtype not in TYPES:
        raise ArgumentError(
            f"x is of {x.spec.dtype.name}", rule="a recurrent layer takes f16 or bf16; its gates are f32",
            fix="convert x, the weights and the state to one of these",
        )
