"""Attention forward and decoding beside FlashAttention-4 and torch: single calls with the L2 flushed before each, and
call after call.

    python benchmarks/bench_attention.py [forward | decode | e4m3] [--out build/attention.json] [--quick]
        [--part 1/4] [--keep]

``--part 1/4 --keep``: every fourth problem, from the first on; of the others the file keeps what it has.
(`bench_attention_drawn.py` times problems drawn at random.)

bf16, one GPU. Each contender of a line is called in turn, and the median is taken. The results are compared with
torch's before anything is timed. ``kernel`` is `nv.attention`, ``cudnn`` torch's scaled_dot_product_attention with that
backend, ``torch`` the same as torch chooses it, ``fa4`` FlashAttention-4 where it is installed (`flash-attn-4`).
``e4m3``: the kernel of 8 bits beside that of bf16.
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
from benchmarks import charts, partial  # noqa: E402
from benchmarks.paired import in_turn, race  # noqa: E402

ROWS = 262_144
"""batch x heads x length of the sweep over lengths."""
LENGTHS = (512, 1024, 2048, 4096, 8192, 16384, 32768)
# batch, heads, length, head size, causal
SHAPES = [
    (ROWS // length // heads, heads, length, size, causal)
    for size in (64, 128, 256)
    for causal in (False, True)
    for length in LENGTHS
    for heads in (min(16, ROWS // length),)
] + [(32, 16, 384, 64, causal) for causal in (False, True)]
# batch, keys, keys of a page; one query, 64 heads of q on 8 of keys, size 128
DECODE = [
    (1, 1024, 0), (1, 8192, 0), (1, 65536, 0), (8, 1024, 0), (8, 8192, 0), (8, 65536, 0), (32, 1024, 0), (32, 8192, 0),
    (128, 1024, 0), (128, 8192, 0), (1, 1024, 64), (1, 65536, 64), (8, 8192, 64), (32, 8192, 64), (128, 1024, 64),
    (1, 32768, 0), (2, 16384, 0), (2, 65536, 0), (4, 4096, 0), (4, 16384, 0), (4, 65536, 0), (16, 4096, 0),
    (64, 2048, 0), (2, 65536, 64), (4, 16384, 64),
]  # fmt: skip
# batch, heads, length, head size, causal
EIGHT_BITS = [(ROWS // n // 16, 16, n, size, causal) for size in (128, 256) for causal in (False, True)
              for n in (2048, 8192, 16384)]  # fmt: skip


SHAPE = "batch", "heads", "length", "head_size", "causal"
NAMES = {"forward": SHAPE, "e4m3": SHAPE, "decode": ("batch", "keys", "page")}
"""Of what a problem is, by the kind."""


def _fa4() -> Callable[..., Any] | None:
    try:
        from flash_attn.cute.interface import flash_attn_func
    except ImportError:
        return None
    return flash_attn_func  # type: ignore[no-any-return]


def torchs(q: Any, k: Any, v: Any, causal: bool, backend: Any = None) -> Any:
    """torch's, of arrays (batch, length, heads, size)."""
    given = [x.transpose(1, 2) for x in (q, k, v)]
    options = {"is_causal": causal, "enable_gqa": q.shape[2] != k.shape[2]}
    if backend is None:
        return torch.nn.functional.scaled_dot_product_attention(*given, **options).transpose(1, 2)
    with sdpa_kernel(backend):
        return torch.nn.functional.scaled_dot_product_attention(*given, **options).transpose(1, 2)


def _compare(found: Any, expected: Any, tolerance: float = 1e-2) -> None:
    error = ((found.float() - expected.float()).norm() / expected.float().norm()).item()
    assert error < tolerance, error


def forward(batch: int, heads: int, length: int, size: int, causal: bool) -> dict[str, Callable[[], Any]]:
    """What is timed, by name; the kernel's result has been compared."""
    q, k, v = (torch.randn((batch, length, heads, size), device="cuda", dtype=torch.bfloat16) for _ in range(3))
    out = torch.full_like(q, float("nan"))
    _compare(nv.attention(q, k, v, out, causal=causal), torchs(q, k, v, causal, SDPBackend.FLASH_ATTENTION))
    return contenders(q, k, v, out, causal)


