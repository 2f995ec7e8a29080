"""The five kernels of Graphene's paper beside the vendor's: GEMM + pointwise, MLP, LSTM cell, LayerNorm, attention.

B. Hagedorn et al., "Graphene: an IR for optimized tensor computations on GPUs", ASPLOS 2023. Each pair runs in turn, in
bf16, with L2 flushed before each call; a ratio above 1 says that nvdsl took less time. Every result is checked.

python benchmarks/bench_fused.py [gemm mlp cell norm attention] [--quick] [--out benchmarks/results/fused-h200.json]
"""

from __future__ import annotations

import argparse
import ast
import statistics
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F

import nvdsl as nv

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from benchmarks.paired import machine, race, write

BF16 = torch.bfloat16
KERNELS = Path(nv.__file__).parent / "kernels"

Call = Callable[[], Any]


@dataclass
class Pair:
    """``ours`` and ``vendor`` compute the same. ``expected``: some of it in f64; ``part`` picks that of a result."""

    name: str
    flops: float
    ours: Call
    vendor: Call
    expected: Callable[[], torch.Tensor]
    part: Callable[[torch.Tensor], torch.Tensor]
    tolerance: float = 2e-2


def _normal(*shape: int, scale: float = 1.0) -> torch.Tensor:
    return (torch.randn(*shape, device="cuda") * scale).to(BF16)


