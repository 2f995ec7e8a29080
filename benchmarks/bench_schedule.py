"""Schedules beside cuBLAS: the ablation at one size, or the last row over sizes; a table, JSON and a plot.

    python benchmarks/bench_schedule.py [--n 8192]                     schedule-ablation.json, .svg
    python benchmarks/bench_schedule.py --sweep 1024:16384:256         schedule-sweep-wmma.json, .svg
    python benchmarks/bench_schedule.py --sweep 1024:16384:256 --end wgmma

f16 operands; f32 sums, and f16 sums in the row that says so. Each row is paired with cuBLAS in one process, and its
result compared with a product in f32 before it is timed and after. ``--sweep`` tries `TILES` for each size, and keeps
the fastest, as the paper does.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path
from typing import Any

import torch

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

import nvdsl as nv  # noqa: E402
from benchmarks import charts  # noqa: E402
from benchmarks.paired import machine, measure, write  # noqa: E402
from chapters.passes.ladder import rows  # noqa: E402
from chapters.passes.own_step import group_blocks  # noqa: E402
from nvdsl import schedule as sc  # noqa: E402

RESULTS = ROOT / "benchmarks" / "results"
TILES = [
    ((128, 128, 64), (64, 32)), ((128, 128, 32), (64, 32)), ((128, 256, 32), (64, 64)), ((64, 64, 64), (32, 32)),
    ((128, 64, 64), (32, 32)), ((256, 128, 32), (64, 64)), ((128, 128, 64), (64, 64)),
]  # fmt: skip
"""A block's tile and a warp's, as m, n, k and m, n."""

ENDS = {
    "wmma": lambda tile, warp: sc.wmma_steps(tile, warp),
    "mma": lambda tile, warp: sc.mma_steps(tile, warp, stages=3),
    "wgmma": lambda tile, warp: [*sc.wgmma_steps((tile[0], tile[1], 64)), group_blocks(8)],
}
"""What makes the steps of a sweep from a block's tile and a warp's."""

Row = dict[str, Any]


def ablation() -> list[tuple[str, list[sc.Step], nv.DType]]:
    """(name, steps, sums) of each row."""
    tile, warp = (128, 128, 64), (64, 32)
    named = [(name, steps, nv.f32) for name, steps in rows(tile, warp)]
    named.append(("8 groups of 8 rows of blocks", [*sc.wmma_steps(tile, warp), group_blocks(8)], nv.f32))
    named.append(("9 mma.sync, ldmatrix, swizzle", sc.mma_steps(tile, warp), nv.f32))
    for stages in (3, 4):
        name = f"10 the same, cp.async into {stages} buffers"
        named.append((name, sc.mma_steps(tile, warp, stages=stages), nv.f32))
    large = sc.mma_steps((128, 256, 32), (64, 64), stages=4)
    named.append(("11 128x256x32, groups of 8", [*large, group_blocks(8)], nv.f32))
    named.append(("12 wgmma, TMA, ring of 4", sc.wgmma_steps(), nv.f32))
    named.append(("13 the same, groups of 8", [*sc.wgmma_steps(), group_blocks(8)], nv.f32))
    named.append(("13 with 256x128x64, groups of 8", [*sc.wgmma_steps((256, 128, 64)), group_blocks(8)], nv.f32))
    named.append(("7 with f16 sums, 128x256x32", sc.wmma_steps((128, 256, 32), (64, 64)), nv.f16))
    return named


def timed(n: int, steps: list[sc.Step], sums: nv.DType, pairs: int) -> Row:
    """One row: milliseconds and TFLOPS beside cuBLAS's, and what was compiled."""
    start = time.perf_counter()
    gemm = sc.compile(sc.matmul(n, n, n, sums=sums), steps)
    generator = torch.Generator(device="cuda").manual_seed(n)
    a, b = (torch.randn(n, n, generator=generator, device="cuda").half() for _ in range(2))
    c = torch.full((n, n), float("nan"), dtype=getattr(torch, sums.numpy.name), device="cuda")
    (kernel,) = gemm.compile(a, b, c).kernels.values()
    seconds = time.perf_counter() - start
    torch.backends.cuda.matmul.allow_tf32 = False
    reference = a.float() @ b.float()
    out = torch.empty_like(a)

    def error() -> float:
        c.fill_(float("nan"))
        gemm(a, b, c)
        return ((c.float() - reference).norm() / reference.norm()).item()

    first, bound = error(), 1e-5 if sums is nv.f32 else 2e-2
    result: Row = {
        "compile_s": seconds, "registers": kernel.resources.registers, "smem": kernel.smem_bytes,
        "spilled": kernel.resources.spill_stores, "error": first, "right": first < bound,
    }  # fmt: skip
    pair = measure(lambda: gemm(a, b, c), lambda: torch.mm(a, b, out=out), pairs=pairs).summary()
    flop = 2e-9 * n**3
    result |= {"tflops": flop / pair["a_ms"], "library_tflops": flop / pair["b_ms"], **pair}
    return {**result, "repeats": error() == first}


