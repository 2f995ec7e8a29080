"""e4m3 with block scales (1 x 128 of a, 128 x 128 of b): TFLOPS beside cuBLAS with one scale for each operand.

python benchmarks/bench_blockscaled.py [--sizes 4096 ...] [--out benchmarks/results/blockscaled-h200.json]

torch._scaled_mm is timed with the same block scales too, where it takes them.
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
from nvdsl.layout.draw.svg import Svg

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from benchmarks.charts import bars
from benchmarks.paired import machine, race, write

SIZES = [4096, 6144, 8192, 12288, 16384]


def run(n: int, rounds: int) -> dict[str, Any]:
    torch.manual_seed(n)
    a, b = (torch.randn(n, n, device="cuda").to(torch.float8_e4m3fn) for _ in range(2))
    blocks = -(-n // 128)
    rows, cols = torch.rand(n, blocks, device="cuda") + 0.5, torch.rand(blocks, blocks, device="cuda") + 0.5
    one = torch.ones((), device="cuda")
    out = torch.full((n, n), torch.nan, device="cuda", dtype=torch.bfloat16)
    calls: dict[str, Callable[[], Any]] = {
        "nvdsl": lambda: nv.matmul(a, b.T, out, scale_a=rows, scale_b=cols),
        "cublas_one_scale": lambda: torch._scaled_mm(a, b.T, one, one, out_dtype=torch.bfloat16),
    }
    by_columns = [x.T.contiguous().T for x in (rows, cols)]  # torch wants them so
    same = lambda: torch._scaled_mm(a, b.T, *by_columns, out_dtype=torch.bfloat16)  # noqa: E731
    try:
        same()
        calls["torch_block_scales"] = same
    except RuntimeError:
        pass
    calls["nvdsl"]()
    first = a[:256].double() * rows[:256].double().repeat_interleave(128, 1)[:, :n]
    wide = cols.double().repeat_interleave(128, 0)[:n].repeat_interleave(128, 1)[:, :n]
    expected = first @ (b.T.double() * wide)
    error = float((out[:256].double() - expected).norm() / expected.norm())
    assert error < 4e-3, f"wrong by {error:.4f}"
    times = race(calls, rounds, warmup=2)
    row: dict[str, Any] = {"n": n} | {
        f"{name}_tflops": 2 * n**3 / statistics.median(each) / 1e9 for name, each in times.items()
    }
    return row | {
        f"ratio_to_{name}": statistics.median(b / a for a, b in zip(times["nvdsl"], each, strict=True))
        for name, each in times.items()
        if name != "nvdsl"
    }


def picture(found: list[dict[str, Any]]) -> Svg:
    """A bar for each size: beside torch with the same scales, or cuBLAS with one scale for each operand."""
    key, other = "ratio_to_torch_block_scales", "cublas_one_scale"
    known = all(key in x for x in found)
    entries = [
        (str(x["n"]), x[key if known else f"ratio_to_{other}"],
         f"{x['nvdsl_tflops']:.0f} TFLOPS; cuBLAS, one scale: {x[f'{other}_tflops']:.0f}")
        for x in found
    ]  # fmt: skip
    one = "torch._scaled_mm, the same scales" if known else "cuBLAS with one scale"
    return bars("e4m3 with block scales, n = M = N = K", entries, f"ratio to {one}", one)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sizes", nargs="+", type=int, default=SIZES)
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    found = []
    for n in args.sizes:
        found.append(run(n, args.rounds))
        print(n, *(f"{name} {x:.3f}" if "ratio" in name else f"{name} {x:.0f}"
                   for name, x in found[-1].items() if isinstance(x, float)), flush=True)  # fmt: skip
        if args.out:
            write(args.out, "bench_blockscaled.py", {"machine": machine(), "rows": found})
            args.out.with_suffix(".svg").write_text(str(picture(found)))


if __name__ == "__main__":
    main()
