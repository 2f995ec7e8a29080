"""``nv.lstm_cell``, ``nv.gru_cell`` and ``nv.rnn_cell``: one step, by one kernel where TMA can read the arrays."""

from __future__ import annotations

from typing import Any

import nvdsl as nv
from nvdsl.driver.stream import Stream
from nvdsl.errors.tracebacks import at_call
from nvdsl.kernels.arguments import ALIGNMENT, Argument
from nvdsl.kernels.arraylike import ArrayLike
from nvdsl.kernels.gemm.launch import resident_clusters
from nvdsl.kernels.recurrent import arguments
from nvdsl.kernels.recurrent.arguments import Weights
from nvdsl.kernels.recurrent.calls import given_arrays, simple_cell
from nvdsl.kernels.recurrent.cells import GRU, LSTM, RNN, Cell
from nvdsl.kernels.recurrent.fused import CellConfig, fused
from nvdsl.kernels.recurrent.part import Part
from nvdsl.kernels.recurrent.pointwise import forward_step
from nvdsl.kernels.recurrent.run import Calls, Run
from nvdsl.kernels.recurrent.steps import pair
from nvdsl.trace import decorated


@at_call
def lstm_cell(
    x: ArrayLike,
    state: tuple[ArrayLike | None, ArrayLike | None] | None,
    w_ih: ArrayLike,
    w_hh: ArrayLike,
    b_ih: ArrayLike | None = None,
    b_hh: ArrayLike | None = None,
    *,
    stream: Stream | None = None,
    target: str | None = None,
) -> tuple[Any, Any]:
    """One step of an LSTM, as torch.nn.LSTMCell: returns ``h, c``, new arrays of the type of ``x``.

    ``x``: (batch, inputs), or (inputs,); f16 or bf16. ``state``: ``(h, c)`` before the step, (batch, hidden) each, or
    None for zeros. ``w_ih``: (4 hidden, inputs), ``w_hh``: (4 hidden, hidden), biases (4 hidden), also f32: see
    `nvdsl.lstm`. One kernel computes all, if TMA can read the arrays (rows side by side, at multiples of 16 bytes);
    else three. Gates are f32.

    Raises ArgumentError for arrays that don't fit.
    """
    return _run("lstm_cell", LSTM(), x, state, (w_ih, w_hh, b_ih, b_hh), stream, target)


@at_call
def gru_cell(
    x: ArrayLike,
    state: ArrayLike | None,
    w_ih: ArrayLike,
    w_hh: ArrayLike,
    b_ih: ArrayLike | None = None,
    b_hh: ArrayLike | None = None,
    *,
    stream: Stream | None = None,
    target: str | None = None,
) -> Any:
    """One step of a GRU, as torch.nn.GRUCell: returns ``h``. Arguments as in `lstm_cell`; 3 gates, see `nvdsl.gru`.

    Raises ArgumentError for arrays that don't fit.
    """
    return _run("gru_cell", GRU(), x, state, (w_ih, w_hh, b_ih, b_hh), stream, target)


@at_call
def rnn_cell(
    x: ArrayLike,
    state: ArrayLike | None,
    w_ih: ArrayLike,
    w_hh: ArrayLike,
    b_ih: ArrayLike | None = None,
    b_hh: ArrayLike | None = None,
    *,
    nonlinearity: str = "tanh",
    stream: Stream | None = None,
    target: str | None = None,
) -> Any:
    """``tanh(x @ w_ih.T + b_ih + h @ w_hh.T + b_hh)``, or with ``nonlinearity="relu"`` the relu of that, as
    torch.nn.RNNCell: returns ``h``. Arguments as in `lstm_cell`, with one gate; the state may have another number of
    units than the result, as ``w_hh``, (hidden, units of the state), says.

    Raises ArgumentError for arrays that don't fit.
    """
    cell = simple_cell(nonlinearity)
    return _run("rnn_cell", cell, x, state, (w_ih, w_hh, b_ih, b_hh), stream, target)


_calls = Calls()


