"""``nv.lstm_backward``, ``nv.gru_backward``, ``nv.rnn_backward``: gradients of inputs, weights and states at first."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import nvdsl as nv
from nvdsl.driver.stream import Stream
from nvdsl.errors import ArgumentError
from nvdsl.errors.tracebacks import at_call
from nvdsl.kernels.arguments import Argument
from nvdsl.kernels.arraylike import ArrayLike
from nvdsl.kernels.recurrent import sequence
from nvdsl.kernels.recurrent.arguments import Weights
from nvdsl.kernels.recurrent.calls import Layers, given_arrays, simple_cell, with_state
from nvdsl.kernels.recurrent.cells import GRU, LSTM, Cell
from nvdsl.kernels.recurrent.part import Part
from nvdsl.kernels.recurrent.pointwise import column_sums, packed_copy
from nvdsl.kernels.recurrent.run import Calls, Run
from nvdsl.trace import decorated


@at_call
def lstm_backward(
    dy: ArrayLike,
    dstate: tuple[ArrayLike | None, ArrayLike | None] | None,
    x: ArrayLike,
    weights: Sequence[ArrayLike],
    state: tuple[ArrayLike | None, ArrayLike | None] | None,
    saved: Sequence[ArrayLike],
    *,
    bidirectional: bool = False,
    batch_first: bool = False,
    stream: Stream | None = None,
    target: str | None = None,
) -> tuple[Any, list[Any], tuple[Any, Any]]:
    """The gradients of `nvdsl.lstm`: returns ``dx, dweights, (dh_0, dc_0)``.

    ``dy``: the gradient of ``y``, ``dstate``: of ``(h_n, c_n)``, each of which may be None for zeros. ``x``,
    ``weights``, ``state``, ``bidirectional``, ``batch_first``: what the forward call was given; ``saved``: what it
    returned with ``save=True``. Gradients are of the type of x; those of the gates are rounded to it on their way
    through the products. ``dweights`` stand in the order of the weights, each of its weight's type.

    Raises ArgumentError for arrays that don't fit.
    """
    given = dy, dstate, x, weights, state, saved
    return _run("lstm_backward", LSTM(), *given, bidirectional, batch_first, stream, target)


@at_call
def gru_backward(
    dy: ArrayLike,
    dstate: ArrayLike | None,
    x: ArrayLike,
    weights: Sequence[ArrayLike],
    state: ArrayLike | None,
    saved: Sequence[ArrayLike],
    *,
    bidirectional: bool = False,
    batch_first: bool = False,
    stream: Stream | None = None,
    target: str | None = None,
) -> tuple[Any, list[Any], Any]:
    """The gradients of `nvdsl.gru`: returns ``dx, dweights, dh_0``. Arguments as in `lstm_backward`.

    Raises ArgumentError for arrays that don't fit.
    """
    given = dy, dstate, x, weights, state, saved
    return _run("gru_backward", GRU(), *given, bidirectional, batch_first, stream, target)


@at_call
def rnn_backward(
    dy: ArrayLike,
    dstate: ArrayLike | None,
    x: ArrayLike,
    weights: Sequence[ArrayLike],
    state: ArrayLike | None,
    saved: Sequence[ArrayLike],
    *,
    nonlinearity: str = "tanh",
    bidirectional: bool = False,
    batch_first: bool = False,
    stream: Stream | None = None,
    target: str | None = None,
) -> tuple[Any, list[Any], Any]:
    """The gradients of `nvdsl.rnn`: returns ``dx, dweights, dh_0``. Arguments as in `lstm_backward`.

    Raises ArgumentError for arrays that don't fit.
    """
    given = dy, dstate, x, weights, state, saved
    return _run("rnn_backward", simple_cell(nonlinearity), *given, bidirectional, batch_first, stream, target)


_calls = Calls()


def _run(
    what: str,
    cell: Cell,
    dy: Any,
    dstate: Any,
    x: Any,
    weights: Sequence[Any],
    state: Any,
    saved: Sequence[Any],
    bidirectional: bool,
    batch_first: bool,
    stream: Stream | None,
    target: str | None,
) -> Any:
    if not isinstance(saved, list | tuple):
        raise ArgumentError(
            f"saved is a {type(saved).__name__}", rule="what the forward call saved is a tuple of arrays",
            fix="call it with save=True, and pass its third result",
        )  # fmt: skip
    arrays = given_arrays(x, weights, state, dy, dstate, tuple(saved))
    rest = cell, len(weights), state is None, dstate is None, bidirectional, batch_first, target
    results = _calls.again(arrays, rest, stream)
    if results is None:
        decorated.no_call(what)
        layers = Layers(cell, x, weights, bidirectional, batch_first)
        start, dend = layers.states(state, ("h_0", "c_0")), layers.states(dstate, ("dh_n", "dc_n"))
        gradient = _like("dy", dy, layers.of_y, layers.dtype)
        kept = _saved(layers, saved)
        given = [*([None] if state is None else start), gradient, *([None] if dstate is None else dend)]
        run = Run([layers.x, *layers.weights, *given, *kept], stream, target)
        made = _backward(run, layers, gradient, start, dend, kept)
        results = _calls.keep(arrays, rest, run, made, stream)
    dx, *more = results
    dx, dstate = with_state(cell, dx, more[: cell.states])
    return dx, more[cell.states :], dstate


def _saved(layers: Layers, saved: Sequence[Any]) -> list[Argument]:
    """Of each layer: what each direction saves, and y."""
    of_layer = [*layers.saved_shapes() * layers.directions, (layers.of_y, layers.dtype)]
    expected = of_layer * len(layers.layers)
    if len(saved) != len(expected):
        raise ArgumentError(
            f"{len(saved)} saved arrays", rule=f"{len(expected)}, as the forward call returned them",
            fix="call it with save=True, and pass its third result",
        )  # fmt: skip
    return [_like("saved", array, *one) for array, one in zip(saved, expected, strict=True)]


def _backward(
    run: Run,
    layers: Layers,
    gradient: Argument,
    start: Sequence[Argument | None],
    dend: Sequence[Argument | None],
    saved: Sequence[Argument],
) -> list[Argument]:
    """The results: dx, the gradients of the states at first, those of the weights."""
    cell, directions = layers.cell, layers.directions
    dstart = layers.new_states(run, ("dh_0", "dc_0"))
    start, dend = layers.readable(run, start), layers.readable(run, dend)
    each, dweights = len(saved) // len(layers.layers), list[Argument]()
    for i in reversed(range(len(layers.layers))):
        *arrays, y = saved[i * each : (i + 1) * each]
        x = layers.x if i == 0 else saved[i * each - 1]
        x_steps, dx = _packed(run, layers, layers.by_steps(x), 1), run.new("dx", layers.x, x.spec.shape, layers.dtype)
        of_layer: list[Argument] = []
        for k, weights in enumerate(layers.layers[i]):
            part = len(arrays) // directions
            kept = layers.as_saved(arrays[k * part : (k + 1) * part])
            dx_gates = _gates(run, layers)
            dh_gates = _gates(run, layers) if isinstance(cell, GRU) else dx_gates
            sequence.run_backward(
                run, cell, _packed(run, layers, layers.columns(gradient, k), 2), weights,
                layers.of_direction(start, i, k), layers.columns(y, k), kept, layers.of_direction(dend, i, k), dx_gates,
                dh_gates, layers.of_direction(dstart, i, k), reverse=k == 1,
            )  # fmt: skip
            of_layer += _of_weights(run, layers, weights, x_steps, kept.h, dx_gates, dh_gates)
            out = _matrix(layers, layers.by_steps(dx))
            run.product(_matrix(layers, dx_gates), Part.of(weights.inputs), out, added=k == 1)
        dweights = of_layer + dweights
        gradient = dx
    return [gradient, *dstart, *dweights]


def _of_weights(
    run: Run, layers: Layers, weights: Weights, x: Part, h: Any, dx_gates: Part, dh_gates: Part
) -> list[Argument]:
    """Gradients of a layer's weights in one direction: products over all steps and rows of the batch."""
    made = []
    for weight, gates, other in ((weights.inputs, dx_gates, x), (weights.hidden, dh_gates, h)):
        out = run.new("dweight", layers.x, weight.spec.shape, weight.spec.dtype)
        run.product(_matrix(layers, gates).swap(0, 1), _matrix(layers, other), Part.of(out))
        made.append(out)
    if weights.input_bias is None or weights.hidden_bias is None:
        return made
    biases = weights.input_bias, weights.hidden_bias
    sums = [run.new("dbias", layers.x, bias.spec.shape, bias.spec.dtype) for bias in biases]
    of_x, of_h = map(Part.of, sums)
    run.launch(column_sums, _matrix(layers, dx_gates), of_x, of_h if dh_gates is dx_gates else None)
    if dh_gates is not dx_gates:
        run.launch(column_sums, _matrix(layers, dh_gates), of_h, None)
    return [*made, *sums]


