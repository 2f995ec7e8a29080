"""Recurrent layers in NumPy, in f64: forward and backward, layers and directions as torch.nn has them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np

import nvdsl as nv

GATES = {"lstm": 4, "gru": 3, "rnn": 1, "relu": 1}
TOLERANCE = {np.float16: 4e-3, ml_dtypes.bfloat16: 3e-2}


def sigmoid(x):
    return 0.5 + 0.5 * np.tanh(0.5 * x)


def step(kind, a, b, state):
    """The new state, and what the way back needs; ``a``, ``b``: the gates' parts of inputs and hidden state."""
    a, b = (np.split(x, GATES[kind], axis=-1) for x in (a, b))
    if kind == "lstm":
        i, f, g, o = (x + y for x, y in zip(a, b, strict=True))
        i, f, g, o = sigmoid(i), sigmoid(f), np.tanh(g), sigmoid(o)
        c = f * state[1] + i * g
        return (o * np.tanh(c), c), (i, f, g, o)
    if kind == "gru":
        r, z = sigmoid(a[0] + b[0]), sigmoid(a[1] + b[1])
        n = np.tanh(a[2] + r * b[2])
        return ((1 - z) * n + z * state[0],), (r, z, n, b[2])
    gate = a[0] + b[0]
    return (np.maximum(gate, 0) if kind == "relu" else np.tanh(gate),), ()


def step_backward(kind, kept, before, after, d):
    """Gradients of the gates' two parts, and of the state before but for the weights' share."""
    if kind == "lstm":
        (i, f, g, o), (dh, dc), t = kept, d, np.tanh(after[1])
        dc = dc + dh * o * (1 - t * t)
        da = [dc * g * i * (1 - i), dc * before[1] * f * (1 - f), dc * i * (1 - g * g), dh * t * o * (1 - o)]
        return np.concatenate(da, -1), np.concatenate(da, -1), (0, dc * f)
    if kind == "gru":
        (r, z, n, m), (dh,) = kept, d
        dn = dh * (1 - z) * (1 - n * n)
        dr, dz = dn * m * r * (1 - r), dh * (before[0] - n) * z * (1 - z)
        return np.concatenate([dr, dz, dn], -1), np.concatenate([dr, dz, dn * r], -1), (dh * z,)
    da = d[0] * ((after[0] > 0) if kind == "relu" else 1 - after[0] ** 2)
    return da, da, (0,)


