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
from nvdsl.kernels.recurrent import arguments, sequence
from nvdsl.kernels.recurrent.cells import GRU, LSTM, RNN, Cell
from nvdsl.kernels.recurrent.part import Part, Saved
from nvdsl.trace import decorated

A = TypeVar("A", bound=ArrayLike)


@at_call
def lstm(
    x: A,
    weights: Sequence[ArrayLike],
    state: tuple[ArrayLike, ArrayLike] | None = None,
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
    ``(h_0, c_0)``, each (layers * directions, batch, hidden), zeros where it is None. Strides may be any.

    ``y`` is (steps, batch, directions * hidden), or as ``x`` has its axes: the h of the last layer. ``h_n`` and
    ``c_n`` are the states after the last step (in the other direction the first one). All are new arrays of the type
    of ``x``. Gates are computed in f32, and so is the state until it is stored. ``save``: return a third result, the
    arrays that `lstm_backward` needs.

    Raises ArgumentError for arrays that don't fit.
    """
    layers = Layers(LSTM(), x, weights, bidirectional, batch_first, stream=stream, target=target)
    return _run("lstm", layers, state, save)


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
    layers = Layers(GRU(), x, weights, bidirectional, batch_first, stream=stream, target=target)
    return _run("gru", layers, state, save)


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
    cell = simple_cell(nonlinearity)
    layers = Layers(cell, x, weights, bidirectional, batch_first, stream=stream, target=target)
    return _run("rnn", layers, state, save)


def simple_cell(nonlinearity: str) -> RNN:
    """Raises ArgumentError for another name than "tanh" and "relu"."""
    if nonlinearity not in ("tanh", "relu"):
        raise ArgumentError(f"nonlinearity={nonlinearity!r}", rule="it is \"tanh\" or \"relu\"")
    return RNN(nonlinearity == "relu")


class Layers:
    """What all calls of a kind have in common: the shapes, and the parts of each layer and direction."""

    def __init__(
        self, cell: Cell, x: Any, weights: Sequence[Any], bidirectional: bool, batch_first: bool, **options: Any
    ) -> None:
        self.cell, self.batch_first, self.options = cell, batch_first, options
        self.directions = 2 if bidirectional else 1
        self.x, (self.steps, self.batch, width) = arguments.inputs(x, batch_first)
        self.layers = arguments.weights(weights, self.x, width, cell.gates, self.directions)
        self.hidden, self.alone = self.layers[0][0].units, len(self.x.spec.shape) == 2
        batch = () if self.alone else (self.batch,)
        self.of_state = (len(self.layers) * self.directions, *batch, self.hidden)
        self.of_y = (*self.x.spec.shape[:-1], self.directions * self.hidden)

    def states(self, given: Any, names: tuple[str, str]) -> list[Argument | None]:
        """States of all layers and directions, of which any may be None."""
        return arguments.states(given, names[: self.cell.states], self.x, self.of_state)

    def new_states(self, names: tuple[str, str]) -> list[Argument]:
        return [self.output(name, self.of_state) for name in names[: self.cell.states]]

    def output(self, name: str, shape: tuple[int, ...], dtype: nv.DType | None = None) -> Argument:
        """A new array beside x."""
        return Argument.output(name, None, self.x, shape, dtype or self.x.spec.dtype)

    @property
    def of_steps(self) -> tuple[int, int, int]:
        """Steps, rows of the batch, hidden units."""
        return self.steps, self.batch, self.hidden

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

    def result(self, arrays: Sequence[Argument]) -> Any:
        results = [array.result() for array in arrays]
        return tuple(results) if self.cell.states == 2 else results[0]


def _run(what: str, layers: Layers, state: Any, save: bool) -> Any:
    decorated.no_call(what)
    cell = layers.cell
    start, end = layers.states(state, ("h_0", "c_0")), layers.new_states(("h_n", "c_n"))
    x, kept = layers.x, []
    for i, layer in enumerate(layers.layers):
        y = layers.output("y", layers.of_y)
        for k, weights in enumerate(layer):
            arrays = [layers.output("saved", *one) for one in saved_shapes(layers)] if save else []
            kept += arrays
            sequence.run(
                cell, layers.by_steps(x), weights, layers.of_direction(start, i, k), layers.columns(y, k),
                layers.of_direction(end, i, k), reverse=k == 1, saved=as_saved(layers, arrays), **layers.options,
            )  # fmt: skip
        kept += [y] if save else []
        x = y
    results = x.result(), layers.result(end)
    return (*results, tuple(array.result() for array in kept)) if save else results


def saved_shapes(layers: Layers) -> list[tuple[tuple[int, ...], nv.DType]]:
    """Of what a layer saves in one direction, in the order of `part.Saved`. h has its axes as x has, for products over
    all rows of both."""
    cell, (steps, batch, hidden) = layers.cell, layers.of_steps
    found: list[tuple[tuple[int, ...], nv.DType]] = []
    found += [((steps, cell.saved, batch, hidden), cell.saved_dtype)] if cell.saved else []
    found += [((steps, batch, hidden), nv.f32)] if cell.states == 2 else []
    return [*found, ((*layers.x.spec.shape[:-1], hidden), layers.x.spec.dtype)]


def as_saved(layers: Layers, arrays: Sequence[Argument]) -> Saved:
    """The arrays of these shapes."""
    if not arrays:
        return Saved()
    *parts, h = arrays
    gates = Part.of(parts.pop(0)) if layers.cell.saved else None
    return Saved(gates, Part.of(parts[0]) if parts else None, layers.by_steps(h))
