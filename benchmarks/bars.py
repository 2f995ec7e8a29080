"""The page of targets, docs/measured/bars.md, of the figures in benchmarks/results.

    python benchmarks/bars.py --out docs/measured/bars.md

After new results run it again. Where another file has the newer figures, it is named here.
"""

from __future__ import annotations

import argparse
import functools
import json
import statistics
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parent / "results"

HEAD = """# Targets

Targets that this project has set itself, and where they stand. `NAME` is the file that has the figures with machine,
date, command and each time, `benchmarks/results/NAME.json`; `python benchmarks/bars.py --out docs/measured/bars.md`
makes this page of them. GPUs are an H200 where the name does not say h100. "1.04 / 1.08" is of single calls, and of
calls one after the other; "1.02 to 1.86" is the least and the greatest. Where a target is not met, a link leads to what
was tried, and to what bounds it.
"""


@dataclass(frozen=True)
class Figure:
    """What was measured: the numbers, and how they are written."""

    values: tuple[float, ...]
    text: str


@dataclass(frozen=True)
class Bar:
    """``figure`` of the file ``name`` is at least ``limit``; where that is an upper one, at ``most``."""

    what: str
    limit: float
    name: str
    figure: Callable[[str], Figure]
    tried: str = ""
    most: bool = False

    def line(self) -> str:
        figure = self.figure(self.name)
        met = max(figure.values) <= self.limit if self.most else min(figure.values) >= self.limit
        state = "met" if met else f"not met: [tried]({self.tried})" if self.tried else "not met"
        limit = f"at {'most' if self.most else 'least'} {self.limit:,g}"
        return f"| {self.what} | {limit} | {figure.text} | {state} | `{self.name}` |"


@functools.cache
def load(name: str) -> Any:
    return json.loads((RESULTS / f"{name}.json").read_text())


def span(values: Iterable[float], form: str = ".3f") -> Figure:
    found = tuple(values)
    low, high = (f"{x:{form}}" for x in (min(found), max(found)))
    return Figure(found, low if low == high else f"{low} to {high}")


def both(single: float, sustained: float, form: str = ".3f") -> Figure:
    return Figure((single, sustained), f"{single:{form}} / {sustained:{form}}")


def summary(name: str) -> Any:
    """Of a file that has products of one kind."""
    (found,) = load(name)["summary"].values()
    return found


def mean(name: str) -> Figure:
    return both(summary(name)["geometric_mean"], summary(name)["call_after_call"])


def lowest(name: str) -> Figure:
    return span([summary(name)["lowest"]["ratio"]])


def percent(name: str) -> Figure:
    return span([100 * summary(name)["under"]["0.95"]], ".3g")


def means(name: str) -> Figure:
    return span(kind["geometric_mean"] for kind in load(name)["summary"].values())


def lowest_of_all(name: str) -> Figure:
    return span([min(kind["lowest"]["ratio"] for kind in load(name)["summary"].values())])


def apart(name: str) -> Figure:
    """How far the means of each kind are from those of the file of an H200."""
    other = load(name.replace("h100", "h200"))["summary"]
    return span(abs(x["geometric_mean"] - other[kind]["geometric_mean"]) for kind, x in load(name)["summary"].items())


def rows(key: str, form: str = ".3f", **wanted: Any) -> Callable[[str], Figure]:
    """An entry of the rows that are of this kind."""

    def figure(name: str) -> Figure:
        found = load(name).get("rows") or load(name)["fused"]
        return span([row[key] for row in found if key in row and wanted.items() <= row.items()], form)

    return figure


def over(
    reduced: Callable[[Iterable[float]], float], ours: str, *others: str
) -> Callable[[str], Figure]:
    """The speed of ``ours`` over the fastest of ``others``, over all problems."""

    def figure(name: str) -> Figure:
        faster = lambda row, way: max(row[x + way] for x in others if row.get(x + way))  # noqa: E731
        ways = ([row[ours + way] / faster(row, way) for row in load(name)["rows"]] for way in ("", "_sustained"))
        return both(*map(reduced, ways))

    return figure


def lifted(size: int) -> Callable[[str], Figure]:
    """The speed of e4m3 over that of bf16, for heads of this size."""

    def figure(name: str) -> Figure:
        found = [row for row in load(name)["rows"] if row["head_size"] == size]
        return span(row["kernel" + way] / row["bf16" + way] for row in found for way in ("", "_sustained"))

    return figure