def _run(
    what: str, cell: Cell, x: Any, state: Any, given: tuple[Any, ...], stream: Stream | None, target: str | None
) -> Any:
    arrays, rest = given_arrays(x, given, state), (cell, target)
    results = _calls.again(arrays, rest, stream)
    if results is None:
        decorated.no_call(what)
        step, (batch, width) = arguments.step(x)
        weights = arguments.cell_weights(given, step, width, cell.gates)
        shape = (*step.spec.shape[:-1], weights.units)
        names = ("h", "c")[: cell.states]
        states = arguments.states(state, names, step, (*shape[:-1], weights.hidden.spec.shape[1]))
        run = Run([step, *weights.arrays, *([None] if state is None else states)], stream, target)
        new = [run.new(name, step, shape, step.spec.dtype) for name in names]
        if batch:
            compute = _fused if _readable(weights, [step, *states]) else _in_steps
            compute(run, cell, weights, *(list(map(_matrix, arrays)) for arrays in ([step], states, new)))
        results = _calls.keep(arrays, rest, run, new, stream)
    return tuple(results) if cell.states == 2 else results[0]


def _matrix(array: Argument | None) -> Part | None:
    if array is None:
        return None
    part = Part.of(array)
    return part if len(part.shape) == 2 else part.insert(0)


def _readable(weights: Weights, arrays: list[Argument | None]) -> bool:
    """Whether TMA reads these arrays as they lie, and writes states of as many units."""

    def fits(array: Argument) -> bool:
        *steps, last = array.spec.strides
        unit = ALIGNMENT // array.spec.dtype.bytes
        return array.aligned and last == 1 and array.spec.shape[-1] % unit == 0 and not any(s % unit for s in steps)

    unit = ALIGNMENT // weights.hidden.spec.dtype.bytes
    every = (weights.inputs, weights.hidden, *arrays)
    return weights.units % unit == 0 and all(fits(array) for array in every if array is not None)


def _fused(run: Run, cell: Cell, weights: Weights, xs: Any, states: Any, new: Any) -> None:
    config = choose(cell, xs[0].shape[0], weights.units, run.sms)
    (h, c), w_ih, w_hh, b_ih, b_hh = pair(states), *(weights.of_kinds(array, cell.gates) for array in weights.arrays)
    blocks = config.cluster * resident_clusters(config.cluster, run.sms)
    run.launch(
        fused, xs[0], h, w_ih, w_hh, b_ih, b_hh, c, *pair(new), cell=cell, config=config, blocks=blocks
    )  # fmt: skip


def choose(cell: Cell, batch: int, hidden: int, processors: int) -> CellConfig:
    """The tiles that take the fewest rounds of all SMs, weighed by the work of a round: that of a tile, and of what is
    loaded for it."""
    found: list[tuple[float, CellConfig]] = []
    for rows in (128, 64):
        for units in (128, 64, 32, 16, 8):
            for cluster in (2, 1):
                config = CellConfig(rows, units, 4, cluster)
                columns = cell.gates * units
                sums = rows * columns * (2 if isinstance(cell, GRU) else 1) // 128
                if columns > 256 or sums > 128 or cluster > 1 and hidden <= units:
                    continue
                tiles = nv.cdiv(batch, config.tile_m) * nv.cdiv(hidden, units * cluster)
                rounds = nv.cdiv(tiles, resident_clusters(cluster, processors))
                loaded = config.tile_m // cluster + columns
                found.append((rounds * (config.tile_m * columns + 64 * loaded), config))
    return min(found, key=lambda one: one[0])[1]


def _in_steps(run: Run, cell: Cell, weights: Weights, xs: Any, states: Any, new: Any) -> None:
    """For arrays of any strides and sizes."""
    batch, hidden = new[0].shape
    sums: list[Part | None] = []
    for part, weight, bias in ((xs[0], weights.inputs, weights.input_bias), (states[0], weights.hidden, None)):
        if part is None:
            sums.append(None)
            continue
        out = run.between(xs[0], (batch, cell.gates * hidden), nv.f32)
        run.product(part, Part.of(weight).swap(0, 1), out, None if bias is None else Part.of(bias))
        sums.append(out.split(1, cell.gates).swap(0, 1))
    # The products have a simple cell's state; it may have another number of units.
    before = [None, None] if isinstance(cell, RNN) else pair(states)
    added = weights.of_kinds(weights.hidden_bias, cell.gates)
    run.launch(forward_step, *sums, added, *before, *pair(new), None, None, None, None, cell=cell)
