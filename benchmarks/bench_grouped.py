"""nv.grouped_matmul beside torch._grouped_mm and QuACK where it is there: TFLOPS, single calls in turn.

python benchmarks/bench_grouped.py [--quick] [--ways rows along-k block-scales] [--out results.json]

Sizes of groups are drawn from a seed: tokens are spread over the experts by a multinomial, uniform or skewed. The
layers are those of mixtures of experts, forward (rows) and for the gradients of the weights (along K); with block
scales, forward in e4m3, beside torch._scaled_grouped_mm, which has a scale for each row and column.
"""

from __future__ import annotations

import argparse
import functools
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
from benchmarks.paired import machine, race, write

LAYERS = [  # tokens (each expert of a token counts), experts, K, N
    (8192, 8, 4096, 14336),
    (8192, 8, 14336, 4096),
    (32768, 64, 2048, 2816),
    (32768, 128, 4096, 1536),
    (65536, 16, 5120, 8192),
    (2048, 64, 2048, 2816),
    (512, 128, 4096, 1536),
]
WAYS = ["rows", "along-k", "block-scales"]
QUICK = [LAYERS[i] for i in (0, 1, 2, 3, 6)]


def sizes(tokens: int, experts: int, skewed: bool, seed: int) -> torch.Tensor:
    """Where each group ends."""
    generator = torch.Generator().manual_seed(seed)
    weights = torch.ones(experts)
    if skewed:
        weights = torch.rand(experts, generator=generator) ** 2 + 0.01
    drawn = torch.multinomial(weights, tokens, replacement=True, generator=generator)
    counts = torch.bincount(drawn, minlength=experts)
    return counts.cumsum(0).to(torch.int32).cuda()


def _quack(tuned: bool = False) -> Callable[..., Any] | None:
    try:
        from quack.gemm_interface import gemm
    except ImportError:
        return None
    return functools.partial(gemm, tuned=tuned)


def works(name: str, call: Callable[[], Any]) -> bool:
    try:
        call()
        torch.cuda.synchronize()
    except Exception as why:
        print(f"  {name}: {type(why).__name__} {str(why)[:150]}")
        return False
    return True


