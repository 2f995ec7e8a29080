"""The rungs of chapters/attention/ladder.py beside FlashAttention-4 and cuDNN: TFLOPS, and a picture of them.

    python benchmarks/bench_attention_ladder.py [--out build/attention-ladder.json] [--svg build/attention-ladder.svg]
    python benchmarks/bench_attention_ladder.py backward --out build/attention-backward-ladder.json
    python benchmarks/bench_attention_ladder.py --draw benchmarks/results/attention-ladder-h200.json --svg ladder.svg

bf16, one GPU, single calls with the L2 flushed before each, each contender in turn, medians. Chapter 16 goes through
the heads one by one, in as many launches. ``nv.attention`` is the finished kernel. ``backward``: the gradients of
chapters/attention/backward.py, with the zeros that they begin with, beside ``nv.attention_backward``.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from benchmarks.paired import machine, race, write  # noqa: E402

SHAPES = ((16, 8192, 64), (16, 8192, 128))
"""Heads, rows and keys, head size."""


def contenders(heads: int, length: int, size: int, causal: bool) -> dict[str, Callable[[], Any]]:
    """What is timed, by name; the results have been compared."""
    import torch
    from torch.nn.attention import SDPBackend, sdpa_kernel

    import nvdsl as nv
    from chapters.attention.ladder import RUNGS, attention
    from chapters.ch16_online_softmax import attention as online

    q, k, v = (torch.randn((heads, length, size), device="cuda", dtype=torch.bfloat16) for _ in range(3))
    rows = [x.transpose(0, 1).unsqueeze(0) for x in (q, k, v)]  # batch, length, heads, size
    o = torch.empty_like(q)
    blocks = torch.cuda.get_device_properties(0).multi_processor_count

    def chapter() -> None:
        for one in zip(q, k, v, o, strict=True):
            online(*one, causal=causal)

    def cudnn() -> Any:
        with sdpa_kernel(SDPBackend.CUDNN_ATTENTION):
            return torch.nn.functional.scaled_dot_product_attention(q[None], k[None], v[None], is_causal=causal)[0]

    calls: dict[str, Callable[[], Any]] = {"online (ch. 16)": chapter}
    for rung, name in enumerate(RUNGS, start=1):
        calls[name] = lambda rung=rung: attention(q, k, v, o, rung=rung, causal=causal, blocks=blocks)
    calls["nv.attention"] = lambda: nv.attention(*rows, out=o.transpose(0, 1).unsqueeze(0), causal=causal)
    wanted = cudnn().float()
    for name, call in calls.items():
        o.fill_(float("nan"))
        call()
        error = ((o.float() - wanted).norm() / wanted.norm()).item()
        assert error < 1e-2, (name, error)
    calls["cuDNN"] = cudnn
    try:
        from flash_attn.cute.interface import flash_attn_func
    except ImportError:
        return calls
    contiguous = [x.contiguous() for x in rows]
    calls["FlashAttention-4"] = lambda: flash_attn_func(*contiguous, causal=causal)
    return calls


def of_gradients(heads: int, length: int, size: int, causal: bool) -> dict[str, Callable[[], Any]]:
    """The same of the gradients; a pass through autograd of the others."""
    import torch

    import nvdsl as nv
    from benchmarks import bench_attention_backward
    from chapters.attention.backward import gradients, sums

    finished = bench_attention_backward.contenders(1, heads, length, size, causal)
    q, k, v, do = (torch.randn((heads, length, size), device="cuda", dtype=torch.bfloat16) for _ in range(4))
    rows = [x.transpose(0, 1).unsqueeze(0) for x in (do, q, k, v)]
    out, lse = nv.attention(*rows[1:], causal=causal, return_lse=True)
    o, logs, dots = out[0].transpose(0, 1).contiguous(), lse[0], torch.empty_like(lse[0])
    dq, dk, dv = torch.empty_like(q, dtype=torch.float32), torch.empty_like(k), torch.empty_like(v)

    def chapter() -> None:
        sums(o, do, dots)
        dq.zero_()
        gradients(q, k, v, do, logs, dots, dq, dk, dv, causal=causal)

    chapter()
    wanted = nv.attention_backward(*rows, out, lse, causal=causal)
    for found, its in zip((dq, dk, dv), wanted, strict=True):
        its = its[0].transpose(0, 1).float()
        assert ((found.float() - its).norm() / its.norm()).item() < 1e-2
    names = {"nvdsl": "nv.attention_backward", "cudnn": "cuDNN", "fa4": "FlashAttention-4"}
    return {"chapter": chapter} | {names[name]: call for name, call in finished.items()}


KINDS: dict[str, tuple[Any, int]] = {"forward": (contenders, 4), "backward": (of_gradients, 10)}
"""What is timed, and operations of a query, a key and an element of a head."""


def measured(rounds: int, kind: str) -> list[dict[str, Any]]:
    found = []
    make, operations = KINDS[kind]
    for heads, length, size in SHAPES:
        for causal in (False, True):
            flops = operations * heads * length * length * size * (0.5 if causal else 1)
            times = race(make(heads, length, size, causal), rounds)
            row = {name: flops / statistics.median(ms) / 1e9 for name, ms in times.items()}
            shown = "  ".join(f"{name} {speed:.0f}" for name, speed in row.items())
            print(f"{heads} x {length} x {size}{' causal' if causal else ''}: {shown}", flush=True)
            found.append({"heads": heads, "length": length, "head_size": size, "causal": causal, "tflops": row})
    return found


COLORS = {
    "nv.attention": "#2a6f97",
    "nv.attention_backward": "#2a6f97",
    "cuDNN": "#999999",
    "FlashAttention-4": "#999999",
}


def picture(rows: list[dict[str, Any]]) -> str:
    """Bars, a group for each shape."""
    wide, high, left = 46, 200, 40
    groups = [len(row["tflops"]) for row in rows]
    width = left + sum(n * wide + 30 for n in groups)
    most = max(speed for row in rows for speed in row["tflops"].values())
    size = f'width="{width}" height="{high + 130}"'
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="sans-serif" font-size="11">']
    x = left
    for row in rows:
        kind = "causal" if row["causal"] else "full"
        parts.append(f'<text x="{x}" y="16" font-size="13">head size {row["head_size"]}, {kind}, TFLOPS</text>')
        for name, speed in row["tflops"].items():
            tall = speed / most * (high - 40)
            top, color = high - tall, COLORS.get(name, "#a9d6e5")
            parts.append(f'<rect x="{x}" y="{top:.0f}" width="{wide - 8}" height="{tall:.0f}" fill="{color}"/>')
            parts.append(f'<text x="{x + (wide - 8) / 2}" y="{top - 4:.0f}" text-anchor="middle">{speed:.0f}</text>')
            parts.append(f'<text transform="translate({x + 22},{high + 10}) rotate(55)">{name}</text>')
            x += wide
        x += 30
    return "\n".join([*parts, "</svg>", ""])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", nargs="?", choices=tuple(KINDS), default="forward")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--svg", type=Path)
    parser.add_argument("--draw", type=Path, help="draw what was measured before")
    parser.add_argument("--rounds", type=int, default=15)
    chosen = parser.parse_args()
    rows = json.loads(chosen.draw.read_text())["rows"] if chosen.draw else measured(chosen.rounds, chosen.what)
    if chosen.out:
        write(chosen.out, "bench_attention_ladder.py", {"machine": machine(), "unit": "TFLOPS", "rows": rows})
    if chosen.svg:
        chosen.svg.write_text(picture(rows))


if __name__ == "__main__":
    main()
