"""``nv.lstm``, ``nv.gru`` and ``nv.rnn``: sequences through layers and directions, as torch.nn has them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

import nvdsl as nv
from nvdsl.driver.stream import Stream
from nvdsl.errors import ArgumentError
from nvdsl.errors.tracebacks import at_call
from nvdsl.kernels.arguments import Argument
from nvdsl.kernels.arraylike import ArrayLike
from nvdsl.kernels.options import choice, switch
from nvdsl.kernels.recurrent import arguments, sequence
from nvdsl.kernels.recurrent.cells import GRU, LSTM, RNN, Cell
from nvdsl.kernels.recurrent.part import Part, Saved
from nvdsl.kernels.recurrent.pointwise import packed_copy
from nvdsl.kernels.recurrent.run import Calls, Run
from nvdsl.trace import decorated

A = TypeVar("A", bound=ArrayLike)


@at_call
def lstm(
    x: A,
    weights: Sequence[ArrayLike],
    state: tuple[ArrayLike | None, ArrayLike | None] | None = None,
    *,
    bidirectional: bool = False,
    batch_first: bool = False,
    save: bool = False,
    stream: Stream | None = None,
    target: str | None = None,
) -> Any:
    """A long short-term memory (Hochreiter and Schmidhuber, 1997), as torch.nn.LSTM: returns ``y, (h_n, c_n)``.

    For each step, with the gates i, f, g, o in this order in the rows of the weights and biases::

        i, f, g, o = x_t @ w_ih.T + b_ih + h @ w_hh.T + b_hh
        c = sigmoid(f) * c + sigmoid(i) * tanh(g)
        h = sigmoid(o) * tanh(c)

    ``x``: (steps, batch, inputs), with ``batch_first`` (batch, steps, inputs), or (steps, inputs) without a batch; f16
    or bf16. ``weights``: in the order of torch.nn's ``_flat_weights``, for each layer and direction w_ih (4 hidden,
    inputs), w_hh (4 hidden, hidden), and, if there are biases, b_ih and b_hh (4 hidden), which may be f32. Their number
    says how many layers there are; the inputs of a layer are what all directions of the one before give. ``state``:
    ``(h_0, c_0)``, each (layers * directions, batch, hidden), or None for zeros. Strides may be any.

    ``y`` is (steps, batch, directions * hidden), or as ``x`` has its axes: the h of the last layer. ``h_n`` and
    ``c_n`` are the states after the last step (in the other direction the first one). All are new arrays of the type
    of ``x``. Gates are computed in f32, and so is the state until it is stored. ``save``: return a third result, the
    arrays that `lstm_backward` needs.

    Raises ArgumentError for arrays that don't fit.
    """
    return _run("lstm", LSTM(), x, weights, state, bidirectional, batch_first, save, stream, target)


@at_call
def gru(
    x: A,
    weights: Sequence[ArrayLike],
    state: ArrayLike | None = None,
    *,
    bidirectional: bool = False,
    batch_first: bool = False,
    save: bool = False,
    stream: Stream | None = None,
    target: str | None = None,
) -> Any:
    """A gated recurrent unit (Cho et al., arXiv:1406.1078), as torch.nn.GRU: returns ``y, h_n``.

    For each step, with the gates r, z, n in this order in the rows of the weights and biases::

        a, b = x_t @ w_ih.T + b_ih, h @ w_hh.T + b_hh
        r, z = sigmoid(a_r + b_r), sigmoid(a_z + b_z)
        h = (1 - z) * tanh(a_n + r * b_n) + z * h

    Arguments and results as in `lstm`, with 3 gates, and h alone as the state.

    Raises ArgumentError for arrays that don't fit.
    """
    return _run("gru", GRU(), x, weights, state, bidirectional, batch_first, save, stream, target)


@at_call
def rnn(
    x: A,
    weights: Sequence[ArrayLike],
    state: ArrayLike | None = None,
    *,
    nonlinearity: str = "tanh",
    bidirectional: bool = False,
    batch_first: bool = False,
    save: bool = False,
    stream: Stream | None = None,
    target: str | None = None,
) -> Any:
    """``h = tanh(x_t @ w_ih.T + b_ih + h @ w_hh.T + b_hh)`` for each step, as torch.nn.RNN: returns ``y, h_n``.

    ``nonlinearity``: "tanh" or "relu". Arguments and results as in `lstm`, with one gate, and h alone as the state.

    Raises ArgumentError for arrays that don't fit.
    """
    return _run("rnn", simple_cell(nonlinearity), x, weights, state, bidirectional, batch_first, save, stream, target)


def simple_cell(nonlinearity: str) -> RNN:
    """Raises ArgumentError for another name than "tanh" and "relu"."""
    return RNN(choice("nonlinearity", nonlinearity, ("tanh", "relu")) == "relu")


class Layers:
    """What the calls of all kinds have in common: the shapes, and the parts of each layer and direction."""

    def __init__(self, cell: Cell, x: Any, weights: Sequence[Any], bidirectional: bool, batch_first: bool) -> None:
        switch("bidirectional", bidirectional)
        switch("batch_first", batch_first)
        self.cell, self.batch_first = cell, batch_first
        self.directions = 2 if bidirectional else 1
        self.x, (self.steps, self.batch, width) = arguments.inputs(x, batch_first)
        self.layers = arguments.weights(weights, self.x, width, cell.gates, self.directions)
        self.hidden, self.alone = self.layers[0][0].units, len(self.x.spec.shape) == 2
        batch = () if self.alone else (self.batch,)
        self.of_state = (len(self.layers) * self.directions, *batch, self.hidden)
        self.of_y = (*self.x.spec.shape[:-1], self.directions * self.hidden)

    @property
    def dtype(self) -> nv.DType:
        return self.x.spec.dtype

    @property
    def weights(self) -> list[Argument]:
        """All of them, in the caller's order."""
        of_directions = [weights for layer in self.layers for weights in layer]
        return [array for weights in of_directions for array in weights.arrays if array is not None]

    def states(self, given: Any, names: tuple[str, str]) -> list[Argument | None]:
        """States of all layers and directions, of which any may be None."""
        return arguments.states(given, names[: self.cell.states], self.x, self.of_state)

    def readable(self, run: Run, states: Sequence[Argument | None]) -> list[Argument | None]:
        """The states, or copies of those that kernels would read two elements at once of, and can't."""
        found: list[Argument | None] = []
        for state in states:
            if state is not None and self.batch and not arguments.in_pairs(state):
                part, state = Part.of(state), run.new("copy", state, self.of_state, self.dtype)
                given, made = (p.insert(1) if self.alone else p for p in (part, Part.of(state)))
                run.launch(packed_copy, given, made)
            found.append(state)
        return found

    def new_states(self, run: Run, names: tuple[str, str]) -> list[Argument]:
        return [run.new(name, self.x, self.of_state, self.dtype) for name in names[: self.cell.states]]

    def by_steps(self, array: Argument) -> Part:
        """[steps, batch, elements]"""
        whole = Part.of(array)
        return whole.insert(1) if self.alone else whole.swap(0, 1) if self.batch_first else whole

    def of_direction(self, arrays: Sequence[Argument | None], layer: int, direction: int) -> list[Any]:
        """Of states: [batch, hidden]."""
        parts = [None if a is None else Part.of(a).at(0, layer * self.directions + direction) for a in arrays]
        return [part if part is None or not self.alone else part.insert(0) for part in parts]

    def columns(self, y: Argument, direction: int) -> Part:
        """What a direction gives to the results of a layer."""
        return self.by_steps(y).take(2, direction * self.hidden, self.hidden)

    def saved_shapes(self) -> list[tuple[tuple[int, ...], nv.DType]]:
        """Of what a layer saves in one direction, in the order of `part.Saved`. h has its axes as x has, for products
        over all rows of both."""
        cell, (steps, batch, hidden) = self.cell, (self.steps, self.batch, self.hidden)
        found: list[tuple[tuple[int, ...], nv.DType]] = []
        found += [((steps, cell.saved, batch, hidden), cell.saved_dtype)] if cell.saved else []
        found += [((steps, batch, hidden), nv.f32)] if cell.states == 2 else []
        return [*found, ((*self.x.spec.shape[:-1], hidden), self.dtype)]

    def as_saved(self, arrays: Sequence[Argument]) -> Saved:
        """The arrays of these shapes."""
        if not arrays:
            return Saved()
        *parts, h = arrays
        gates = Part.of(parts.pop(0)) if self.cell.saved else None
        return Saved(gates, Part.of(parts[0]) if parts else None, self.by_steps(h))