@dataclass
class Problem:
    """A call, its arguments drawn at random, and what it has to give."""

    kind: str
    steps: int = 3
    batch: int = 5
    inputs: int = 16
    hidden: int = 24
    layers: int = 1
    bidirectional: bool = False
    batch_first: bool = False
    biased: bool = True
    stated: bool = True
    dtype: Any = np.float16
    seed: int = 0
    alone: bool = False

    def __post_init__(self):
        rng, d, h = np.random.default_rng(self.seed), 1 + self.bidirectional, self.hidden
        assert self.kind != "relu" or self.layers == 1, "ReLU's slopes are taken from y: one layer"
        if self.alone:
            self.batch = 1
        rows = GATES[self.kind] * h
        self.weights = []
        for layer in range(self.layers):
            width = d * h if layer else self.inputs
            for _ in range(d):
                sizes = [(rows, width), (rows, h)] + [(rows,)] * 2 * self.biased
                self.weights += [(rng.uniform(-1, 1, size) / np.sqrt(h)).astype(self.dtype) for size in sizes]
        self.x = self._drawn(rng, self.steps, self.batch, self.inputs)
        states = 2 if self.kind == "lstm" else 1
        self.state = [rng.uniform(-1, 1, (self.layers * d, self.batch, h)).astype(self.dtype) for _ in range(states)]
        self.dstate = [rng.standard_normal(self.state[0].shape).astype(self.dtype) for _ in range(states)]
        self.dy = self._drawn(rng, self.steps, self.batch, d * h)
        if not self.stated:
            self.state = [np.zeros_like(x) for x in self.state]

    def _drawn(self, rng, *shape):
        return rng.standard_normal(shape).astype(self.dtype)

    # --- as the functions take it ---

    @property
    def name(self):
        return "rnn" if self.kind == "relu" else self.kind

    @property
    def options(self):
        chosen = {"bidirectional": self.bidirectional, "batch_first": self.batch_first}
        return chosen | ({"nonlinearity": "relu"} if self.kind == "relu" else {})

    def turned(self, x):
        """[steps, batch, elements] as the caller has it."""
        return x[:, 0] if self.alone else np.ascontiguousarray(x.swapaxes(0, 1)) if self.batch_first else x

    def turned_back(self, y):
        """What :meth:`turned` gave, as [steps, batch, elements]."""
        return y[:, None] if self.alone else y.swapaxes(0, 1) if self.batch_first else y

    def paired(self, states):
        found = tuple(x[:, 0] if self.alone else x for x in states)
        return found if self.kind == "lstm" else found[0]

    def arguments(self):
        return self.turned(self.x), self.weights, self.paired(self.state) if self.stated else None

    def run(self, give=lambda x: x, **options):
        """Call it, and its gradient: y, states, dx, dweights, dstate. ``give``: what makes an array of another library
        of a NumPy array, a list or a tuple of them."""
        x, weights, state = give(self.arguments())
        y, end, saved = getattr(nv, self.name)(x, weights, state, save=True, **self.options, **options)
        dy, dend = give((self.turned(self.dy), self.paired(self.dstate)))
        backward = getattr(nv, f"{self.name}_backward")
        dx, dweights, dstart = backward(dy, dend, x, weights, state, saved, **self.options, **options)
        many = self.kind == "lstm"
        return [y, *(end if many else (end,)), dx, *dweights, *((dstart if many else (dstart,)) if self.stated else ())]

    def expected(self, found_y=None):
        """The same in f64. ``found_y``: the y of the call under test, from which gradients take ReLU's slopes. These
        jump at 0, and rounding may take a sum across it."""
        wide = [w.astype(np.float64) for w in self.weights]
        each, d = 4 if self.biased else 2, 1 + self.bidirectional
        of = [[*wide[i : i + each], *([np.zeros(())] * (4 - each))] for i in range(0, len(wide), each)]
        state = [s.astype(np.float64) for s in self.state]
        layer_x, tape, end = self.x.astype(np.float64), [], [np.zeros_like(s) for s in state]
        for layer in range(self.layers):
            ys = []
            for k in range(d):
                index = layer * d + k
                w_ih, w_hh, b_ih, b_hh = of[index]
                now, steps = tuple(s[index] for s in state), []
                for t in self._order(k):
                    new, kept = step(self.kind, layer_x[t] @ w_ih.T + b_ih, now[0] @ w_hh.T + b_hh, now)
                    steps.append((t, kept, now, new))
                    now = new
                for s, value in zip(end, now, strict=True):
                    s[index] = value
                y = np.zeros((self.steps, self.batch, self.hidden))
                for t, _, _, new in steps:
                    y[t] = new[0]
                ys.append(y)
                tape.append((layer_x, steps))
            layer_x = np.concatenate(ys, -1)
        slopes = self.turned_back(found_y) if self.kind == "relu" and found_y is not None else None
        dx, dweights, dstart = self._backward(of, tape, d, slopes)
        found = [self.turned(layer_x), *(x[:, 0] if self.alone else x for x in end), self.turned(dx), *dweights]
        return found + ([x[:, 0] if self.alone else x for x in dstart] if self.stated else [])

    def _order(self, direction):
        return range(self.steps)[:: -1 if direction else 1]

    def _backward(self, of, tape, d, slopes):
        dy, dweights = self.dy.astype(np.float64), [None] * len(of)
        dstart = [np.zeros(x.shape) for x in self.dstate]
        for layer in reversed(range(self.layers)):
            dx = 0
            for k in range(d):
                index = layer * d + k
                (w_ih, w_hh, *_), (x, steps) = of[index], tape[index]
                grads = [np.zeros(w.shape) for w in of[index][:2]]
                da_all, db_all, dx_k = 0, 0, np.zeros(x.shape)
                now = tuple(s[index].astype(np.float64) for s in self.dstate)
                own = slice(k * self.hidden, (k + 1) * self.hidden)
                for t, kept, before, after in reversed(steps):
                    dh = now[0] + dy[t][:, own]
                    after = after if slopes is None else (slopes[t][:, own],)
                    da, db, rest = step_backward(self.kind, kept, before, after, (dh, *now[1:]))
                    now = (rest[0] + db @ w_hh, *rest[1:])
                    grads[0] += da.T @ x[t]
                    grads[1] += db.T @ before[0]
                    da_all, db_all = da_all + da.sum(0), db_all + db.sum(0)
                    dx_k[t] = da @ w_ih
                dweights[index] = [*grads, *([da_all, db_all] if self.biased else [])]
                dx = dx + dx_k
                for s, value in zip(dstart, now, strict=True):
                    s[index] = value
            dy = dx
        return dy, [w for each in dweights for w in each], dstart


def check(problem, give=lambda x: x, take=lambda x: x, **options):
    """Run it, and compare all results, each with its largest element as the measure."""
    found = [np.asarray(take(a)).astype(np.float64) for a in problem.run(give, **options)]
    expected = problem.expected(found[0])
    assert len(found) == len(expected)
    for i, (a, b) in enumerate(zip(found, expected, strict=True)):
        assert a.shape == b.shape, (i, a.shape, b.shape)
        worst = np.abs(a - b).max(initial=0) / max(np.abs(b).max(initial=0), 1)
        assert worst < TOLERANCE[problem.dtype], f"result {i} of {problem}: off by {worst:.2g}"
