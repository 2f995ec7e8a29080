"""Attention's gradients beside torch's: TFLOPS, single calls with the L2 flushed before each, and call after call.

    python benchmarks/bench_attention_backward.py [--out build/attention-backward.json] [--rounds 15]

bf16, one GPU, contenders in turn, medians. ``nvdsl`` is `nv.attention_backward` with arrays for its results; ``cudnn``
and ``fa4`` (FlashAttention-4, where it is installed) are whole backward passes through torch's autograd. A pass counts
as 2.5 forward passes. The results are compared with those of torch's FlashAttention-2 before anything is timed.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

import torch  # noqa: E402
from torch.nn.attention import SDPBackend, sdpa_kernel  # noqa: E402

import nvdsl as nv  # noqa: E402
from benchmarks.paired import machine, race, write  # noqa: E402

# batch, heads, length, head size
SHAPES = (
    (1, 16, 8192, 128), (8, 16, 2048, 128), (1, 32, 8192, 64), (1, 8, 8192, 256),
    (32, 16, 512, 128), (16, 32, 1024, 64), (4, 16, 4096, 128), (4, 8, 2048, 256),
)  # fmt: skip


def contenders(batch: int, heads: int, length: int, size: int, causal: bool) -> dict[str, Callable[[], Any]]:
    """What is timed, by name; the kernel's results have been compared."""
    q, k, v, dout = (
        torch.randn(batch, length, heads, size, device="cuda", dtype=torch.bfloat16, requires_grad=i < 3)
        for i in range(4)
    )
    turned = [x.transpose(1, 2) for x in (q, k, v)]
    calls: dict[str, Callable[[], Any]] = {}

    def through(name: str, result: Any, grad: Any) -> None:
        calls[name] = lambda: torch.autograd.grad(result, (q, k, v), grad, retain_graph=True)

    with sdpa_kernel(SDPBackend.FLASH_ATTENTION):
        wanted = torch.autograd.grad(
            torch.nn.functional.scaled_dot_product_attention(*turned, is_causal=causal), (q, k, v), dout.transpose(1, 2)
        )
    q, k, v = (x.detach() for x in (q, k, v))
    out, lse = nv.attention(q, k, v, causal=causal, return_lse=True)
    into = {f"d{name}": torch.full_like(x, float("nan")) for name, x in zip("qkv", (q, k, v), strict=True)}
    calls["nvdsl"] = lambda: nv.attention_backward(dout, q, k, v, out, lse, causal=causal, **into)
    for name, found, its in zip("qkv", calls["nvdsl"](), wanted, strict=True):
        error = ((found.float() - its.float()).norm() / its.float().norm()).item()
        assert error < 1e-2, (name, error)
    q, k, v = (x.requires_grad_() for x in (q, k, v))
    with sdpa_kernel(SDPBackend.CUDNN_ATTENTION):
        turned = [x.transpose(1, 2) for x in (q, k, v)]
        its = torch.nn.functional.scaled_dot_product_attention(*turned, is_causal=causal)
    through("cudnn", its, dout.transpose(1, 2))
    try:
        from flash_attn.cute.interface import flash_attn_func
    except ImportError:
        return calls
    its = flash_attn_func(q, k, v, causal=causal)
    through("fa4", its[0] if isinstance(its, tuple) else its, dout)
    return calls


def milliseconds(call: Callable[[], Any], calls: int) -> float:
    """Of one of ``calls`` that follow each other."""
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    begin.record()
    for _ in range(calls):
        call()
    end.record()
    end.synchronize()
    return begin.elapsed_time(end) / calls


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path)
    parser.add_argument("--rounds", type=int, default=15)
    chosen = parser.parse_args()
    warnings.filterwarnings("ignore")
    print(torch.cuda.get_device_name(), "torch", torch.__version__)
    rows, best = [], []
    for batch, heads, length, size in SHAPES:
        for causal in (False, True):
            flops = 10 * batch * heads * length * length * size * (0.5 if causal else 1)
            calls = contenders(batch, heads, length, size, causal)
            single = {name: statistics.median(ms) for name, ms in race(calls, chosen.rounds).items()}
            names = list(calls)
            after = {name: [milliseconds(calls[name], 6) for _ in range(3)] for name in (*names, *reversed(names))}
            row: dict[str, Any] = {
                "batch": batch,
                "heads": heads,
                "length": length,
                "head_size": size,
                "causal": causal,
            }
            for name in names:
                row |= {name: flops / single[name] / 1e9, f"{name}_sustained": flops / min(after[name]) / 1e9}
            best.append(row["nvdsl"] / max(row[name] for name in names if name != "nvdsl"))
            shown = "  ".join(f"{name} {row[name]:.0f} / {row[name + '_sustained']:.0f}" for name in names)
            print(
                f"{batch} x {heads} x {length} x {size} {'causal' if causal else 'full':6} {shown}  {best[-1]:.3f}",
                flush=True,
            )
            rows.append(row)
    print(f"over the faster of the others, single calls: {statistics.geometric_mean(best):.3f} (geometric mean)")
    if chosen.out:
        write(chosen.out, "bench_attention_backward.py", {"machine": machine(), "unit": "TFLOPS", "rows": rows})


if __name__ == "__main__":
    main()