def given_arrays(x: Any, weights: Any, *states: Any) -> tuple[Any, ...]:
    """All arrays of a call, one after the other. Raises ArgumentError for weights that are no sequence."""
    counted = hasattr(weights, "__len__") and getattr(weights, "shape", None) != ()
    if not counted or isinstance(weights, dict | str | bytes):
        raise ArgumentError(
            f"weights is a {type(weights).__name__}",
            rule="the weights of all layers and directions are a list, one array after the other",
            fix="pass them in the order of torch.nn.LSTM's _flat_weights",
        )
    found = [x, *weights] if isinstance(weights, list | tuple) else [x]
    for state in states:
        found += state if isinstance(state, list | tuple) else [state]
    return tuple(found)


def with_state(cell: Cell, first: Any, states: Sequence[Any], *rest: Any) -> tuple[Any, ...]:
    """Results: an LSTM's states are a pair."""
    return (first, tuple(states) if cell.states == 2 else states[0], *rest)


_calls = Calls()


def _run(
    what: str,
    cell: Cell,
    x: Any,
    weights: Sequence[Any],
    state: Any,
    bidirectional: bool,
    batch_first: bool,
    save: bool,
    stream: Stream | None,
    target: str | None,
) -> Any:
    arrays, rest = given_arrays(x, weights, state), (cell, len(weights), bidirectional, batch_first, save, target)
    results = _calls.again(arrays, rest, stream)
    if results is None:
        decorated.no_call(what)
        switch("save", save)
        layers = Layers(cell, x, weights, bidirectional, batch_first)
        start = layers.states(state, ("h_0", "c_0"))
        run = Run([layers.x, *layers.weights, *([None] if state is None else start)], stream, target)
        results = _calls.keep(arrays, rest, run, _forward(run, layers, start, save), stream)
    y, *more = results
    kept = [tuple(more[cell.states :])] if save else []
    return with_state(cell, y, more[: cell.states], *kept)


def _forward(run: Run, layers: Layers, start: Sequence[Argument | None], save: bool) -> list[Argument]:
    """The results: y, the states after the last step, what is saved."""
    end, start = layers.new_states(run, ("h_n", "c_n")), layers.readable(run, start)
    x, kept = layers.x, []
    for i, layer in enumerate(layers.layers):
        y = run.new("y", layers.x, layers.of_y, layers.dtype)
        for k, weights in enumerate(layer):
            arrays = [run.new("saved", layers.x, *one) for one in layers.saved_shapes()] if save else []
            kept += arrays
            sequence.run_forward(
                run, layers.cell, layers.by_steps(x), weights, layers.of_direction(start, i, k), layers.columns(y, k),
                layers.of_direction(end, i, k), reverse=k == 1, saved=layers.as_saved(arrays),
            )  # fmt: skip
        kept += [y] if save else []
        x = y
    return [x, *end, *kept]
