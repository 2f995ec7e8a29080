"""What recurrent layers refuse, and how a sequence is spread over blocks."""

import re

import numpy as np
import pytest

import nvdsl as nv
from nvdsl.driver.array_spec import spec_of
from nvdsl.hopper import arch
from nvdsl.kernels.arguments import Argument
from nvdsl.kernels.recurrent import arguments
from nvdsl.kernels.recurrent.cell_calls import choose as choose_cell
from nvdsl.kernels.recurrent.cells import GRU, LSTM, RNN
from nvdsl.kernels.recurrent.config import choose
from tests.sim.recurrent import Problem, check


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
    with pytest.raises(nv.ArgumentError, match="saved is a NoneType"):
        nv.rnn_backward(problem.dy, None, x, weights, state, None)
    with pytest.raises(nv.ArgumentError, match=r"pass weights\[0\]\.T"):
        nv.rnn(x, [weights[0].T, *weights[1:]], state)
    with pytest.raises(nv.ArgumentError, match=r"pass w_hh\.T"):
        nv.gru_cell(_zeros(4, 8), None, _zeros(48, 8), _zeros(16, 48))
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


@pytest.mark.parametrize(
    ("shape", "strides", "address", "fits"),
    [
        ((1, 3, 8), (24, 8, 1), 0x1000, True),
        ((1, 3, 8), (24, 8, 1), 0x1002, False),
        ((2, 3, 8), (33, 10, 1), 0x1004, False),
        ((1, 3, 7), (21, 7, 1), 0x1002, True),
        ((1, 3, 8), (48, 16, 2), 0x1002, True),
    ],
)
def test_where_two_elements_can_be_read_at_once(shape, strides, address, fits):
    assert arguments.in_pairs(Argument("h_0", spec_of(shape, nv.f16, strides), (address, None, None))) == fits


@pytest.mark.parametrize("alone", [False, True])
def test_states_that_cannot_be_read_in_pairs_are_copied(alone, monkeypatch):
    """A host array is packed before a kernel sees it, so that no address is odd here."""
    monkeypatch.setattr(arguments, "in_pairs", lambda x: False)
    check(Problem("lstm", 2, 1 if alone else 3, 7, 8, alone=alone), target="sim")
