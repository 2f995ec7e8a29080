"""Schedules beside cuBLAS: the ablation at one size, or the ends over sizes; a table, JSON and a plot.

    python benchmarks/bench_schedule.py [--n 8192]                     schedule-ablation.json, .svg
    python benchmarks/bench_schedule.py --sweep 1024:16384:256         schedule-sweep.json, -f32.svg, -f16.svg
    python benchmarks/bench_schedule.py --sweep 1024:16384:256 --ends wmma

f16 operands; f32 sums, and f16 sums in the row that says so. Each row is paired with cuBLAS in one process, and its
result compared with a product in f32 before it is timed and after. ``--sweep`` tries all of `SPACE` at each size, with
f32 and with f16 sums, and keeps the fastest of each end, as the paper does.
"""

from __future__ import annotations

import argparse
import collections
import functools
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

import nvdsl as nv  # noqa: E402
from benchmarks import charts  # noqa: E402
from benchmarks.ahead import compile_ahead, loaded  # noqa: E402
from benchmarks.paired import Paired, machine, measure, race, write  # noqa: E402
from chapters.passes.ladder import rows  # noqa: E402
from chapters.passes.own_step import group_blocks  # noqa: E402
from nvdsl import schedule as sc  # noqa: E402

RESULTS = ROOT / "benchmarks" / "results"
SPACE = {
    "wmma": [
        ((128, 256, 32), (64, 64), 4), ((256, 128, 32), (64, 64), 4), ((128, 128, 64), (64, 64), 3),
        ((128, 128, 32), (64, 32), 4), ((64, 64, 64), (32, 32), 3),
    ],
    "mma": [
        ((128, 256, 32), (64, 64), 4), ((256, 128, 32), (64, 64), 4), ((128, 128, 32), (64, 64), 4),
        ((128, 128, 64), (64, 32), 4), ((64, 64, 64), (32, 32), 3),
    ],
    "wgmma": [
        ((128, 256, 64), 4, 2), ((256, 128, 64), 4, 2), ((128, 192, 64), 5, 2), ((128, 128, 64), 6, 2),
        ((128, 64, 64), 8, 2), ((256, 192, 64), 3, 2), ((256, 256, 64), 3, 2), ((192, 128, 64), 5, 3),
    ],
}  # fmt: skip
"""What a sweep searches: a block's tile (m, n, k), then a warp's (m, n) and the buffers, or the slots of the ring and
the warpgroups."""

GROUPS = 8
"""Rows of blocks that run side by side: `group_blocks`. wgmma's persistent blocks have them already."""

PAPER = {"f32": (0.95, 1.19), "f16": (0.80, 1.60)}
"""Of cuBLAS by the type of the sums: the paper's WMMA on an RTX 3090."""


def end_steps(end: str, tiles: tuple[Any, ...]) -> list[sc.Step]:
    """The schedule of an end for an entry of its `SPACE`."""
    if end == "wgmma":
        return sc.wgmma_steps(*tiles)
    make = sc.wmma_steps if end == "wmma" else sc.mma_steps
    block, warp, stages = tiles
    return [*make(block, warp, stages=stages), group_blocks(GROUPS)]


Row = dict[str, Any]


def ablation() -> list[tuple[str, list[sc.Step], nv.DType]]:
    """(name, steps, sums) of each row."""
    tile, warp = (128, 128, 64), (64, 32)
    named = [(name, steps, nv.f32) for name, steps in rows(tile, warp)]
    named.append(("8 groups of 8 rows of blocks", [*sc.wmma_steps(tile, warp), group_blocks(8)], nv.f32))
    named.append(("9 mma.sync, ldmatrix, swizzle", sc.mma_steps(tile, warp), nv.f32))
    for stages in (3, 4):
        ahead = sc.mma_steps(tile, warp, stages=stages, without=["prefetch"])
        named.append((f"10 the same, cp.async into {stages} buffers", ahead, nv.f32))
    named.append(("11 the same, fragments a turn ahead", sc.mma_steps(tile, warp, stages=4), nv.f32))
    named.append(("12 mma.sync, 128x256x32, groups of 8", end_steps("mma", SPACE["mma"][0]), nv.f32))
    named.append(("12 WMMA, the same", end_steps("wmma", SPACE["wmma"][0]), nv.f32))
    alone = sc.wgmma_steps(without=["persistent"])
    named.append(("13 wgmma, TMA, ring of 4", alone, nv.f32))
    named.append(("14 the same, groups of 8", [*alone, group_blocks(8)], nv.f32))
    named.append(("15 persistent blocks", sc.wgmma_steps(), nv.f32))
    named.append(("15 with 256x128x64", sc.wgmma_steps((256, 128, 64)), nv.f32))
    for end in ("wmma", "mma", "wgmma"):
        named.append((f"{end} with f16 sums", end_steps(end, SPACE[end][0]), nv.f16))
    return named


def timed(n: int, steps: list[sc.Step], sums: nv.DType, pairs: int) -> Row:
    """One row: milliseconds and TFLOPS beside cuBLAS's, and what was compiled."""
    import torch

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


