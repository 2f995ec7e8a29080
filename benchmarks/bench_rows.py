"""Functions over rows, and their gradients, beside torch, QuACK where it is there, and a copy: GB/s, read and written.

python benchmarks/bench_rows.py [--sizes 32768x4096 ...] [--drawn 8 --seed 7] [--kernels softmax ...] [--out FILE.json]

Each is timed with its arrays at several places of memory (``--places``): ratios are the median over these, and the
least and the greatest of them (``places_to_...``), since they differ by 1 to 3 %.

``--drawn``: so many numbers of columns besides, from 768 to 65,536, evenly spread by their logarithm: multiples of 8,
as QuACK wants them to be, of 2, and any, in turn.

Weights are of the type that QuACK takes: that of x for RMSNorm, f32 for LayerNorm, which has no bias there.
"layer_norm, bias" has a weight and a bias of the type of x, as torch takes them. A gradient of softmax or of a norm
reads two arrays of rows and writes one; cross entropy reads one, and writes one where it gives the gradient.
"""

from __future__ import annotations

import argparse
import math
import random
import statistics
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch

import nvdsl as nv

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from benchmarks import charts
from benchmarks.paired import machine, race, write
from benchmarks.placed import Memory

SIZES = [
    "32768x768", "65536x1024", "65536x2048", "65536x3000", "32768x4096", "16384x8192", "16384x12288", "16384x16384",
    "8192x32768", "8192x50000", "8192x65536",
]  # fmt: skip
EPSILON = 1e-6
FEWEST, MOST = 768, 65_536
"""Columns that are drawn."""
ELEMENTS = 1 << 28
"""Of the rows of a drawn size."""
QUACK_MULTIPLE = 8
F = torch.nn.functional


@dataclass
class Problem:
    """Rows ``x``, the gradient ``dy`` of a result, a weight and a bias of the rows' type, a weight of f32, labels, and
    where results go: rows to ``out``, a number of each row to ``losses``."""

    x: torch.Tensor
    dy: torch.Tensor
    w: torch.Tensor
    b: torch.Tensor
    wide: torch.Tensor
    labels: torch.Tensor
    out: torch.Tensor
    losses: torch.Tensor

    @staticmethod
    def of(rows: int, cols: int, dtype: torch.dtype, memory: Memory | None = None) -> Problem:
        """``memory``: in which arrays of rows are placed, instead of where torch does."""
        torch.manual_seed(rows + cols)
        memory = memory or memory_of(rows, cols, dtype)
        size = rows * cols * dtype.itemsize
        x, dy, out = (one.view(dtype).view(rows, cols) for one in memory.place(size, size, size))
        wide, b = (torch.randn(cols, device="cuda") for _ in range(2))
        labels, losses = torch.randint(0, cols, (rows,), device="cuda"), torch.empty(rows, device="cuda")
        weights = wide.to(dtype), b.to(dtype), wide.to(dtype).float()
        return Problem(x.normal_(), dy.normal_(), *weights, labels, out, losses)

    @property
    def first(self) -> Problem:
        """The first rows, in f64."""
        x, dy, labels, out, losses = (t[:256] for t in (self.x, self.dy, self.labels, self.out, self.losses))
        parameters = self.w.double(), self.b.double(), self.wide.double()
        return Problem(x.double(), dy.double(), *parameters, labels, out, losses)


def memory_of(rows: int, cols: int, dtype: torch.dtype) -> Memory:
    """For a problem's arrays of rows."""
    return Memory.of([rows * cols * dtype.itemsize] * 3, rows + cols)


def _softmax_backward(p: Problem) -> dict[str, Callable[[], Any]]:
    y = torch.softmax(p.x.float(), -1).to(p.x.dtype)
    calls = {
        "nvdsl": lambda: nv.softmax_backward(p.dy, y, p.out),
        "torch": lambda: torch.ops.aten._softmax_backward_data(p.dy, y, -1, y.dtype),
    }
    if softmax_bwd := _quack("softmax", "softmax_bwd"):
        calls["quack"] = lambda: softmax_bwd(p.dy, y)
    return calls