def gemm(m: int, n: int, k: int) -> Iterator[Pair]:
    """bias, relu and gelu as cuBLASLt has them; a matrix added; and SwiGLU, for which torch needs a second kernel."""
    a, w, bias, c = _normal(m, k), _normal(n, k, scale=k**-0.5), _normal(n), _normal(m, n)
    b, out, theirs = w.T, torch.empty_like(c), torch.empty_like(c)
    half, rows = torch.empty(m, n // 2, device="cuda", dtype=BF16), slice(0, 64)
    sums = a[rows].double() @ b.double()
    with_bias = sums + bias.double()

    def two_kernels() -> torch.Tensor:
        torch.mm(a, b, out=theirs)
        return F.silu(theirs[:, : n // 2]) * theirs[:, n // 2 :]

    calls: dict[str, tuple[Call, Call, Call]] = {
        "bias": (
            lambda: nv.matmul(a, b, out, bias=bias), lambda: torch.addmm(bias, a, b, out=theirs), lambda: with_bias
        ),
        "bias, relu": (
            lambda: nv.matmul(a, b, out, bias=bias, activation="relu"),
            lambda: torch._addmm_activation(bias, a, b, out=theirs), lambda: F.relu(with_bias),
        ),
        "bias, gelu": (
            lambda: nv.matmul(a, b, out, bias=bias, activation="gelu_tanh"),
            lambda: torch._addmm_activation(bias, a, b, use_gelu=True, out=theirs),
            lambda: F.gelu(with_bias, approximate="tanh"),
        ),
        "residual": (
            lambda: nv.matmul(a, b, out, c=c), lambda: torch.addmm(c, a, b, out=theirs), lambda: sums + c[rows].double()
        ),
        "swiglu": (
            lambda: nv.matmul(a, b, half, activation="swiglu"), two_kernels,
            lambda: F.silu(sums[:, : n // 2]) * sums[:, n // 2 :],
        ),
    }  # fmt: skip
    for name, (ours, vendor, expected) in calls.items():
        yield Pair(f"gemm {m} x {n} x {k}, {name}", 2.0 * m * n * k, ours, vendor, expected, lambda x: x[rows])


def mlp(layers: int, width: int, rows: int) -> Iterator[Pair]:
    """Layers with bias and relu; cuBLASLt has a call for each."""
    x, w = _normal(rows, width), _normal(layers, width, width, scale=(2 / width) ** 0.5)
    bias, out = _normal(layers, width, scale=0.1), torch.empty_like(x)
    between = [torch.empty_like(x) for _ in range(2)]

    def by_layer() -> torch.Tensor:
        y = x
        for i in range(layers):
            y = torch._addmm_activation(bias[i], y, w[i].T, out=between[i % 2])
        return y

    def expected() -> torch.Tensor:
        y = x[-300:].double()
        for i in range(layers):
            y = F.relu(y @ w[i].double().T + bias[i].double()).to(BF16).double()
        return y

    yield Pair(
        f"mlp, {layers} layers of {width}, {rows} rows", 2.0 * rows * width * width * layers,
        lambda: nv.mlp(x, w, bias, out, output_activation="relu"), by_layer, expected, lambda y: y[-300:], 5e-2,
    )  # fmt: skip


def cell(m: int, n: int, k: int) -> Iterator[Pair]:
    """relu(x W + h R + b), which the paper calls an LSTM cell. With x and h side by side it is one product."""
    xh, wr, bias = _normal(m, 2 * k), _normal(n, 2 * k, scale=(2 * k) ** -0.5), _normal(n)
    x, h, w, r = xh[:, :k], xh[:, k:], wr[:, :k], wr[:, k:]
    first, out, theirs = (torch.empty(m, n, device="cuda", dtype=BF16) for _ in range(3))

    def three_kernels() -> torch.Tensor:
        torch.addmm(bias, x, w.T, out=first)
        torch.addmm(first, h, r.T, out=theirs)
        return theirs.relu_()

    def expected() -> torch.Tensor:
        return F.relu(xh[:64].double() @ wr.T.double() + bias.double())

    for name, ours in {
        "": lambda: nv.rnn_cell(x, h, w, r, bias, nonlinearity="relu"),
        ", one product": lambda: nv.matmul(xh, wr.T, out, bias=bias, activation="relu"),
    }.items():
        yield Pair(
            f"cell {m} x {n}, K {k} + {k}{name}", 4.0 * m * n * k, ours, three_kernels, expected, lambda y: y[:64]
        )


def norm(rows: int, columns: int) -> Iterator[Pair]:
    x, w, b = _normal(rows, columns), _normal(columns), _normal(columns)
    out = torch.empty_like(x)
    yield Pair(
        f"layer norm {rows} x {columns}", 0.0, lambda: nv.layer_norm(x, w, b, out=out),
        lambda: F.layer_norm(x, w.shape, w, b),
        lambda: F.layer_norm(x[:64].double(), w.shape, w.double(), b.double()), lambda y: y[:64], 4e-2,
    )  # fmt: skip


def attention(batch: int, heads: int, length: int, size: int) -> Iterator[Pair]:
    given = [_normal(batch, length, heads, size) for _ in range(3)]
    q, k, v = (x.transpose(1, 2) for x in given)
    yield Pair(
        f"attention {batch} x {heads} x {length} x {size}", 4.0 * batch * heads * length * length * size,
        lambda: nv.attention(*given), lambda: F.scaled_dot_product_attention(q, k, v).transpose(1, 2),
        lambda: F.scaled_dot_product_attention(*(x[:1].double() for x in (q, k, v))).transpose(1, 2), lambda y: y[:1],
    )  # fmt: skip


PARTS: dict[str, tuple[Callable[..., Iterator[Pair]], list[tuple[int, ...]]]] = {
    "gemm": (gemm, [(8192, 8192, 8192), (8448, 8192, 2048)]),
    "mlp": (mlp, [(20, 128, 65_536), (20, 64, 65_536), (20, 256, 65_536), (4, 128, 65_536), (1, 128, 65_536)]),
    "cell": (cell, [(8448, 2048, 1024), (8448, 2048, 2048)]),
    "norm": (norm, [(65_536, 1024), (65_536, 4096), (65_536, 8192)]),
    "attention": (attention, [(32, 16, 384, 64)]),
}
"""What makes the pairs, and of which sizes."""
SOURCES = {
    "gemm": "gemm/pingpong.py", "mlp": "mlp/forward.py", "cell": "recurrent/fused.py", "norm": "rows/norm_kernels.py",
    "attention": "attention/forward.py",
}  # fmt: skip
"""Where each kernel stands, in nvdsl/kernels."""


def lines(part: str) -> tuple[int, int]:
    """Lines of code, without comments and docstrings: of the kernel's file, and with the files of nvdsl/kernels that it
    is built of."""
    first = KERNELS / SOURCES[part]
    found: dict[Path, int] = {}
    waiting = [first]
    while waiting:
        path = waiting.pop()
        if path in found:
            continue
        tree = ast.parse(path.read_text())
        documented = (ast.Module, ast.ClassDef, ast.FunctionDef)
        texts = [node.body[0] for node in ast.walk(tree) if isinstance(node, documented) and ast.get_docstring(node)]
        skipped = {number for text in texts for number in range(text.lineno, (text.end_lineno or 0) + 1)}
        used = {node.lineno for node in ast.walk(tree) if isinstance(node, ast.stmt | ast.expr | ast.arg | ast.keyword)}
        found[path] = len(used - skipped)
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("nvdsl.kernels."):
                parts = (node.module or "").split(".")[2:]
                tried = [KERNELS.joinpath(*parts).with_suffix(".py")]
                tried += [KERNELS.joinpath(*parts, f"{alias.name}.py") for alias in node.names]
                waiting += [path for path in tried if path.is_file()]
    return found[first], sum(found.values())


def run(part: str, pair: Pair, rounds: int) -> dict[str, Any]:
    expected = pair.expected()
    scale = expected.abs().max().item()
    for call in (pair.ours, pair.vendor):
        torch.testing.assert_close(pair.part(call()).double(), expected, rtol=0, atol=pair.tolerance * scale)
    times = race({"nvdsl": pair.ours, "vendor": pair.vendor}, rounds, warmup=3)
    ours, vendor = (statistics.median(times[name]) for name in ("nvdsl", "vendor"))
    ratio = statistics.median(b / a for a, b in zip(times["nvdsl"], times["vendor"], strict=True))
    own, all_files = lines(part)
    row = {"kernel": part, "problem": pair.name, "ms": ours, "vendor_ms": vendor, "ratio": ratio}
    row |= {"lines": own, "lines_with_blocks": all_files}
    return row | ({"tflops": pair.flops / ours / 1e9} if pair.flops else {})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("parts", nargs="*", default=list(PARTS), metavar="PART", help=", ".join(PARTS))
    parser.add_argument("--quick", action="store_true", help="one size each")
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    torch.manual_seed(0)
    torch.backends.cuda.preferred_blas_library("cublaslt")
    found = []
    for part in args.parts:
        make, sizes = PARTS[part]
        for size in sizes[: 1 if args.quick else None]:
            for pair in make(*size):
                row = run(part, pair, args.rounds)
                found.append(row)
                speed = f"{row['tflops']:6.0f} TFLOPS" if "tflops" in row else ""
                times = f"{row['ms']:8.4f} ms{row['vendor_ms']:9.4f} ms{row['ratio']:7.3f}"
                print(f"{row['problem']:<44}{times} {speed}", flush=True)
    if args.out:
        write(args.out, "bench_fused.py", {"machine": machine(), "fused": found})


if __name__ == "__main__":
    main()