def bandwidth(name: str) -> Figure:
    """The lowest of those that read 1 GB or more: keys and values of a token are 4 KB."""
    found = [row for row in load(name)["rows"] if row["batch"] * row["keys"] >= 2**18]
    return both(min(row["kernel"] for row in found), min(row["kernel_sustained"] for row in found), ",.0f")


def errors(name: str) -> Figure:
    return span([statistics.geometric_mean(row["kernel"] / row["fa4"] for row in load(name)["rows"])])


def seconds(when: str, *about: str) -> Callable[[str], Figure]:
    """Of first calls of functions with these words in their names."""
    return lambda name: span(
        (row[when]["s"] for row in load(name)["rows"] if any(word in row["what"] for word in about)), ".2f"
    )


def host(what: str) -> Callable[[str], Figure]:
    return lambda name: span((row["us"] for row in load(name)["rows"] if row["what"].startswith(what)), ".2f")


RANDOM, SQUARES, FEW = "matmul-random-h200", "matmul-random-squares-h200", "matmul-few-rows-h200"
KINDS, GROUPED, BITS = "matmul-kinds-13135337-h200", "grouped-h200", "quantized-h200"
FORWARD, BACKWARD, DECODE, E4M3 = (f"attention{x}-h200" for x in ("", "-backward", "-decode", "-e4m3"))
FUSED, FORWARDS, FIRST = "fused-h200", "rows-h200", "first-last-h200"
TAILS, OFTEN = "small_products.md#the-tails-of-random-shapes", "few_rows.md#long-k-few-rows-one-column"
GRID, SLOPES = "matmul.md#what-bounds-squares-of-the-grid", "attention_backward.md#what-bounds-it-and-what-was-tried"
SHORT, ODD = "rows.md#768-columns-without-that", "rows.md#rows-of-a-warp-or-two-that-begin-anywhere"
average = statistics.geometric_mean

