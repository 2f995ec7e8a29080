"""nv.softmax, nv.layer_norm and nv.rms_norm beside torch, QuACK where it is there, and a copy: GB/s, read and written.

python benchmarks/bench_rows.py [--sizes 32768x4096 ...] [--out benchmarks/results/rows-h200.json]
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

SIZES = ["32768x768", "65536x1024", "32768x4096", "16384x8192", "16384x16384", "8192x65536"]
EPSILON = 1e-6


def _quack() -> dict[str, Callable[..., Any]]:
    """Its functions by the names of ours; none where it isn't installed."""
    try:
        from quack.rmsnorm import layernorm_fwd, rmsnorm_fwd
        from quack.softmax import softmax_fwd
    except ImportError:
        return {}
    return {
        "softmax": lambda x, w, b, y: softmax_fwd(x),
        "layer_norm": lambda x, w, b, y: layernorm_fwd(x, w, eps=EPSILON),
        "rms_norm": lambda x, w, b, y: rmsnorm_fwd(x, w, eps=EPSILON),
    }


OURS: dict[str, Callable[..., Any]] = {
    "softmax": lambda x, w, b, y: nv.softmax(x, y),
    "layer_norm": lambda x, w, b, y: nv.layer_norm(x, w, b, y, eps=EPSILON),
    "rms_norm": lambda x, w, b, y: nv.rms_norm(x, w, y, eps=EPSILON),
}
TORCH: dict[str, Callable[..., Any]] = {
    "softmax": lambda x, w, b, y: torch.softmax(x, -1),
    "layer_norm": lambda x, w, b, y: torch.nn.functional.layer_norm(x, w.shape, w.to(x.dtype), b.to(x.dtype), EPSILON),
    "rms_norm": lambda x, w, b, y: torch.nn.functional.rms_norm(x, w.shape, w.to(x.dtype), EPSILON),
}


def run(what: str, rows: int, cols: int, dtype: torch.dtype, rounds: int) -> dict[str, Any]:
    torch.manual_seed(rows + cols)
    x = torch.randn(rows, cols, device="cuda", dtype=dtype)
    w, b = (torch.randn(cols, device="cuda") for _ in range(2))
    y = torch.full_like(x, float("nan"))
    OURS[what](x, w, b, y)
    expected = TORCH[what](x[:256].double(), w.double(), b.double(), y)
    torch.testing.assert_close(y[:256].double(), expected, rtol=3e-2, atol=3e-2 if what != "softmax" else 1e-5)
    w_low, b_low = w.to(dtype), b.to(dtype)  # torch wants parameters of the type of x
    calls: dict[str, Callable[[], Any]] = {
        "nvdsl": lambda: OURS[what](x, w, b, y),
        "copy": lambda: y.copy_(x),
        "torch": lambda: TORCH[what](x, w_low, b_low, y),
    }
    if quack := _quack().get(what):
        calls["quack"] = lambda: quack(x, w, b, y)
    times = race(calls, rounds, warmup=2)
    gb = 2 * x.numel() * x.element_size() / 1e6
    row: dict[str, Any] = {"kernel": what, "rows": rows, "columns": cols, "dtype": str(dtype).removeprefix("torch.")}
    row |= {f"{name}_gb_s": gb / statistics.median(each) for name, each in times.items()}
    ours = times["nvdsl"]
    return row | {
        f"ratio_to_{name}": statistics.median(b / a for a, b in zip(ours, each, strict=True))
        for name, each in times.items()
        if name != "nvdsl"
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sizes", nargs="+", default=SIZES, metavar="ROWSxCOLUMNS")
    parser.add_argument("--kernels", nargs="+", default=list(OURS), choices=list(OURS))
    parser.add_argument("--dtype", default="bfloat16", choices=["bfloat16", "float16", "float32"])
    parser.add_argument("--rounds", type=int, default=16)
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    found = []
    for what in args.kernels:
        for size in args.sizes:
            row = run(what, *map(int, size.split("x")), getattr(torch, args.dtype), args.rounds)
            found.append(row)
            shown = {name: f"{value:.3f}" if "ratio" in name else f"{value:.0f}"
                     for name, value in row.items() if isinstance(value, float)}  # fmt: skip
            print(f"{what:<11}{size:>12}", *(f"{name} {value}" for name, value in shown.items()), flush=True)
    if args.out:
        write(args.out, "bench_rows.py", {"machine": machine(), "rows": found})


if __name__ == "__main__":
    main()
