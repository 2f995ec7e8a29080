"""What the host pays for a repeated call: nv.matmul and nv.jit kernels beside torch and Triton.

    python benchmarks/bench_call.py [--out benchmarks/results/call.json]

Microseconds of Python's thread from a call to its return. The products are small, so that what is enqueued is done
before the queue is full: the host never waits for the GPU. Batches of 20 calls, a synchronization before each; all
rows in turn, round by round, so that a busy machine disturbs all of them alike. "other arrays": each call of a batch
has arrays of its own, as the layers of a network have, so that no address is that of the call before.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from benchmarks.paired import machine, write  # noqa: E402

N = 256
BATCH = 20
Call = Callable[[int], object]
"""The i-th call of a batch."""


def calls() -> dict[str, Call]:
    """By name, each tried once. What can't be imported is left out."""
    import torch

    import nvdsl as nv
    from chapters.ch1_saxpy import saxpy
    from chapters.ch4_multistage_gemm import gemm

    a, b, out = ([torch.randn(N, N, device="cuda").half() for _ in range(BATCH)] for _ in range(3))
    sums, bias = torch.empty(N, N, device="cuda"), torch.randn(N, device="cuda").half()
    x, y = torch.randn(2, N, device="cuda")
    q, k, v, o = ([torch.randn(1, 64, 2, 64, device="cuda").bfloat16() for _ in range(BATCH)] for _ in range(4))
    rows, weight, ends = torch.randn(N, N, device="cuda").half(), torch.randn(N, device="cuda").half(), [64, 64, 128, N]
    offsets, groups = torch.tensor(ends, dtype=torch.int32, device="cuda"), torch.randn(4, N, N, device="cuda").half()
    layers, biases = ([torch.randn(*shape, device="cuda").half() for _ in range(4)] for shape in ((128, 128), (128,)))
    one, *cached = (torch.randn(1, n, h, 128, device="cuda").half() for n, h in ((1, 64), (1024, 8), (1024, 8)))
    heads = [x[0].transpose(1, 2) for x in (q, k, v)]
    found: dict[str, Call] = {
        "nv.matmul(a, b, out)": lambda i: nv.matmul(a[0], b[0], out[0]),
        "nv.matmul(a, b, out), other arrays": lambda i: nv.matmul(a[i], b[i], out[i]),
        "nv.matmul(a, b)": lambda i: nv.matmul(a[0], b[0]),
        "nv.matmul(a, b, out, bias=, activation=)": lambda i: nv.matmul(
            a[0], b[0], out[0], bias=bias, activation="relu"
        ),
        "nv.jit, 3 arrays (chapter 4)": lambda i: gemm(a[0], b[0], sums),
        "nv.jit, 3 arrays (chapter 4), other arrays": lambda i: gemm(a[i], b[i], sums),
        "nv.jit, 2 arrays and a number (chapter 1)": lambda i: saxpy(x, y, 2.0),
        "nv.attention(q, k, v, out)": lambda i: nv.attention(q[0], k[0], v[0], o[0]),
        "nv.attention(q, k, v, out), other arrays": lambda i: nv.attention(q[i], k[i], v[i], o[i]),
        "nv.attention(q, k, v, causal=True), 1 query": lambda i: nv.attention(one, *cached, causal=True),
        "nv.softmax(x, out)": lambda i: nv.softmax(rows, out[0]),
        "nv.layer_norm(x, w, w, out=)": lambda i: nv.layer_norm(rows, weight, weight, out=out[0]),
        "nv.grouped_matmul(a, b, out, offsets=), 4 groups": lambda i: nv.grouped_matmul(
            a[0], groups, out[0], offsets=offsets
        ),
        "nv.mlp(x, w, b), 4 layers": lambda i: nv.mlp(a[0][:, :128], layers, biases, activation="relu"),
        "scaled_dot_product_attention(q, k, v)": lambda i: torch.nn.functional.scaled_dot_product_attention(*heads),
        "torch.mm(a, b, out=)": lambda i: torch.mm(a[0], b[0], out=out[0]),
        "torch.mm(a, b)": lambda i: torch.mm(a[0], b[0]),
        "torch.add(x, y, alpha=, out=)": lambda i: torch.add(y, x, alpha=2.0, out=y),
    }
    try:
        from benchmarks.triton_matmul import matmul as triton_matmul

        found["Triton, 3 arrays"] = lambda i: triton_matmul(a[0], b[0], out[0])
    except ImportError as error:
        print(f"no Triton: {error}")
    for call in found.values():
        for i in range(BATCH):
            call(i)
    torch.cuda.synchronize()
    return found


def measured(found: dict[str, Call], rounds: int) -> list[dict[str, Any]]:
    """A row for each: the median of the batches, and the middle 80 % of them."""
    import torch

    times: dict[str, list[float]] = {name: [] for name in found}
    for _ in range(rounds):
        for name, call in found.items():
            torch.cuda.synchronize()
            start = time.perf_counter()
            for i in range(BATCH):
                call(i)
            times[name].append(1e6 * (time.perf_counter() - start) / BATCH)
    rows = []
    for name, found_times in times.items():
        found_times.sort()
        low, high = found_times[rounds // 10], found_times[-1 - rounds // 10]
        rows.append({"what": name, "us": statistics.median(found_times), "us_low": low, "us_high": high})
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    rows = measured(calls(), args.rounds)
    for r in rows:
        print(f"{r['what']:<44}{r['us']:7.2f} us   ({r['us_low']:.2f}..{r['us_high']:.2f})")
    if args.out:
        about = {"n": N, "batch": BATCH, "rounds": args.rounds}
        write(args.out, "bench_call.py", {"machine": machine(), **about, "rows": rows})


if __name__ == "__main__":
    main()