def _norm_backward(p: Problem, centered: bool) -> dict[str, Callable[[], Any]]:
    shape = p.w.shape
    dw, db = torch.empty_like(p.w), torch.empty_like(p.w)
    if centered:
        _, mean, rstd = nv.layer_norm(p.x, mean=True, rstd=True, eps=EPSILON)
        aten = torch.ops.aten.native_layer_norm_backward
        return {
            "nvdsl": lambda: nv.layer_norm_backward(p.dy, p.x, mean, rstd, p.w, p.out, dweight=dw, dbias=db),
            "torch": lambda: aten(p.dy, p.x, shape, mean[:, None], rstd[:, None], p.w, p.w, [True] * 3),
        }
    _, rstd = nv.rms_norm(p.x, rstd=True, eps=EPSILON)
    calls = {"nvdsl": lambda: nv.rms_norm_backward(p.dy, p.x, rstd, p.w, p.out, dweight=dw)}
    if rmsnorm_bwd := _quack("rmsnorm", "rmsnorm_bwd"):
        calls["quack"] = lambda: rmsnorm_bwd(p.x, p.w, p.dy, rstd)
    return calls


def _cross_entropy(p: Problem, gradient: bool) -> dict[str, Callable[[], Any]]:
    x = p.x.detach().requires_grad_()

    def with_gradient() -> Any:
        return torch.autograd.grad(F.cross_entropy(x, p.labels, reduction="sum"), x)

    more = {"grad": p.out} if gradient else {}
    calls = {
        "nvdsl": lambda: nv.cross_entropy(p.x, p.labels, p.losses, reduction="none", **more),
        "torch": with_gradient if gradient else lambda: F.cross_entropy(p.x, p.labels, reduction="none"),
    }
    if quack := _quack("cross_entropy", "cross_entropy_fwd"):
        calls["quack"] = lambda: quack(p.x, p.labels, return_dx=gradient)
    return calls


def _quack(module: str, name: str) -> Any:
    """A function of QuACK's; None where it isn't installed."""
    try:
        return getattr(__import__(f"quack.{module}", fromlist=[name]), name, None)
    except ImportError:
        return None


def _forward(p: Problem, ours: Callable[[], Any], other: Callable[[], Any], quack: Any, *given: Any) -> dict[str, Any]:
    calls = {"nvdsl": ours, "torch": other}
    if quack is not None:
        calls["quack"] = lambda: quack(p.x, *given)
    return calls


KERNELS: dict[str, Callable[[Problem], dict[str, Callable[[], Any]]]] = {
    "softmax": lambda p: _forward(
        p, lambda: nv.softmax(p.x, p.out), lambda: torch.softmax(p.x, -1), _quack("softmax", "softmax_fwd")
    ),
    "layer_norm": lambda p: _forward(
        p, lambda: nv.layer_norm(p.x, p.wide, out=p.out), lambda: F.layer_norm(p.x, p.w.shape, p.w),
        _quack("rmsnorm", "layernorm_fwd"), p.wide,
    ),
    "layer_norm, bias": lambda p: _forward(
        p, lambda: nv.layer_norm(p.x, p.w, p.b, out=p.out), lambda: F.layer_norm(p.x, p.w.shape, p.w, p.b), None
    ),
    "rms_norm": lambda p: _forward(
        p, lambda: nv.rms_norm(p.x, p.w, out=p.out), lambda: F.rms_norm(p.x, p.w.shape, p.w, EPSILON),
        _quack("rmsnorm", "rmsnorm_fwd"), p.w,
    ),
    "softmax_backward": _softmax_backward,
    "rms_norm_backward": lambda p: _norm_backward(p, centered=False),
    "layer_norm_backward": lambda p: _norm_backward(p, centered=True),
    "cross_entropy": lambda p: _cross_entropy(p, gradient=False),
    "cross_entropy, gradient": lambda p: _cross_entropy(p, gradient=True),
}  # fmt: skip
ARRAYS = {"cross_entropy": 1, **{name: 3 for name in KERNELS if name.endswith("_backward")}}
"""Of rows, read and written, where they are not 2."""

EXPECTED: dict[str, Callable[[Problem], torch.Tensor]] = {
    "softmax": lambda p: torch.softmax(p.x, -1),
    "layer_norm": lambda p: F.layer_norm(p.x, p.w.shape, p.wide),
    "layer_norm, bias": lambda p: F.layer_norm(p.x, p.w.shape, p.w, p.b),
    "rms_norm": lambda p: F.rms_norm(p.x, p.w.shape, p.w, EPSILON),
    "softmax_backward": lambda p: _gradient(p, lambda x: torch.softmax(x, -1)),
    "rms_norm_backward": lambda p: _gradient(p, lambda x: F.rms_norm(x, p.w.shape, p.w, EPSILON)),
    "layer_norm_backward": lambda p: _gradient(p, lambda x: F.layer_norm(x, p.w.shape, p.w, None, EPSILON)),
    "cross_entropy": lambda p: F.cross_entropy(p.x, p.labels, reduction="none"),
    "cross_entropy, gradient": lambda p: torch.softmax(p.x, -1) - F.one_hot(p.labels, p.x.shape[-1]),
}