def scaled(
    tokens: int, experts: int, k: int, n: int, ends: torch.Tensor, starts: torch.Tensor
) -> tuple[dict[str, Callable[[], Any]], Callable[[], torch.Tensor], torch.Tensor]:
    """Calls with block scales; one group of nvdsl's result, and what it should be."""
    f8 = torch.float8_e4m3fn
    x, w = torch.randn(tokens, k, device="cuda").to(f8), torch.randn(experts, n, k, device="cuda").to(f8)
    slices = -(-k // 128)
    rows = torch.rand(tokens, slices, device="cuda") + 0.5
    cols = torch.rand(experts, slices, -(-n // 128), device="cuda") + 0.5
    out = torch.full((tokens, n), torch.nan, device="cuda", dtype=torch.bfloat16)
    of_row, of_col = rows[:, 0].contiguous(), cols.new_ones(experts, n)
    calls = {
        "nvdsl": lambda: nv.grouped_matmul(x, w.mT, out, offsets=ends, scale_a=rows, scale_b=cols),
        "torch": lambda: torch._scaled_grouped_mm(x, w.mT, of_row, of_col, offs=ends, out_dtype=torch.bfloat16),
    }
    group = int((ends - starts[:-1]).argmax())
    part = slice(int(starts[group]), int(ends[group]))
    wide = cols[group].double().repeat_interleave(128, 0)[:k].repeat_interleave(128, 1)[:, :n]
    expected = (x[part].double() * rows[part].double().repeat_interleave(128, 1)[:, :k]) @ (w[group].double().T * wide)
    return calls, lambda: out[part], expected


def run(
    layer: tuple[int, int, int, int], skewed: bool, way: str, seed: int, rounds: int, tuned: bool
) -> dict[str, Any]:
    tokens, experts, k, n = layer
    ends = sizes(tokens, experts, skewed, seed)
    starts = torch.cat([ends.new_zeros(1), ends])
    torch.manual_seed(seed)
    quack = _quack(tuned)
    if way == "block-scales":
        calls, part, expected = scaled(*layer, ends, starts)
        calls["nvdsl"]()
        found = part()
    elif way == "along-k":
        x = torch.randn(tokens, k, device="cuda", dtype=torch.bfloat16)
        dy = torch.randn(tokens, n, device="cuda", dtype=torch.bfloat16)
        out = torch.full((experts, k, n), torch.nan, device="cuda", dtype=torch.bfloat16)
        calls = {
            "nvdsl": lambda: nv.grouped_matmul(x.T, dy, out, offsets=ends),
            "torch": lambda: torch._grouped_mm(x.T, dy, offs=ends),
        }
        if quack:
            calls["quack"] = lambda: quack(x.T, dy, cu_seqlens_k=starts)
        calls["nvdsl"]()
        group = int((ends - starts[:-1]).argmax())
        expected = x[starts[group] : ends[group]].double().T @ dy[starts[group] : ends[group]].double()
        found = out[group]
    else:
        x = torch.randn(tokens, k, device="cuda", dtype=torch.bfloat16)
        w = torch.randn(experts, n, k, device="cuda", dtype=torch.bfloat16).mT
        out = torch.full((tokens, n), torch.nan, device="cuda", dtype=torch.bfloat16)
        calls = {
            "nvdsl": lambda: nv.grouped_matmul(x, w, out, offsets=ends),
            "torch": lambda: torch._grouped_mm(x, w, offs=ends),
        }
        if quack:
            calls["quack"] = lambda: quack(x, w, cu_seqlens_m=starts)
        calls["nvdsl"]()
        group = int((ends - starts[:-1]).argmax())
        expected = x[starts[group] : ends[group]].double() @ w[group].double()
        found = out[starts[group] : ends[group]]
    error = float((found.double() - expected).norm() / expected.norm())
    assert error < 4e-3, f"wrong by {error:.4f}"
    calls = {name: call for name, call in calls.items() if works(name, call)}
    times = race(calls, rounds, warmup=2)
    flops = 2 * int(ends[-1]) * k * n
    row: dict[str, Any] = {"tokens": tokens, "experts": experts, "k": k, "n": n, "skewed": skewed, "way": way}
    row["largest"] = int((ends - starts[:-1]).max())
    row |= {f"{name}_tflops": flops / statistics.median(each) / 1e9 for name, each in times.items()}
    return row | {
        f"ratio_to_{name}": statistics.median(b / a for a, b in zip(times["nvdsl"], each, strict=True))
        for name, each in times.items()
        if name != "nvdsl"
    }


def picture(found: list[dict[str, Any]]) -> Svg:
    """A bar for each layer that torch has, too."""
    entries = [
        (f"{x['way']}{', skewed' if x['skewed'] else ''}: {x['tokens']}, {x['experts']}, {x['k']}, {x['n']}",
         x["ratio_to_torch"], f"{x['nvdsl_tflops']:.0f} TFLOPS"
         + (f"; QuACK {x['quack_tflops']:.0f}" if "quack_tflops" in x else ""))
        for x in found if "ratio_to_torch" in x
    ]  # fmt: skip
    return bars("Grouped products: tokens, experts, K, N", entries, "torch's time / nvdsl's", "torch")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="five layers, uniform groups")
    parser.add_argument("--ways", nargs="+", default=WAYS, choices=WAYS)
    parser.add_argument("--tune-quack", action="store_true", help="QuACK's own search for each layer (minutes)")
    parser.add_argument("--rounds", type=int, default=16)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    found = []
    for way in args.ways:
        for layer in QUICK if args.quick else LAYERS:
            for skewed in (False,) if args.quick else (False, True):
                row = run(layer, skewed, way, args.seed, args.rounds, args.tune_quack)
                found.append(row)
                shown = [f"{name} {value:.3f}" if "ratio" in name else f"{name} {value:.0f}"
                         for name, value in row.items() if isinstance(value, float)]  # fmt: skip
                print(f"{way:12}", *layer, "skewed" if skewed else "", *shown, flush=True)
                if args.out:
                    write(args.out, "bench_grouped.py", {"machine": machine(), "seed": args.seed, "rows": found})
                    args.out.with_suffix(".svg").write_text(str(picture(found)))


if __name__ == "__main__":
    main()