PRODUCTS = [
    Bar("200 random shapes of bf16, mean", 1.02, RANDOM, mean, TAILS),
    Bar("of these under 0.95, percent", 5, RANDOM, percent, TAILS, most=True),
    Bar("the lowest of these", 0.85, RANDOM, lowest, TAILS),
    Bar("random squares of 1,024 to 16,384, mean", 1.03, SQUARES, mean, GRID),
    Bar("the lowest of these", 0.95, SQUARES, lowest, "matmul.md#rows-off-the-grid-of-32-bytes"),
    Bar("61 squares of the grid, mean", 1.05, "matmul-squares-bf16-h200", mean, GRID),
    Bar("layers of 1 to 16,384 rows, mean", 1.02, "matmul-layers-h200", mean, GRID),
    Bar("K of 65,536, results of 64 to 512, mean", 1.0, "matmul-long-k-h200", mean, OFTEN),
    Bar("1 to 250 rows, mean", 1.03, FEW, mean, OFTEN),
    Bar("the lowest of these", 0.95, FEW, lowest, OFTEN),
    Bar("18 types and layouts, 34 random shapes each, means", 1.0, KINDS, means, "matmul.md#every-type-and-layout"),
    Bar("the lowest of these", 0.9, KINDS, lowest_of_all, "matmul.md#what-is-left-under-09"),
    Bar("their means on an H100, how far apart", 0.02, KINDS.replace("h200", "h100"), apart, "matmul.md#on-an-h100",
        most=True),
    Bar("groups of rows, over torch._grouped_mm", 1.1, GROUPED, rows("ratio_to_torch", way="rows"), "groups.md#rows"),
    Bar("groups along K, over torch._grouped_mm", 1.1, GROUPED, rows("ratio_to_torch", way="along-k")),
    Bar("groups, over QuACK", 1.0, GROUPED, rows("ratio_to_quack"), "groups.md#rows"),
    Bar("e4m3 with block scales, 4096 to 16384, TFLOPS", 1400, "blockscaled-h200", rows("nvdsl_tflops", ",.0f"),
        "block_scales.md#what-bounds-it"),
    *(Bar(f"int4, {m} row{'s' * (m > 1)}, {calls}", 3.0, BITS, rows(key, ".2f", rows=m), "quantized.md#what-bounds-it")
      for m in (1, 16, 32, 64) for calls, key in (("single calls", "ratio"), ("layers", "layers_ratio"))),
    Bar("with an epilogue, over cuBLASLt's", 1.05, FUSED, rows("ratio", kernel="gemm"), "matmul.md#with-an-epilogue"),
]  # fmt: skip
ATTENTION = [
    Bar("forward, 44 problems, mean", 1.05, FORWARD, over(average, "kernel", "fa4", "cudnn"), "attention.md"),
    Bar("the lowest of these", 0.98, FORWARD, over(min, "kernel", "fa4", "cudnn"), "attention.md"),
    Bar("gradients, 44 problems, mean", 1.0, BACKWARD, over(average, "nvdsl", "fa4", "cudnn"), SLOPES),
    Bar("the lowest of these", 0.95, BACKWARD, over(min, "nvdsl", "fa4", "cudnn"), SLOPES),
    Bar("decoding, mean, over the faster of FlashAttention-4 and torch", 1.02, DECODE,
        over(average, "kernel", "fa4", "torch"), "attention.md#decoding"),
    Bar("decoding, the lowest of 1 GB or more, GB/s", 4300, DECODE, bandwidth,
        "attention.md#what-single-calls-of-1-gb-wait-for"),
    Bar("e4m3, heads of 128, over bf16", 1.3, E4M3, lifted(128), "attention.md#what-a-step-of-8-bits-waits-for"),
    Bar("e4m3, heads of 256, over bf16", 1.3, E4M3, lifted(256), "attention.md#what-a-step-of-8-bits-waits-for"),
    Bar("error beside float64, over FlashAttention-4's, mean", 1.0, "attention-errors-h200", errors,
        "attention.md#errors", most=True),
    Bar("a first call with nothing on disk, seconds", 1.0, FIRST, seconds("first", "attention"), most=True),
    Bar("a first call in a later process, seconds", 0.3, FIRST, seconds("later", "attention"), most=True),
    Bar("a repeated call, microseconds of the host", 7.7, "call-quiet-h200", host("nv.attention(q, k, v, out)"),
        most=True),
]  # fmt: skip
ROWS = [
    *(Bar(f"{title}, over {whose}", limit, FORWARDS, rows(f"ratio_to_{other}", kernel=kernel), tried)
      for other, whose, limit in (("copy", "a copy of as many bytes", 0.97), ("quack", "QuACK", 1.0))
      for title, kernel, tried in (
          ("softmax", "softmax", "rows.md#softmax-of-32768-columns"),
          ("LayerNorm", "layer_norm", SHORT),
          ("LayerNorm with a bias", "layer_norm, bias", ODD),
          ("RMSNorm", "rms_norm", SHORT),
          ("cross entropy with its gradient", "cross_entropy, gradient", SHORT),
          ("a loss alone", "cross_entropy", "rows.md#the-loss-alone"))
      if (other, kernel) != ("quack", "layer_norm, bias")),
    Bar("gradients of RMSNorm, over QuACK", 1.0, "rows-gradients-h200",
        rows("ratio_to_quack", kernel="rms_norm_backward")),
    Bar("20 layers of 128 in one kernel, over cuBLASLt", 5, FUSED,
        rows("ratio", ".2f", problem="mlp, 20 layers of 128, 65536 rows")),
    Bar("LSTM, 128 steps of 256 x 1,024, over cuDNN", 2, "lstm-h200",
        rows("speedup", ".2f", kind="lstm", steps=128, what="forward")),
    Bar("recurrent cells, over products and pointwise kernels", 1.2, FUSED, rows("ratio", ".2f", kernel="cell")),
    Bar("first calls of lstm, gru and mlp, seconds", 0.6, FIRST, seconds("first", "lstm", "gru", "mlp"), most=True),
]  # fmt: skip

GROUPS = {
    ("Products", "Over cuBLAS's speed, unless it says otherwise."): PRODUCTS,
    ("Attention", "Over the faster of FlashAttention-4 and cuDNN, unless it says otherwise."): ATTENTION,
    ("Rows and fused kernels", "Of 768 to 65,536 columns."): ROWS,
}


def page() -> str:
    parts = [HEAD]
    for (title, about), bars in GROUPS.items():
        parts.append(f"## {title}\n\n{about}\n\n| | target | measured | | `NAME` |\n| --- | --- | --- | --- | --- |")
        parts += [*(bar.line() for bar in bars), ""]
    return "\n".join(parts)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--out", type=Path, help="where the page goes; else it is printed")
    out = parser.parse_args().out
    if out is None:
        sys.stdout.write(page())
    else:
        out.write_text(page())


if __name__ == "__main__":
    main()
