"""nv.lstm, nv.gru, nv.rnn, their gradients and cells in the simulator, beside f64."""

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import nvdsl as nv
from nvdsl.kernels.recurrent import cell_calls, sequence
from nvdsl.kernels.recurrent.config import Config
from tests.exhaustive import exhaustive, sample
from tests.sim.recurrent import GATES, Problem, check, step


@pytest.fixture(autouse=True)
def in_the_simulator(monkeypatch):
    monkeypatch.setenv("NVDSL_TARGET", "sim")


PROBLEMS = [
    Problem("lstm", 3, 5, 7, 13),
    Problem("lstm", 2, 70, 16, 24, dtype=ml_dtypes.bfloat16),
    Problem("lstm", 2, 3, 8, 16, layers=2, bidirectional=True, stated=False),
    Problem("lstm", 2, 1, 16, 40, batch_first=True, biased=False),
    Problem("lstm", 1, 1, 1, 1),
    Problem("gru", 2, 3, 9, 20, layers=2, bidirectional=True, batch_first=True),
    Problem("gru", 3, 4, 16, 72, stated=False),
    Problem("gru", 2, 130, 8, 8),
    Problem("gru", 2, 70, 8, 24),  # clusters return while stores of others are on their way
    Problem("rnn", 4, 1, 5, 8, alone=True),
    Problem("rnn", 3, 2, 16, 96, bidirectional=True),
    Problem("relu", 3, 2, 8, 33, dtype=ml_dtypes.bfloat16),
]


@pytest.mark.parametrize("problem", sample(PROBLEMS, 1), ids=str)
def test_beside_f64(problem):
    check(problem)


@exhaustive
@settings(max_examples=6, deadline=None)
@given(
    kind=st.sampled_from([*GATES]), steps=st.integers(1, 4), batch=st.integers(1, 80), inputs=st.integers(1, 40),
    hidden=st.integers(1, 90), flags=st.tuples(*[st.booleans()] * 4),
    dtype=st.sampled_from([np.float16, ml_dtypes.bfloat16]),
)  # fmt: skip
def test_any_sizes(kind, steps, batch, inputs, hidden, flags, dtype):
    bidirectional, batch_first, biased, stated = flags
    check(Problem(kind, steps, batch, inputs, hidden, 1, bidirectional, batch_first, biased, stated, dtype))


@pytest.mark.parametrize("kind", sample(["lstm", "gru", "relu"], 1))
def test_weights_that_no_block_can_keep(kind, monkeypatch):
    monkeypatch.setattr(sequence, "choose", lambda *args: None)
    check(Problem(kind, 2, 3, 5, 9, bidirectional=kind == "gru"))


@exhaustive
def test_a_batch_in_several_launches(monkeypatch):
    monkeypatch.setattr(Config, "rows", lambda self, hidden, sms: 64)
    check(Problem("gru", 2, 150, 8, 16))


def test_strided_arrays():
    problem = Problem("rnn", 3, 4, 6, 10, biased=False)
    expected = problem.expected()
    x, (w_ih, w_hh), state = problem.arguments()
    apart = np.zeros((3, 8, 12), np.float16)[:, ::2, ::2]
    apart[...] = x
    y, end = nv.rnn(apart, [np.asfortranarray(w_ih), w_hh.T.copy().T], state[:, ::-1][:, ::-1])
    np.testing.assert_allclose(y.astype(float), expected[0], atol=4e-3)
    np.testing.assert_allclose(end.astype(float), expected[1], atol=4e-3)


def test_special_values_stay_in_their_row():
    problem = Problem("rnn", 2, 4, 8, 16)
    x, weights, state = problem.arguments()
    x[0, 1, 3], x[0, 2] = np.nan, 6e4
    y, end = nv.rnn(x, weights, state)
    assert np.isnan(y[:, 1]).all() and np.isfinite(y[:, [0, 2, 3]]).all()
    assert np.isnan(end[0, 1]).all() and (np.abs(y[:, 2]) <= 1).all()


def test_nothing_to_do():
    problem = Problem("lstm", 3, 1, 8, 16)
    x, weights, _ = problem.arguments()
    y, (h, c) = nv.lstm(x[:, :0], weights)
    assert (y.shape, h.shape, c.shape) == ((3, 0, 16), (1, 0, 16), (1, 0, 16))
    h, c = nv.lstm_cell(x[0, :0], None, *weights)
    assert h.shape == c.shape == (0, 16)


CELLS = [("lstm", 33, 72, 48, True), ("lstm", 3, 7, 13, True), ("gru", 40, 16, 24, False), ("rnn", 5, 8, 16, True),
         ("gru", 1, 3, 9, True), ("relu", 70, 16, 8, False), ("lstm", 5, 16, 8, False)]  # fmt: skip


@pytest.mark.parametrize(("kind", "batch", "inputs", "hidden", "stated"), sample(CELLS, 2))
def test_cells(kind, batch, inputs, hidden, stated, monkeypatch):
    problem = Problem(kind, 1, batch, inputs, hidden, stated=stated)
    x, weights, _ = problem.arguments()
    state = tuple(s[0] for s in problem.state)
    wide = [w.astype(np.float64) for w in weights]
    parts = x[0] @ wide[0].T + wide[2], state[0] @ wide[1].T + wide[3]
    expected, _ = step(kind, *parts, state)
    ran = []
    monkeypatch.setattr(cell_calls, "_fused", lambda *given, of=cell_calls._fused: ran.append(of(*given)))
    given = None if not stated else state if kind == "lstm" else state[0]
    chosen = {"nonlinearity": "relu"} if kind == "relu" else {}
    found = getattr(nv, f"{problem.name}_cell")(x[0], given, *weights, **chosen)
    for a, b in zip(found if kind == "lstm" else (found,), expected, strict=True):
        np.testing.assert_allclose(a.astype(np.float64), b, atol=3e-3)
    assert bool(ran) == (inputs % 8 == hidden % 8 == 0)


def test_a_simple_cell_of_another_width():
    rng = np.random.default_rng(0)
    x, h, w_ih, w_hh = (rng.standard_normal(s).astype(np.float16) / 4 for s in ((5, 24), (5, 8), (16, 24), (16, 8)))
    for state in (h, np.concatenate([h, h], 1)[:, :8]):
        found = nv.rnn_cell(x, state, w_ih, w_hh, nonlinearity="relu")
        expected = np.maximum(x.astype(float) @ w_ih.T.astype(float) + h.astype(float) @ w_hh.T.astype(float), 0)
        np.testing.assert_allclose(found.astype(float), expected, atol=3e-3)
