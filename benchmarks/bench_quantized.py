"""nv.quantized_matmul beside cuBLAS with 16-bit weights: times and ratios of single calls, in turn, L2 flushed.

python benchmarks/bench_quantized.py [--kinds u4 u8 e4m3] [--rows 1 16] [--out benchmarks/results/quantized-h200.json]

Weights are random bits. The first 256 columns of each result are checked. The flush of a single call leaves L2 full of
lines that are written back while weights are read. So there are also times of layers: calls one behind the other, each
with weights of its own, so many that L2 has none of them.
"""

from __future__ import annotations

import argparse
import math
import statistics
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

import nvdsl as nv
from nvdsl.layout.draw.svg import Svg

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from benchmarks.charts import bars
from benchmarks.paired import Timer, machine, race, write

LAYERS_BYTES = 200e6
"""Of the packed weights of all layers, four times what an H200's L2 holds."""
WEIGHTS = ["4096x4096", "4096x14336", "14336x4096", "8192x8192", "8192x28672"]
BITS = {"u4": 4, "u8": 8, "e4m3": 8}


def weight(kind: str, k: int, n: int, group: int) -> nv.QuantizedWeight:
    empty = nv.QuantizedWeight(kind, (k, n), group, None, None)
    data, scales = empty.packed_shapes
    bits = torch.randint(-(2**31), 2**31 - 1, data, device="cuda", dtype=torch.int32)
    if kind == "e4m3":
        bits &= 0x77777777  # no NaN among them
    return nv.QuantizedWeight(kind, (k, n), group, bits, torch.full(scales, 0.01, device="cuda", dtype=torch.float16))


def run(kind: str, rows: int, k: int, n: int, group: int, rounds: int) -> dict[str, Any]:
    torch.manual_seed(rows + k + n)
    x = torch.randn(rows, k, device="cuda", dtype=torch.bfloat16)
    w = torch.randn(n, k, device="cuda", dtype=torch.bfloat16).T
    q = weight(kind, k, n, group)
    out, theirs = (torch.full((rows, n), torch.nan, device="cuda", dtype=torch.bfloat16) for _ in range(2))
    nv.quantized_matmul(x, q, out)
    first = nv.QuantizedWeight(kind, (k, 256), group, q.data[:1].cpu().numpy(), q.scales[:, :256].cpu().numpy())
    expected = x.double() @ torch.from_numpy(first.dequantized()).cuda().double()
    error = float((out[:, :256].double() - expected).norm() / expected.norm())
    assert error < 5e-3, f"wrong by {error:.4f}"
    calls = {"nvdsl": lambda: nv.quantized_matmul(x, q, out), "cublas": lambda: torch.mm(x, w, out=theirs)}
    times = race(calls, rounds, warmup=2)
    ours, cublas = (statistics.median(times[name]) for name in ("nvdsl", "cublas"))
    ratio = statistics.median(b / a for a, b in zip(times["nvdsl"], times["cublas"], strict=True))
    read = (k * n * BITS[kind] / 8 + (k + n) * rows * 2) / 1e9
    row: dict[str, Any] = {"kind": kind, "group": group, "rows": rows, "k": k, "n": n}
    row |= {"us": 1e3 * ours, "cublas_us": 1e3 * cublas, "ratio": ratio, "gb_s": read / ours * 1e3}
    count = max(3, math.ceil(LAYERS_BYTES / (k * n * BITS[kind] / 8)))
    packed, dense = [q.map(torch.clone) for _ in range(count)], [w.clone() for _ in range(count)]
    stacks = {
        "layers_us": lambda: [nv.quantized_matmul(x, one, out) for one in packed],
        "layers_cublas_us": lambda: [torch.mm(x, one, out=theirs) for one in dense],
    }
    row |= {name: us / count for name, us in layers(stacks, count, rounds).items()}
    return row | {"layers_ratio": row["layers_cublas_us"] / row["layers_us"]}


def layers(stacks: dict[str, Callable[[], Any]], count: int, rounds: int) -> dict[str, float]:
    """Microseconds of ``count`` calls one behind the other: the GPU waits until the host has launched them."""
    timer = Timer()
    times: dict[str, list[float]] = {name: [] for name in stacks}
    for i in range(rounds + 1):
        for name in list(stacks)[:: 1 if i % 2 else -1]:
            torch.cuda._sleep(40_000 * count)
            times[name].append(1e3 * timer.together(stacks[name]))
    return {name: statistics.median(each[1:]) for name, each in times.items()}


def picture(found: list[dict[str, Any]]) -> Svg:
    """A bar for each product."""
    entries = [
        (f"{x['kind']}, {x['rows']} x {x['k']} x {x['n']}", x["ratio"],
         f"{x['us']:.1f} us, cuBLAS {x['cublas_us']:.1f}")
        for x in found
    ]  # fmt: skip
    return bars("Few rows times weights of 4 and 8 bits: cuBLAS's time with bf16 weights / nvdsl's", entries)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kinds", nargs="+", default=["u4"], choices=list(BITS))
    parser.add_argument("--rows", nargs="+", type=int, default=[1, 8, 16, 32, 64])
    parser.add_argument("--weights", nargs="+", default=WEIGHTS, metavar="KxN")
    parser.add_argument("--group", type=int, default=128)
    parser.add_argument("--rounds", type=int, default=16)
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    found = []
    for kind in args.kinds:
        for size in args.weights:
            for rows in args.rows:
                row = run(kind, rows, *map(int, size.split("x")), args.group, args.rounds)
                found.append(row)
                shown = (f"{name} {row[name]:.1f}" for name in ("us", "cublas_us", "layers_us", "layers_cublas_us"))
                ratios = f"ratio {row['ratio']:.2f}, of layers {row['layers_ratio']:.2f}"
                print(f"{kind} {rows:>3} x {size:<12}", ratios, *shown, flush=True)
                if args.out:
                    write(args.out, "bench_quantized.py", {"machine": machine(), "rows": found})
                    args.out.with_suffix(".svg").write_text(str(picture(found)))


if __name__ == "__main__":
    main()
