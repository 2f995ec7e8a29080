"""Attention's gradients beside torch's: TFLOPS, single calls with the L2 flushed before each, and call after call.

    python benchmarks/bench_attention_backward.py [--out build/attention-backward.json] [--quick]

bf16, one GPU, contenders in turn, medians, the shapes of bench_attention.py. ``nvdsl`` is `nv.attention_backward` with
arrays for its results; ``cudnn`` and ``fa4`` (FlashAttention-4, where it is installed) are whole backward passes
through torch's autograd. A pass counts as 2.5 forward passes. The results are compared with those of torch's
FlashAttention-2 before anything is timed.
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
from benchmarks.bench_attention import SHAPES, timed  # noqa: E402
from benchmarks.paired import machine, write  # noqa: E402


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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path)
    parser.add_argument("--quick", action="store_true", help="fewer rounds")
    chosen = parser.parse_args()
    warnings.filterwarnings("ignore")
    print(torch.cuda.get_device_name(), "torch", torch.__version__)
    rows, ratios = [], []
    for shape in SHAPES:
        row = measured(*shape, *((7, 14) if chosen.quick else (15, 30)))
        rows.append(row)
        ratios.append([row["over_faster"], row["over_faster_sustained"]])
        if chosen.out:
            write(chosen.out, "bench_attention_backward.py", {"machine": machine(), "unit": "TFLOPS", "rows": rows})
    means = [statistics.geometric_mean(x) for x in zip(*ratios, strict=True)]
    least = [min(x) for x in zip(*ratios, strict=True)]
    print("over the faster one: geometric mean {:.3f} single, {:.3f} call after call; least {:.3f}, {:.3f}".format(
        *means, *least))  # fmt: skip


def measured(batch: int, heads: int, length: int, size: int, causal: bool, rounds: int, ms: float) -> dict[str, Any]:
    """A row of the table, which is printed. ``ms``: how long each is timed call after call."""
    work = 10 * batch * heads * length * length * size * (0.5 if causal else 1) / 1e9
    times = timed(contenders(batch, heads, length, size, causal), rounds, ms)
    rates = {name: [work / ms for ms in each] for name, each in times.items()}
    over = [mine / max(r[i] for name, r in rates.items() if name != "nvdsl") for i, mine in enumerate(rates["nvdsl"])]
    text = "  ".join(f"{name} {one:.0f}/{more:.0f}" for name, (one, more) in rates.items())
    kind = "causal" if causal else "full"
    print(batch, heads, length, size, kind, text, "over the faster {:.3f}/{:.3f}".format(*over), flush=True)
    row: dict[str, Any] = {"batch": batch, "heads": heads, "length": length, "head_size": size, "causal": causal}
    for name, (one, more) in rates.items():
        row |= {name: one, f"{name}_sustained": more}
    return row | {"over_faster": over[0], "over_faster_sustained": over[1]}


if __name__ == "__main__":
    main()
