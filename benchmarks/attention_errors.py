"""The errors of attention forward beside float64, and those of FlashAttention-4 and cuDNN: of the problems that
`bench_attention` times.

    python benchmarks/attention_errors.py [--out build/attention-errors.json] [--seed 7]

bf16, one GPU. An error is the norm of the difference over the norm of the result, of ``QUERIES`` queries of every head,
drawn at random.
"""

from __future__ import annotations

import argparse
import statistics
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

import torch  # noqa: E402

from benchmarks import bench_attention, partial  # noqa: E402

QUERIES = 64


def in_float64(q: Any, k: Any, v: Any, rows: Any, causal: bool) -> Any:
    """Attention of the queries ``rows`` of each head. ``q``, ``k``, ``v``: (length, heads, size)."""
    few, keys, values = (x.transpose(0, 1).double() for x in (q[rows], k, v))
    scores = few @ keys.transpose(1, 2) * q.shape[2] ** -0.5
    if causal:
        scores.masked_fill_(torch.arange(len(k), device=k.device) > rows[:, None], float("-inf"))
    return (scores.softmax(-1) @ values).transpose(0, 1)


def errors(batch: int, heads: int, length: int, size: int, causal: bool) -> dict[str, float]:
    q, k, v = (torch.randn((batch, length, heads, size), device="cuda", dtype=torch.bfloat16) for _ in range(3))
    out = torch.full_like(q, float("nan"))
    rows = torch.randperm(length, device="cuda")[:QUERIES]
    wanted = torch.stack([in_float64(*of_one, rows, causal) for of_one in zip(q, k, v, strict=True)])
    found = {}
    for name, call in bench_attention.contenders(q, k, v, out, causal).items():
        result = call()
        result = (result[0] if isinstance(result, tuple) else result)[:, rows]
        found[name] = float((result - wanted).norm() / wanted.norm())
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path)
    parser.add_argument("--seed", type=int, default=7)
    chosen = parser.parse_args()
    torch.manual_seed(chosen.seed)
    rows: list[dict[str, Any]] = []
    for shape in bench_attention.SHAPES:
        rows.append(dict(zip(bench_attention.SHAPE, shape, strict=True)) | errors(*shape))
        print(*shape, *(f"{name} {x:.3e}" for name, x in list(rows[-1].items())[len(shape) :]), flush=True)
    for name in ("cudnn", "fa4"):
        if over := [row["kernel"] / row[name] for row in rows if name in row]:
            print(f"over {name}'s: {statistics.geometric_mean(over):.3f} in geometric mean, {max(over):.3f} at most")
    if chosen.out:
        partial.write(chosen.out, "attention_errors.py", rows, bench_attention.SHAPE, {}, unit="relative error")


if __name__ == "__main__":
    main()
