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
from nvdsl.kernels.gemm.matmul import matmul
from nvdsl.kernels.recurrent import sequence
from nvdsl.kernels.recurrent.arguments import Weights
from nvdsl.kernels.recurrent.calls import Layers, as_saved, saved_shapes, simple_cell
from nvdsl.kernels.recurrent.cells import GRU, LSTM
from nvdsl.kernels.recurrent.part import Part
from nvdsl.kernels.recurrent.pointwise import column_sums, packed_copy
from nvdsl.trace import decorated


@at_call
def lstm_backward(
    dy: ArrayLike,
    dstate: tuple[ArrayLike | None, ArrayLike | None] | None,
    x: ArrayLike,
    weights: Sequence[ArrayLike],
    state: tuple[ArrayLike, ArrayLike] | None,
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
    layers = Layers(LSTM(), x, weights, bidirectional, batch_first, stream=stream, target=target)
    return _run("lstm_backward", layers, dy, dstate, state, saved)


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
    layers = Layers(GRU(), x, weights, bidirectional, batch_first, stream=stream, target=target)
    return _run("gru_backward", layers, dy, dstate, state, saved)


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
    cell = simple_cell(nonlinearity)
    layers = Layers(cell, x, weights, bidirectional, batch_first, stream=stream, target=target)
    return _run("rnn_backward", layers, dy, dstate, state, saved)


def _run(what: str, layers: Layers, dy: Any, dstate: Any, state: Any, saved: Sequence[Any]) -> Any:
    decorated.no_call(what)
    cell, directions = layers.cell, layers.directions
    start, dend = layers.states(state, ("h_0", "c_0")), layers.states(dstate, ("dh_n", "dc_n"))
    dstart = layers.new_states(("dh_0", "dc_0"))
    gradient = _like("dy", dy, layers.of_y, layers.x.spec.dtype)
    shapes = saved_shapes(layers)
    each = len(shapes) * directions + 1
    if len(saved) != each * len(layers.layers):
        raise ArgumentError(
            f"{len(saved)} saved arrays", rule=f"{each * len(layers.layers)}, as the forward call returned them"
        )
    dweights: list[Argument] = []
    for i in reversed(range(len(layers.layers))):
        arrays = list(saved[i * each : (i + 1) * each])
        y = _like("saved", arrays.pop(), layers.of_y, layers.x.spec.dtype)
        x = layers.x if i == 0 else _like("saved", saved[i * each - 1], layers.of_y, layers.x.spec.dtype)
        x_steps, dx = _packed(layers, layers.by_steps(x), 1), layers.output("dx", x.spec.shape)
        of_layer: list[Argument] = []
        for k, weights in enumerate(layers.layers[i]):
            mine = arrays[k * len(shapes) : (k + 1) * len(shapes)]
            kept = as_saved(layers, [_like("saved", array, *one) for array, one in zip(mine, shapes, strict=True)])
            dx_gates = _gates(layers)
            dh_gates = _gates(layers) if isinstance(cell, GRU) else dx_gates
            sequence.run_backward(
                cell, _packed(layers, layers.columns(gradient, k), 2), weights, layers.of_direction(start, i, k),
                layers.columns(y, k), kept, layers.of_direction(dend, i, k), dx_gates, dh_gates,
                layers.of_direction(dstart, i, k), reverse=k == 1, **layers.options,
            )  # fmt: skip
            of_layer += _of_weights(layers, weights, x_steps, kept.h, dx_gates, dh_gates)
            out = _matrix(layers, layers.by_steps(dx))
            _product(layers, _matrix(layers, dx_gates), Part.of(weights.inputs), out, added=k == 1)
        dweights = of_layer + dweights
        gradient = dx
    return gradient.result(), [array.result() for array in dweights], layers.result(dstart)


def _of_weights(
    layers: Layers, weights: Weights, x: Part, h: Any, dx_gates: Part, dh_gates: Part
) -> list[Argument]:
    """Gradients of a layer's weights in one direction: products over all steps and rows of the batch."""
    made = []
    pairs = [(weights.inputs, dx_gates, x), (weights.hidden, dh_gates, h)]
    for weight, gates, other in pairs:
        out = layers.output("dweight", weight.spec.shape, weight.spec.dtype)
        _product(layers, _matrix(layers, gates).swap(0, 1), _matrix(layers, other), Part.of(out))
        made.append(out)
    for bias, gates in ((weights.input_bias, dx_gates), (weights.hidden_bias, dh_gates)):
        if bias is not None:
            out = layers.output("dbias", bias.spec.shape, bias.spec.dtype)
            column_sums(_matrix(layers, gates).view(), out.view(), **layers.options)
            made.append(out)
    return made


def _like(name: str, array: Any, shape: tuple[int, ...], dtype: nv.DType) -> Argument:
    found = Argument.of(name, array)
    if found.spec.dtype is not dtype or found.spec.shape != shape:
        raise ArgumentError(
            f"{name} is of {found.spec.dtype.name} and the shape {found.spec.shape}",
            rule=f"{dtype.name} of the shape {shape}",
            fix="pass what the forward call returned with save=True" if name == "saved" else "convert it",
        )
    return found


def _gates(layers: Layers) -> Part:
    """Gradients of gates, [steps, batch, gates * hidden]; in memory in the order of x."""
    columns = layers.cell.gates * layers.hidden
    return layers.by_steps(layers.output("gates", (*layers.x.spec.shape[:-1], columns)))


def _matrix(layers: Layers, part: Part) -> Part:
    """All rows of all steps, in the order that x has by its axes."""
    found = (part.swap(0, 1) if layers.batch_first and not layers.alone else part).joined(0)
    assert found is not None
    return found


def _packed(layers: Layers, part: Part, multiple: int) -> Part:
    """The same elements so that one matrix has them all, and each row starts at such a multiple of elements, if its
    length is one; a copy where they don't."""
    swapped = part.swap(0, 1) if layers.batch_first and not layers.alone else part
    size = part.array.spec.dtype.bytes
    *steps, last = part.strides
    place = part.start + (part.array.memory[0] // size if part.array.host is None else 0)
    fits = part.shape[-1] % multiple or last == 1 and not any(x % multiple for x in (place, *steps))
    if fits and swapped.joined(0) is not None:
        return part
    made = layers.by_steps(layers.output("copy", (*layers.x.spec.shape[:-1], part.shape[-1])))
    if layers.batch:
        packed_copy(part.view(), made.view(), **layers.options)
    return made


def _product(layers: Layers, a: Part, b: Part, out: Part, added: bool = False) -> None:
    """``out = a @ b``, or that added to it."""
    matmul(a.view(), b.view(), out.view(), c=out.view() if added else None, **layers.options)
