"""Attention forward beside torch's: TFLOPS, single calls with the L2 flushed before each, and call after call.

    python benchmarks/bench_attention.py [--out build/attention.json] [--quick]

bf16, one GPU. Each contender of a line is called in turn, and the median is taken. The results are compared with
torch's before anything is timed. ``kernel`` is nvdsl's, ``flash`` and ``cudnn`` are torch's
scaled_dot_product_attention with these backends, ``fa4`` is FlashAttention-4 where it is installed (`flash-attn-4`).
"""

from __future__ import annotations

import argparse
import statistics
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

import torch  # noqa: E402
from torch.nn.attention import SDPBackend, sdpa_kernel  # noqa: E402

import nvdsl as nv  # noqa: E402
from benchmarks.paired import machine, write  # noqa: E402

# batch, heads, length, head size, causal
SHAPES = (
    (1, 16, 8192, 128, False),
    (1, 16, 8192, 128, True),
    (2, 16, 16384, 128, False),
    (1, 16, 16384, 128, True),
    (8, 16, 2048, 128, True),
    (1, 32, 8192, 64, False),
    (1, 32, 8192, 64, True),
    (1, 8, 8192, 256, False),
    (1, 8, 8192, 256, True),
    (32, 16, 384, 64, False),
)
BACKENDS = {"flash": SDPBackend.FLASH_ATTENTION, "cudnn": SDPBackend.CUDNN_ATTENTION}
FLUSH_BYTES = 256 * 2**20
LAUNCHED = 400_000
"""Clocks for which the GPU waits, so that the host has launched a single call before it is timed."""


def _fa4() -> Callable[..., Any] | None:
    try:
        from flash_attn.cute.interface import flash_attn_func
    except ImportError:
        return None
    return flash_attn_func  # type: ignore[no-any-return]


def contenders(batch: int, heads: int, length: int, size: int, causal: bool) -> dict[str, Callable[[], Any]]:
    """What is timed, by name; the kernel's result has been compared."""
    shape = batch, length, heads, size
    there = [torch.randn(shape, device="cuda", dtype=torch.bfloat16) for _ in range(3)]
    q, k, v = (x.transpose(1, 2) for x in there)
    o = torch.full(shape, float("nan"), device="cuda", dtype=torch.bfloat16)

    def kernel() -> None:
        nv.attention(*there, o, causal=causal)

    def torchs(backend: SDPBackend) -> Any:
        with sdpa_kernel(backend):
            return torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=causal)

    kernel()
    expected = torchs(SDPBackend.FLASH_ATTENTION).transpose(1, 2).float()
    error = ((o.float() - expected).norm() / expected.norm()).item()
    assert error < 1e-2, error
    calls: dict[str, Callable[[], Any]] = {"kernel": kernel}
    calls |= {name: lambda b=b: torchs(b) for name, b in BACKENDS.items()}
    if theirs := _fa4():
        calls["fa4"] = lambda: theirs(*there, causal=causal)
        calls["fa4"]()
    return calls


def milliseconds(call: Callable[[], Any], calls: int = 1) -> float:
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    begin.record()
    for _ in range(calls):
        call()
    end.record()
    end.synchronize()
    return begin.elapsed_time(end) / calls


def timed(calls: dict[str, Callable[[], Any]], rounds: int) -> dict[str, tuple[float, float]]:
    """Medians in ms: single calls, and 20 one after the other."""
    flush = torch.empty(FLUSH_BYTES, dtype=torch.uint8, device="cuda")
    single: dict[str, list[float]] = {name: [] for name in calls}
    sustained: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(rounds):
        for name, call in calls.items():
            torch.cuda._sleep(LAUNCHED)
            flush.zero_()
            single[name].append(milliseconds(call))
    for _ in range(max(3, rounds // 5)):
        for name, call in calls.items():
            sustained[name].append(milliseconds(call, 20))
    return {name: (statistics.median(single[name]), statistics.median(sustained[name])) for name in calls}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path)
    parser.add_argument("--quick", action="store_true", help="fewer rounds")
    chosen = parser.parse_args()
    print(torch.cuda.get_device_name(), "torch", torch.__version__)
    rows, over = [], {}
    for shape in SHAPES:
        batch, heads, length, size, causal = shape
        flops = 4 * batch * heads * length * length * size * (0.5 if causal else 1)
        found = timed(contenders(*shape), 10 if chosen.quick else 40)
        row = {name: [flops / ms / 1e9 for ms in times] for name, times in found.items()}
        named = dict(zip(("batch", "heads", "length", "head_size", "causal"), shape, strict=True))
        for name, (one, more) in row.items():
            named |= {name: one, f"{name}_sustained": more}
        rows.append(named)
        text = "   ".join(f"{name} {one:6.1f} / {more:6.1f}" for name, (one, more) in row.items())
        print(f"{batch:3} x {heads:3} x {length:6} x {size:4} {'causal' if causal else 'full':7} {text}", flush=True)
        for name in row:
            over.setdefault(name, []).append([mine / its for mine, its in zip(row["kernel"], row[name], strict=True)])
    means = {name: [statistics.geometric_mean(x) for x in zip(*ratios, strict=True)] for name, ratios in over.items()}
    for name, (one, more) in means.items():
        print(f"over {name}: {one:.3f} single, {more:.3f} call after call (geometric means)")
    if chosen.out:
        write(chosen.out, "bench_attention.py", {"machine": machine(), "unit": "TFLOPS", "rows": rows})


if __name__ == "__main__":
    main()
