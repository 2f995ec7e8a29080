"""What the host pays for a call of nvdsl.torch: forward alone, with gradients kept, and forward and backward.

    python benchmarks/bench_torch.py [NAME ...] [--out benchmarks/results/torch-host.json]

Microseconds of Python's thread beside torch's own op, and beside nvdsl's function, which keeps nothing. The arrays are
small: the host never waits for the GPU. The median of nine batches of 30 calls, a synchronization after each.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import nvdsl as nv
import nvdsl.torch as nt
from benchmarks.paired import machine, write

F = torch.nn.functional
BATCHES, CALLS, WARM = 9, 30, 40
Function = Callable[..., Any]


def _leaf(*shape: int) -> torch.Tensor:
    return torch.ones(shape, device="cuda", dtype=torch.bfloat16).requires_grad_()


def _heads(*given: torch.Tensor) -> torch.Tensor:
    q, k, v = (x.transpose(1, 2) for x in given)
    return F.scaled_dot_product_attention(q, k, v, is_causal=True)


def _layers(x: torch.Tensor, *weights: torch.Tensor) -> torch.Tensor:
    for weight in weights[:-1]:
        x = torch.relu(F.linear(x, weight))
    return F.linear(x, weights[-1])


def _lstm(x: torch.Tensor, *weights: torch.Tensor) -> torch.Tensor:
    start = x.new_zeros(1, x.shape[1], weights[0].shape[1])
    return torch.lstm(x, (start, start), weights, True, 1, 0.0, True, False, False)[0]


def cases() -> dict[str, tuple[Function, Function, Function, list[torch.Tensor]]]:
    """By name: nvdsl.torch's, torch's, nvdsl's own without a gradient, and the arguments."""
    x, w, b, rows, g, h = _leaf(64, 64), _leaf(64, 64), _leaf(64), _leaf(256, 1024), _leaf(1024), _leaf(1024)
    labels, heads = torch.zeros(256, dtype=torch.int64, device="cuda"), [_leaf(1, 64, 2, 64) for _ in range(3)]
    size, inputs = (1024,), _leaf(4, 16, 128)
    layers = [_leaf(128, 128) for _ in range(4)]
    gates = [_leaf(*shape) for shape in ((512, 128), (512, 128), (512,), (512,))]
    return {
        "linear": (nt.linear, F.linear, lambda x, w, b: nv.matmul(x, w.T, bias=b), [x, w, b]),
        "matmul": (nt.matmul, torch.matmul, nv.matmul, [x, w]),
        "rms_norm": (
            lambda x, g: nt.rms_norm(x, size, g, 1e-5), lambda x, g: F.rms_norm(x, size, g, 1e-5),
            lambda x, g: nv.rms_norm(x, g, 1e-5), [rows, g]),
        "layer_norm": (
            lambda x, g, h: nt.layer_norm(x, size, g, h), lambda x, g, h: F.layer_norm(x, size, g, h),
            lambda x, g, h: nv.layer_norm(x, g, h), [rows, g, h]),
        "softmax": (nt.softmax, lambda x: x.softmax(-1), nv.softmax, [rows]),
        "cross_entropy": (nt.cross_entropy, F.cross_entropy, nv.cross_entropy, [rows, labels]),
        "attention": (
            lambda *a: nt.attention(*a, causal=True), _heads, lambda *a: nv.attention(*a, causal=True), heads),
        "mlp": (
            lambda x, *w: nt.mlp(x, w), _layers, lambda x, *w: nv.mlp(x, w, activation="relu"),
            [_leaf(64, 128), *layers]),
        "lstm": (
            lambda x, *w: nt.lstm(x, w)[0], _lstm, lambda x, *w: nv.lstm(x, w)[0], [inputs, *gates]),
    }  # fmt: skip


def host(call: Callable[[], object]) -> float:
    """Microseconds of a call."""
    for _ in range(WARM):
        call()
    times = []
    for _ in range(BATCHES):
        torch.cuda.synchronize()
        start = time.perf_counter()
        for _ in range(CALLS):
            call()
        times.append(1e6 * (time.perf_counter() - start) / CALLS)
    return statistics.median(times)


def measured(name: str, ours: Function, theirs: Function, own: Function, given: list[torch.Tensor]) -> dict[str, Any]:
    wanted, found = [x for x in given if x.requires_grad], {}
    for key, function in (("nvdsl", ours), ("torch", theirs)):
        dy = torch.ones_like(function(*given))

        def kept(function: Function = function) -> Any:
            return function(*given)

        def both(function: Function = function, dy: torch.Tensor = dy) -> Any:
            return torch.autograd.grad(function(*given), wanted, dy)

        with torch.no_grad():
            found[f"{key}_us"] = host(kept)
        found |= {f"{key}_kept_us": host(kept), f"{key}_both_us": host(both)}
    plain = [x.detach() for x in given]
    return {"what": name, **found, "own_us": host(lambda: own(*plain))}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    every = cases()
    parser.add_argument("names", nargs="*", default=list(every), help=f"of {', '.join(every)}")
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    rows = []
    for name in args.names:
        rows.append(r := measured(name, *every[name]))
        print(
            f"{name:14} forward {r['nvdsl_us']:6.1f} us (torch {r['torch_us']:.1f}, nvdsl's own {r['own_us']:.1f}), "
            f"kept {r['nvdsl_kept_us']:.1f} ({r['torch_kept_us']:.1f}), "
            f"and backward {r['nvdsl_both_us']:.1f} ({r['torch_both_us']:.1f})",
            flush=True,
        )
    if args.out:
        write(args.out, "bench_torch.py", {"machine": machine(), "rows": rows})


if __name__ == "__main__":
    main()
