"""The kernels of recurrent layers as cases for schedules and mutants: small, of two blocks that tell each other h."""

from __future__ import annotations

import numpy as np

from nvdsl.kernels.recurrent.backward import backward
from nvdsl.kernels.recurrent.cells import LSTM, RNN
from nvdsl.kernels.recurrent.config import Config
from nvdsl.kernels.recurrent.forward import forward
from nvdsl.kernels.recurrent.fused import CellConfig, fused
from tests.sim.programs import Case
from tests.sim.recurrent import step, step_backward
from tests.sim.simulate import traced


def _drawn(*shape: int, dtype=np.float16) -> np.ndarray:
    return np.random.default_rng(shape).uniform(-1, 1, shape).astype(dtype)


def _nan(*shape: int, dtype=np.float16) -> np.ndarray:
    return np.full(shape, np.nan, dtype)


def _case(program, outputs, expected) -> Case:
    def check() -> None:
        for found, value in zip(outputs, expected, strict=True):
            np.testing.assert_allclose(found.astype(np.float64), value, rtol=4e-3, atol=4e-3)

    def reset() -> None:
        for out in outputs:
            out.fill(np.nan)

    return Case(program, check, reset)


def sequence(steps=2, batch=3, hidden=136) -> Case:
    """A simple layer, with more slices of h than slots, and h before each step, which a backward pass would take."""
    x, w, b = _drawn(steps, 1, batch, hidden), _drawn(1, hidden, hidden) / np.float16(8), _drawn(1, hidden)
    h = _drawn(batch, hidden)
    out = [_nan(steps, batch, hidden), _nan(batch, hidden), _nan(steps, batch, hidden)]
    config = Config(units=72, consumers=1, slice_cols=64, stages=2)
    given = [x, w, b, h, None, *out[:2], None, None, None, out[2]]
    ys, before, now = [], [], h.astype(np.float64)
    for t in range(steps):
        before.append(now)
        (now,), _ = step("rnn", x[t, 0].astype(np.float64), now @ w[0].astype(np.float64).T + b[0], (now,))
        ys.append(now)
    return _case(traced(forward, *given, cell=RNN(), config=config), out, [np.stack(ys), now, np.stack(before)])


def gradients(steps=3, batch=3, hidden=72) -> Case:
    """The way back through an LSTM."""
    dy, w = _drawn(steps, batch, hidden), _drawn(4, hidden, hidden) / np.float16(8)
    dh, dc = _drawn(batch, hidden), -_drawn(batch, hidden)
    saved, c = (_drawn(*s, dtype=np.float32) for s in ((steps, 4, batch, hidden), (steps + 1, batch, hidden)))
    out = [_nan(steps, 4, batch, hidden), _nan(batch, hidden), _nan(batch, hidden)]
    config = Config(units=40, consumers=1, slice_cols=64, stages=3)
    given = [dy, w, saved, c[1:], c[0].astype(np.float16), dh, dc, out[0], None, *out[1:]]
    now, gates = (dh.astype(np.float64), dc.astype(np.float64)), [None] * steps
    wide = [c[0].astype(np.float16), *c[1:]]
    for t in reversed(range(steps)):
        before, after = ((0, wide[i].astype(np.float64)) for i in (t, t + 1))
        d, _, rest = step_backward("lstm", saved[t].astype(np.float64), before, after, (now[0] + dy[t], now[1]))
        now = d @ w.reshape(-1, hidden).astype(np.float64), rest[1]
        gates[t] = np.stack(np.split(d, 4, -1))
    return _case(traced(backward, *given, cell=LSTM(), config=config), out, [np.stack(gates), *now])


def cell(batch=72, inputs=136, hidden=72) -> Case:
    """A step of an LSTM in one kernel of a cluster."""
    x, b = _drawn(batch, inputs), _drawn(4, hidden)
    w_ih, w_hh = (_drawn(4, hidden, n) / np.float16(8) for n in (inputs, hidden))
    h, c = _drawn(batch, hidden), -_drawn(batch, hidden)
    out = [_nan(batch, hidden), _nan(batch, hidden)]
    config = CellConfig(rows=64, units=32, stages=2, cluster=2)
    program = traced(fused, x, h, w_ih, w_hh, b, None, c, *out, cell=LSTM(), config=config, blocks=2)
    wide = [a.astype(np.float64) for a in (x, w_ih, h, w_hh, b, c)]
    parts = [a @ w.reshape(-1, w.shape[-1]).T for a, w in (wide[:2], wide[2:4])]
    return _case(program, out, step("lstm", parts[0] + wide[4].reshape(-1), parts[1], (wide[2], wide[5]))[0])