def contenders(q: Any, k: Any, v: Any, out: Any, causal: bool) -> dict[str, Callable[[], Any]]:
    calls: dict[str, Callable[[], Any]] = {
        "kernel": lambda: nv.attention(q, k, v, out, causal=causal),
        "cudnn": lambda: torchs(q, k, v, causal, SDPBackend.CUDNN_ATTENTION),
    }
    if theirs := _fa4():
        calls["fa4"] = lambda: theirs(q, k, v, causal=causal)
    return calls


def decode(batch: int, keys: int, page: int) -> dict[str, Callable[[], Any]]:
    """The same for one query of each sequence."""
    q = torch.randn((batch, 1, 64, 128), device="cuda", dtype=torch.bfloat16)
    k, v = (torch.randn((batch, keys, 8, 128), device="cuda", dtype=torch.bfloat16) for _ in range(2))
    out = torch.full_like(q, float("nan"))
    given, options = (k, v), {}
    if page:
        table = torch.randperm(batch * keys // page, device="cuda", dtype=torch.int32).view(batch, keys // page)
        given = tuple(torch.empty((batch * keys // page, page, 8, 128), device="cuda", dtype=k.dtype) for _ in "kv")
        for paged, whole in zip(given, (k, v), strict=True):
            paged[table.long()] = whole.view(batch, keys // page, page, 8, 128)
        options = {"page_table": table, "seqused_k": torch.full((batch,), keys, device="cuda", dtype=torch.int32)}
    _compare(nv.attention(q, *given, out, **options), torchs(q, k, v, False))
    calls: dict[str, Callable[[], Any]] = {
        "kernel": lambda: nv.attention(q, *given, out, **options),
        "torch": lambda: torchs(q, k, v, False),
    }
    if theirs := _fa4():
        calls["fa4"] = lambda: theirs(q, k, v)
    return calls


def eight_bits(batch: int, heads: int, length: int, size: int, causal: bool) -> dict[str, Callable[[], Any]]:
    """The kernel of e4m3 and that of bf16."""
    q, k, v = (torch.randn((batch, length, heads, size), device="cuda", dtype=torch.bfloat16) for _ in range(3))
    out, small = torch.empty_like(q), torch.full_like(q, float("nan"))
    given = [x.to(torch.float8_e4m3fn) for x in (q, k, v)]
    wanted = torchs(*(x[:1].bfloat16() for x in given), causal, SDPBackend.FLASH_ATTENTION)
    nv.attention(*given, small, causal=causal)
    _compare(small[:1], wanted, 0.04)
    return {
        "kernel": lambda: nv.attention(*given, small, causal=causal),
        "bf16": lambda: nv.attention(q, k, v, out, causal=causal),
    }


def timed(
    calls: dict[str, Callable[[], Any]], rounds: int, ms: float, ahead: bool = False, turns: int = 2
) -> dict[str, tuple[float, float]]:
    """Medians in ms: single calls; and call after call, of ``turns`` turns of ``ms`` each. ``ahead``: the GPU begins
    these when the host has launched all, so that its time is not in them."""
    single = {name: statistics.median(times) for name, times in race(calls, rounds, warmup=2).items()}
    counts = {name: max(3, int(ms / one)) for name, one in single.items()}
    more = in_turn(calls, counts, ahead, turns)
    return {name: (single[name], statistics.median_low(more[name])) for name in calls}


def ratios(row: dict[str, Any]) -> list[float]:
    """The kernel over the faster of the others: single calls, and call after call."""
    others = [name.removesuffix("_sustained") for name in row if name.endswith("_sustained")]
    others.remove("kernel")
    return [min(row["kernel" + end] / row[name + end] for name in others) for end in ("", "_sustained")]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", nargs="?", choices=("forward", "decode", "e4m3"), default="forward")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--quick", action="store_true", help="fewer rounds")
    parser.add_argument("--part", default="1/1", metavar="I/N", help="every N-th problem, from number I on")
    parser.add_argument("--head-size", type=int, nargs="+", help="of forward and e4m3: these alone")
    parser.add_argument("--prepare", action="store_true", help="compile and compare, and time nothing")
    parser.add_argument("--keep", action="store_true", help="keep the rows of other problems that --out has")
    chosen = parser.parse_args()
    print(torch.cuda.get_device_name(), "torch", torch.__version__)
    rows: list[dict[str, Any]] = []
    kinds: dict[str, Any] = {
        "forward": (forward, SHAPES), "decode": (decode, DECODE), "e4m3": (eight_bits, EIGHT_BITS),
    }  # fmt: skip
    make, shapes = kinds[chosen.what]
    names = NAMES[chosen.what]
    if chosen.head_size:
        shapes = [shape for shape in shapes if shape[names.index("head_size")] in chosen.head_size]
    before = partial.read(chosen.out) if chosen.keep else {}
    for shape in partial.part(shapes, chosen.part):
        problem = dict(zip(names, shape, strict=True))
        if chosen.what == "decode":
            work = 2 * problem["batch"] * problem["keys"] * 8 * 128 * 2 / 1e6
        else:
            batch, heads, length, size, causal = shape
            work = 4 * batch * heads * length**2 * size * (0.5 if causal else 1) / 1e9
        calls = make(*shape)
        if chosen.prepare:
            for call in calls.values():
                call()
        if chosen.prepare:
            continue
        ahead = chosen.what != "decode"
        rounds, ms, turns = (6, 12, 2) if chosen.quick else (30, 15, 6) if ahead else (30, 30, 2)
        found = timed(calls, rounds, ms, ahead, turns)
        rates = {name: [work / ms for ms in times] for name, times in found.items()}
        rows.append(problem | {name: one for name, (one, _) in rates.items()}
                    | {f"{name}_sustained": more for name, (_, more) in rates.items()})  # fmt: skip
        text = "  ".join(f"{name} {one:.0f}/{more:.0f}" for name, (one, more) in rates.items())
        print(*shape, text, "over the faster {:.3f}/{:.3f}".format(*ratios(rows[-1])), flush=True)
        if chosen.out:
            unit = "GB/s of keys and values" if chosen.what == "decode" else "TFLOPS"
            every = partial.write(chosen.out, "bench_attention.py", rows, names, before, unit=unit)
            chosen.out.with_suffix(".svg").write_text(str(_picture(chosen.what, every)))
    if not rows:
        return
    _summarize(rows)
    if chosen.out and len(every) > len(rows):
        print("with what was kept,", end=" ")
        _summarize(every)


def _summarize(rows: list[dict[str, Any]]) -> None:
    each = list(zip(*map(ratios, rows), strict=True))
    print("{} problems over the faster one: geometric mean {:.3f} single, {:.3f} call after call; least {:.3f}, {:.3f}"
          .format(len(rows), *map(statistics.geometric_mean, each), *map(min, each)))  # fmt: skip


def _picture(what: str, rows: list[dict[str, Any]]) -> Any:
    """A bar for each problem: over the faster of the others, single calls."""
    title = {
        "forward": "Attention over the faster of FlashAttention-4 and cuDNN",
        "decode": "Decoding over the faster of FlashAttention-4 and torch, 64 heads of q on 8 of keys",
        "e4m3": "Attention of e4m3 over that of bf16",
    }[what]
    labels = [_label(what, r) for r in rows]
    unit = "GB/s" if what == "decode" else "TFLOPS"
    entries = [(label, ratios(r)[0], f"{r['kernel']:.0f} {unit}") for label, r in zip(labels, rows, strict=True)]
    return charts.bars(title, entries, "ratio of single calls (above 1: nvdsl is faster)")


def _label(what: str, row: dict[str, Any]) -> str:
    if what == "decode":
        return f"{row['batch']} x {row['keys']}" + (f", pages of {row['page']}" if row["page"] else "")
    shape = " x ".join(str(row[name]) for name in ("batch", "heads", "length", "head_size"))
    return shape + (", causal" if row["causal"] else "")


if __name__ == "__main__":
    main()