def _gradient(p: Problem, function: Callable[[torch.Tensor], torch.Tensor]) -> torch.Tensor:
    x = p.x.clone().requires_grad_()
    return torch.autograd.grad(function(x), x, p.dy)[0]


def run(
    what: str, rows: int, cols: int, dtype: torch.dtype, rounds: int, places: int, memory: Memory
) -> dict[str, Any]:
    arrays = ARRAYS.get(what, 2)
    copied = max(rows // 2, 1) if arrays == 1 else rows  # as many bytes as it reads, but for one row
    found: list[dict[str, list[float]]] = []
    for _ in range(places):
        problem = Problem.of(rows, cols, dtype, memory)
        calls = KERNELS[what](problem)
        if cols % QUACK_MULTIPLE:
            calls.pop("quack", None)
        _check(what, problem, calls["nvdsl"])
        calls["copy"] = partial(problem.out[:copied].copy_, problem.x[:copied])
        found.append(race(calls, rounds, warmup=1 if found else 2))
    gb = cols * dtype.itemsize / 1e6
    row: dict[str, Any] = {"kernel": what, "rows": rows, "columns": cols, "dtype": str(dtype).removeprefix("torch.")}
    moved = {name: (2 * copied if name == "copy" else arrays * rows) * gb for name in found[0]}
    for name in moved:
        row[f"{name}_gb_s"] = moved[name] / statistics.median(time for times in found for time in times[name])
    for name in moved:
        if name != "nvdsl":
            each = sorted(_ratio(times[name], times["nvdsl"]) * moved["nvdsl"] / moved[name] for times in found)
            row[f"ratio_to_{name}"] = statistics.median(each)
            row[f"places_to_{name}"] = [each[0], each[-1]]
    return row


def _check(what: str, problem: Problem, call: Callable[[], Any]) -> None:
    found = problem.losses if what == "cross_entropy" else problem.out
    found.fill_(float("nan"))
    call()
    expected = EXPECTED[what](problem.first)
    near = 3e-2 * expected.abs().max().item() / (1 if "softmax" in what else 3)
    torch.testing.assert_close(found[: len(expected)].double(), expected, rtol=3e-2, atol=near)
    assert not found.isnan().any()


def _ratio(times: list[float], base: list[float]) -> float:
    return statistics.median(b / a for a, b in zip(base, times, strict=True))


def drawn(count: int, seed: int) -> list[str]:
    generator, found = random.Random(seed), []
    for i in range(count):
        columns = round(math.exp(generator.uniform(math.log(FEWEST), math.log(MOST))))
        columns -= columns % (QUACK_MULTIPLE, 2, 1)[i % 3]
        found.append(f"{ELEMENTS // columns}x{columns}")
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sizes", nargs="*", default=SIZES, metavar="ROWSxCOLUMNS")
    parser.add_argument("--drawn", type=int, default=0, metavar="COUNT")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--kernels", nargs="+", default=list(KERNELS), choices=list(KERNELS))
    parser.add_argument("--dtype", default="bfloat16", choices=["bfloat16", "float16", "float32"])
    parser.add_argument("--places", type=int, default=5)
    parser.add_argument("--rounds", type=int, default=5, help="at each place")
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    found, dtype = [], getattr(torch, args.dtype)
    sizes = [
        (int(rows), int(cols)) for rows, cols in (x.split("x") for x in [*args.sizes, *drawn(args.drawn, args.seed)])
    ]
    largest = max(sizes, key=math.prod)
    memory = memory_of(*largest, dtype)  # one for all: a library that keeps what it was given would fill the GPU
    for what in args.kernels:
        for rows, cols in sizes:
            row = run(what, rows, cols, dtype, args.rounds, args.places, memory)
            found.append(row)
            shown = [f"{name} {value:.3f}" if "ratio" in name else f"{name} {value:.0f}"
                     for name, value in row.items() if isinstance(value, float)]  # fmt: skip
            low, high = row["places_to_copy"]
            print(f"{what:<23}{f'{rows}x{cols}':>12}", *shown, f"({low:.3f} to {high:.3f})", flush=True)
            if args.out:
                write(args.out, "bench_rows.py", {"machine": machine(), "rows": found})
                picture = charts.over_columns(f"Functions over rows, {args.dtype}, {machine()['gpu']}", found)
                args.out.with_suffix(".svg").write_text(str(picture))


if __name__ == "__main__":
    main()
