"""What recurrent layers refuse, and how a sequence is spread over blocks."""

import re

import numpy as np
import pytest

import nvdsl as nv
from nvdsl.hopper import arch
from nvdsl.kernels.recurrent.cell_calls import choose as choose_cell
from nvdsl.kernels.recurrent.cells import GRU, LSTM, RNN
from nvdsl.kernels.recurrent.config import choose
from tests.sim.recurrent import Problem


def _lstm(**changed):
    problem = Problem("lstm", 3, 4, 8, 16)
    x, weights, state = problem.arguments()
    given = {"x": x, "weights": weights, "state": state} | changed
    return nv.lstm(**given, target="sim")


def _zeros(*shape):
    return np.zeros(shape, np.float16)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"x": np.zeros((3, 4, 8), np.float32)}, "x is of f32"),
        ({"x": np.zeros((0, 4, 8), np.float16)}, "x has the shape (0, 4, 8)"),
        ({"x": np.zeros((3, 4, 0), np.float16)}, "x has the shape (3, 4, 0)"),
        ({"x": np.zeros(8, np.float16)}, "x has the shape (8,)"),
        ({"x": [1.0]}, "x is a list"),
        ({"weights": []}, "0 weights"),
        ({"weights": [np.zeros((64, 8), np.float16)] * 3}, "3 weights"),
        ({"weights": [_zeros(64, 9), _zeros(64, 16)]}, "weights[0] has the shape (64, 9)"),
        ({"weights": [_zeros(64, 8), _zeros(60, 16)]}, "weights[1] has the shape (60, 16)"),
        ({"weights": [np.zeros((64, 8), np.float32), np.zeros((64, 16), np.float16)]}, "weights[0] is of f32"),
        ({"state": np.zeros((1, 4, 16), np.float16)}, "a state that is no pair"),
        ({"state": (_zeros(1, 4, 16), _zeros(1, 4, 17))}, "c_0 has the shape (1, 4, 17)"),
        ({"state": (np.zeros((1, 4, 16), np.float32), None)}, "h_0 is of f32"),
        ({"bidirectional": True}, "4 weights"),
        ({"bidirectional": "no"}, "bidirectional='no'"),
        ({"batch_first": 0.5}, "batch_first=0.5"),
        ({"save": "all"}, "save='all'"),
        ({"weights": {"weight_ih_l0": _zeros(64, 8)}}, "weights is a dict"),
        ({"weights": iter([_zeros(64, 8)])}, "weights is a list_iterator"),
    ],
)  # fmt: skip
def test_refused(changed, message):
    with pytest.raises(nv.ArgumentError, match=re.escape(message)) as error:
        _lstm(**changed)
    assert __file__ in str(error.value)


def test_refused_elsewhere():
    problem = Problem("rnn", 2, 3, 8, 16)
    x, weights, state = problem.arguments()
    with pytest.raises(nv.ArgumentError, match="nonlinearity='gelu'"):
        nv.rnn(x, weights, state, nonlinearity="gelu")
    with pytest.raises(nv.ArgumentError, match="0 saved arrays"):
        nv.rnn_backward(problem.dy, None, x, weights, state, ())
    with pytest.raises(nv.ArgumentError, match=r"dy is of f16 and the shape \(2, 3, 8\)"):
        nv.rnn_backward(x, None, x, weights, state, ())
    with pytest.raises(nv.ArgumentError, match="no weights"):
        nv.gru_cell(x[0], None, weights[0], None)


@pytest.mark.parametrize("cell", [LSTM(), GRU(), RNN()], ids=str)
def test_all_blocks_run_at_the_same_time(cell):
    for hidden in (1, 8, 100, 256, 513, 1000, 1024, 1536):
        for batch in (1, 64, 65, 256, 1000, 5000):
            for columns, per_unit in ((hidden, cell.gates), (cell.gates * hidden, 1)):
                config = choose(hidden, columns, per_unit, batch, arch.SMS)
                assert config is not None
                rows = min(batch, config.rows(hidden, arch.SMS))
                tiles = nv.cdiv(rows, 64 * config.consumers)
                assert rows > 0 and tiles * config.writers(hidden) <= arch.SMS
                assert config.units * per_unit <= 256 and config.stages >= 1
    assert choose(4096, 4096, 4, 64, arch.SMS) is None
    assert choose(1024, 1024, 4, 256, arch.SMS).rows(1024, arch.SMS) == 256


def test_tiles_of_cells():
    for cell in (LSTM(), GRU(), RNN()):
        for batch, hidden in ((1, 8), (64, 64), (8448, 2048), (100_000, 1000)):
            config = choose_cell(cell, batch, hidden, arch.SMS)
            assert cell.gates * config.units <= 256
    assert choose_cell(RNN(), 8448, 2048, arch.SMS).tile_m == 256
