"""nv.lstm and nv.rnn_cell beside torch (cuDNN, cuBLAS): milliseconds of forward, forward to train, backward, and cells.

python benchmarks/bench_lstm.py [--quick] [--out benchmarks/results/lstm-h200.json]
"""

from __future__ import annotations

import argparse
import statistics
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

import nvdsl as nv

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from benchmarks.paired import machine, race, write

SEQUENCES = [
    ("lstm", 128, 256, 1024, torch.float16),
    ("gru", 128, 256, 1024, torch.float16),
    ("lstm", 100, 100, 1000, torch.bfloat16),
    ("lstm", 512, 32, 256, torch.float16),
]
CELLS = [("rnn", 8448, 1024, 1024, 2048), ("rnn", 8448, 2048, 2048, 2048), ("lstm", 4096, 1024, 1024, 1024),
         ("gru", 4096, 1024, 1024, 1024)]  # fmt: skip
"""Kind, rows, inputs, units of the state before, units. Graphene's is the simple one: relu(W x + R h + b)."""


def ratios(times: dict[str, list[float]]) -> dict[str, Any]:
    ours, torchs = times["nvdsl"], times["torch"]
    return {
        "nvdsl_ms": statistics.median(ours),
        "torch_ms": statistics.median(torchs),
        "speedup": statistics.median(b / a for a, b in zip(ours, torchs, strict=True)),
    }


def sequence(kind: str, steps: int, batch: int, hidden: int, dtype: torch.dtype, rounds: int) -> list[dict[str, Any]]:
    torch.manual_seed(steps + hidden)
    model = {"lstm": torch.nn.LSTM, "gru": torch.nn.GRU}[kind](hidden, hidden).cuda().to(dtype)
    model.flatten_parameters()
    x = torch.randn(steps, batch, hidden, device="cuda", dtype=dtype)
    weights = [w.detach() for w in model._flat_weights]
    ours, back = getattr(nv, kind), getattr(nv, f"{kind}_backward")
    with torch.no_grad():
        expected, _ = model(x)
    found, _, saved = ours(x, weights, save=True)
    torch.testing.assert_close(found.float(), expected.float(), rtol=0, atol=1e-2 if dtype is torch.float16 else 6e-2)
    needs = x.clone().requires_grad_()
    y = model(needs)[0]
    dy = torch.randn_like(y)
    dx, dweights, _ = back(dy, None, x, weights, None, saved)
    expected_d = torch.autograd.grad(y, [needs, *model._flat_weights], dy, retain_graph=True)
    for a, b in zip([dx, *dweights], expected_d, strict=True):
        torch.testing.assert_close(a.float(), b.float(), rtol=0, atol=float(3e-2 * max(b.abs().max(), 1)))

    def forward() -> Any:
        with torch.no_grad():
            return model(x)

    calls: dict[str, dict[str, Callable[[], Any]]] = {
        "forward": {"nvdsl": lambda: ours(x, weights), "torch": forward},
        "training": {"nvdsl": lambda: ours(x, weights, save=True), "torch": lambda: model(needs)},
        "backward": {
            "nvdsl": lambda: back(dy, None, x, weights, None, saved),
            "torch": lambda: torch.autograd.grad(y, [needs, *model._flat_weights], dy, retain_graph=True),
        },
    }
    of = {"kind": kind, "steps": steps, "batch": batch, "hidden": hidden, "dtype": str(dtype).removeprefix("torch.")}
    return [{**of, "what": what, **ratios(race(pair, rounds, warmup=2))} for what, pair in calls.items()]


def cell(kind: str, batch: int, inputs: int, before: int, hidden: int, rounds: int) -> list[dict[str, Any]]:
    """One step beside torch: two GEMMs with their biases, and the pointwise part."""
    torch.manual_seed(batch)
    gates = {"lstm": 4, "gru": 3, "rnn": 1}[kind]
    x, h, c = (torch.randn(batch, n, device="cuda", dtype=torch.half) for n in (inputs, before, hidden))
    shapes = [(gates * hidden, inputs), (gates * hidden, before), (gates * hidden,), (gates * hidden,)]
    weights = [torch.randn(shape, device="cuda", dtype=torch.half) / 32 for shape in shapes]
    state = (h, c) if kind == "lstm" else h
    relu = {"nonlinearity": "relu"} if kind == "rnn" else {}

    def ours() -> Any:
        return getattr(nv, f"{kind}_cell")(x, state, *weights, **relu)

    def torchs() -> Any:
        if kind != "rnn":
            return getattr(torch, f"{kind}_cell")(x, state, *weights)
        w_ih, w_hh, b_ih, b_hh = weights
        return torch.relu(torch.nn.functional.linear(x, w_ih, b_ih) + torch.nn.functional.linear(h, w_hh, b_hh))

    found, expected = ours(), torchs()
    for a, b in zip(*((r if kind == "lstm" else (r,)) for r in (found, expected)), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-2, atol=1e-2)
    of = {"kind": kind, "batch": batch, "inputs": inputs, "before": before, "hidden": hidden, "what": "cell"}
    return [{**of, **ratios(race({"nvdsl": ours, "torch": torchs}, rounds, warmup=2))}]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="the first sequence, and the first two cells")
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    found = []
    cells, sequences = (CELLS[:2], SEQUENCES[:1]) if args.quick else (CELLS, SEQUENCES)
    for run, problems in ((cell, cells), (sequence, sequences)):
        for problem in problems:
            for row in run(*problem, args.rounds):
                found.append(row)
                shown = " ".join(f"{row[n]:.3f}" for n in ("nvdsl_ms", "torch_ms", "speedup"))
                print(row["what"], *problem, shown, flush=True)
                if args.out:  # after each row: what is there is kept if the rest takes too long
                    write(args.out, "bench_lstm.py", {"machine": machine(), "rows": found})


if __name__ == "__main__":
    main()