def _like(name: str, array: Any, shape: tuple[int, ...], dtype: nv.DType) -> Argument:
    found = Argument.of(name, array)
    if found.spec.dtype is not dtype or found.spec.shape != shape:
        raise ArgumentError(
            f"{name} is of {found.spec.dtype.name} and the shape {found.spec.shape}",
            rule=f"{dtype.name} of the shape {shape}",
            fix="pass what the forward call returned with save=True" if name == "saved" else "convert it",
        )
    return found


def _gates(run: Run, layers: Layers) -> Part:
    """Gradients of gates, [steps, batch, gates * hidden]; in memory in the order of x."""
    columns = layers.cell.gates * layers.hidden
    return layers.by_steps(run.new("gates", layers.x, (*layers.x.spec.shape[:-1], columns), layers.dtype))


def _turned(layers: Layers, part: Part) -> Part:
    """The first two axes in the order that x has them in."""
    return part.swap(0, 1) if layers.batch_first and not layers.alone else part


def _matrix(layers: Layers, part: Part) -> Part:
    """All rows of all steps, in the order of x."""
    found = _turned(layers, part).joined(0)
    assert found is not None
    return found


def _packed(run: Run, layers: Layers, part: Part, multiple: int) -> Part:
    """The same elements so that one matrix has them all, and each row starts at such a multiple of elements, if its
    length is one; a copy where they don't."""
    size = part.array.spec.dtype.bytes
    *steps, last = part.strides
    place = part.start + (part.array.memory[0] // size if part.array.host is None else 0)
    fits = part.shape[-1] % multiple or last == 1 and not any(x % multiple for x in (place, *steps))
    if fits and _turned(layers, part).joined(0) is not None:
        return part
    shape = (*layers.x.spec.shape[:-1], part.shape[-1])
    made = layers.by_steps(run.new("copy", layers.x, shape, layers.dtype))
    if layers.batch:
        run.launch(packed_copy, part, made)
    return made