Job = tuple[int, str, str, int]
"""n; the type of the sums; the end; the number in its `SPACE`."""


def prepare(job: Job) -> str:
    """The module of a candidate, compiled."""
    n, sums, end, number = job
    dtype = nv.f16 if sums == "f16" else nv.f32
    gemm = sc.compile(sc.matmul(n, n, n, sums=dtype), end_steps(end, SPACE[end][number]))
    shapes = [nv.ShapeDtype((n, n), kind) for kind in (nv.f16, nv.f16, dtype)]
    (kernel,) = gemm.compile(*shapes).kernels.values()
    assert kernel.resources.spill_stores == 0, "it spills registers"
    return gemm.mlir


def raced(n: int, sums: str, texts: dict[tuple[str, int], str], rounds: int = 0) -> list[Row]:
    """The candidates of one size, by end and number in its `SPACE`, in turn with cuBLAS; a row for the fastest of each
    end."""
    import torch

    if hasattr(torch.backends.cuda.matmul, "allow_fp16_accumulation"):
        torch.backends.cuda.matmul.allow_fp16_accumulation = sums == "f16"
    generator = torch.Generator(device="cuda").manual_seed(n)
    a, b = (torch.randn(n, n, generator=generator, device="cuda").half() for _ in range(2))
    c = torch.empty((n, n), dtype=torch.float16 if sums == "f16" else torch.float32, device="cuda")
    out = torch.mm(a, b)
    payload = sc.matmul(n, n, n, sums=nv.f16 if sums == "f16" else nv.f32)
    calls: dict[Any, Callable[[], object]] = {None: lambda: torch.mm(a, b, out=out)}
    for name, text in texts.items():
        calls[name] = functools.partial(loaded(payload, text), a, b, c)
        c.fill_(float("nan"))
        calls[name]()
        error = ((c - out).float().norm() / out.float().norm()).item()
        assert error < (2e-2 if sums == "f16" else 1e-3), f"{name} of {n}, {sums} sums: an error of {error}"
    times = race(calls, rounds or (8 if n <= 4096 else 4))
    pairs = {name: Paired(times[name], times[None]).summary() for name in texts}
    flop, rows = 2e-9 * n**3, []
    for end in SPACE:
        mine = [name for name in texts if name[0] == end]
        if mine:
            best = max(mine, key=lambda name: pairs[name]["ratio"])
            pair = pairs[best]
            rows.append({
                "m": n, "n": n, "k": n, "end": end, "sums": sums, "kind": f"{end}, {sums} sums", "size": str(n),
                "tiles": SPACE[end][best[1]], "tried": len(mine),
                "tflops": flop / pair["a_ms"], "library_tflops": flop / pair["b_ms"], **pair,
            })  # fmt: skip
    return rows


def candidates(sizes: Iterable[int], ends: list[str]) -> list[Job]:
    return [(n, sums, end, i) for n in sizes for sums in PAPER for end in ends for i in range(len(SPACE[end]))]


def sweep(sizes: range, ends: list[str]) -> None:
    """All of the space at each size; the fastest of each end is kept."""
    jobs = candidates(sizes, ends)
    waiting = collections.Counter((n, sums) for n, sums, _, _ in jobs)
    texts: dict[tuple[int, str], dict[tuple[str, int], str]] = collections.defaultdict(dict)
    rows = []
    for (n, sums, end, i), text, error in compile_ahead(jobs, prepare):
        if not error:  # of sums or tiles that this end does not have
            texts[n, sums][end, i] = text
        waiting[n, sums] -= 1
        if not waiting[n, sums]:
            rows += raced(n, sums, texts.pop((n, sums)))
    keep(rows)


def keep(rows: list[Row]) -> None:
    found = sorted(rows, key=lambda r: (r["kind"], r["m"]))
    for row in found:
        print(f"{row['kind']:16} {row['m']:6} {row['tflops']:6.1f} {row['ratio']:.3f} {row['tiles']}")
    write(RESULTS / "schedule-sweep.json", "bench_schedule.py", {"machine": machine(), "rows": found})
    for sums, range_ in PAPER.items():
        mine = [row for row in found if row["sums"] == sums]
        title = f"Schedules beside cuBLAS, f16, {sums} sums"
        band = (*range_, "the paper's WMMA on an RTX 3090")
        picture = charts.over_sizes(title, "n = M = N = K", mine, lambda r: r["end"], band=band)
        (RESULTS / f"schedule-sweep-{sums}.svg").write_text(str(picture))


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--n", type=int, default=8192)
    parser.add_argument("--pairs", type=int, default=12)
    parser.add_argument("--sweep", metavar="FIRST:LAST:STEP")
    parser.add_argument("--ends", nargs="+", choices=SPACE, default=list(SPACE), help="of a sweep (default: all)")
    chosen = parser.parse_args()
    if chosen.sweep:
        first, last, step = map(int, chosen.sweep.split(":"))
        sweep(range(first, last + 1, step), chosen.ends)
    else:
        ablate(chosen.n, chosen.pairs)


if __name__ == "__main__":
    main()