def ablate(n: int, pairs: int) -> None:
    found = []
    print(f"{'row':34} {'TFLOPS':>7} {'cuBLAS':>7} {'ratio':>6} {'regs':>5} {'smem':>8} {'compile':>8}  result")
    for name, steps, sums in ablation():
        row = {"name": name, "n": n, "steps": [str(step) for step in steps], **timed(n, steps, sums, pairs)}
        found.append(row)
        says = ("right" if row["right"] else f"WRONG ({row['error']:.2g})") + ("" if row["repeats"] else ", DIFFERS")
        print(f"{name:34} {row['tflops']:7.1f} {row['library_tflops']:7.1f} {row['ratio']:6.3f} {row['registers']:5} "
              f"{row['smem']:8,} {row['compile_s']:7.2f}s  {says}", flush=True)  # fmt: skip
    write(RESULTS / "schedule-ablation.json", "bench_schedule.py", {"machine": machine(), "rows": found})
    bars = [(r["name"], r["ratio"], f"{r['tflops']:.0f} TFLOPS, cuBLAS {r['library_tflops']:.0f}") for r in found]
    picture = charts.bars(f"From linalg to tensor cores, step by step: f16, n = {n}", bars)
    (RESULTS / "schedule-ablation.svg").write_text(str(picture))


def sweep(sizes: range, pairs: int, end: str) -> None:
    found = []
    for n in sizes:
        for sums in (nv.f32, nv.f16):
            best: Row | None = None
            for tile, warp in TILES:
                if any(n % extent for extent in tile):
                    continue
                try:
                    row = timed(n, ENDS[end](tile, warp), sums, 3)
                except nv.ScheduleError:  # of sums or tiles that this end does not have
                    continue
                if row["right"] and row["repeats"] and (best is None or row["ratio"] > best["ratio"]):
                    best = {"tile": tile, "warp": warp, **row}
            if best is None:
                print(f"{n} {sums.name}: no tile fits")
                continue
            again = timed(n, ENDS[end](best["tile"], best["warp"]), sums, pairs)
            kind = f"{sums.name} sums"
            found.append({"m": n, "n": n, "k": n, "kind": kind, "size": str(n), **best, **again})
            print(f"{n:6} {kind}: {again['tflops']:6.1f} TFLOPS, {again['ratio']:.3f}, {best['tile']}", flush=True)
    write(RESULTS / f"schedule-sweep-{end}.json", "bench_schedule.py", {"machine": machine(), "rows": found})
    picture = charts.over_sizes(f"{end} by a schedule beside cuBLAS, f16", "n = M = N = K", found, lambda r: r["kind"])
    (RESULTS / f"schedule-sweep-{end}.svg").write_text(str(picture))


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--n", type=int, default=8192)
    parser.add_argument("--pairs", type=int, default=12)
    parser.add_argument("--sweep", metavar="FIRST:LAST:STEP")
    parser.add_argument("--end", choices=ENDS, default="wmma", help="of a sweep (default: %(default)s)")
    chosen = parser.parse_args()
    if chosen.sweep:
        first, last, step = map(int, chosen.sweep.split(":"))
        sweep(range(first, last + 1, step), chosen.pairs, chosen.end)
    else:
        ablate(chosen.n, chosen.pairs)


if __name__ == "__main__":
    main()
