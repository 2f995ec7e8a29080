"""Tune ``nv.matmul`` on this GPU and write the table that comes with nvdsl: python benchmarks/tune_matmul.py

Squares of 1024 to 16384 by rows, the four layouts of some, 8-bit floats, and few rows against large weights; seconds
a shape. ``--only M`` keeps the shapes with so many rows; ``--list`` shows them.
"""

from __future__ import annotations

import argparse
import itertools
from collections.abc import Iterator

import nvdsl as nv
from nvdsl.kernels.gemm.tuned import tuned_matmul

Shape = tuple[int, int, int, nv.DType, str]


def shapes() -> Iterator[Shape]:
    """M, N, K, dtype, layout (n by rows, t by columns)."""
    for size in range(1024, 16385, 256):
        yield size, size, size, nv.f16, "nn"
    for size, dtype, layout in itertools.product((2048, 4096, 8192), (nv.f16, nv.bf16), ("nn", "nt", "tn", "tt")):
        yield size, size, size, dtype, layout
    for size, dtype in itertools.product((2048, 4096, 8192), (nv.e4m3, nv.i8, nv.f32)):
        yield size, size, size, dtype, "nt"
    weights = ((4096, 4096), (14336, 4096), (4096, 14336))
    for m, (n, k), layout in itertools.product((1, 16, 64, 128, 256), weights, ("nn", "nt")):
        yield m, n, k, nv.f16, layout


def stored(rows: int, cols: int, dtype: nv.DType, layout: str) -> nv.ShapeDtype:
    return nv.ShapeDtype((rows, cols) if layout == "n" else (cols, rows), dtype)


def tune(m: int, n: int, k: int, dtype: nv.DType, layout: str) -> nv.Tuning:
    out = {nv.e4m3: nv.bf16, nv.i8: nv.i32}.get(dtype, dtype)
    a, b = stored(m, k, dtype, layout[0]), stored(k, n, dtype, layout[1])
    majors = {"a_major": "k" if layout[0] == "n" else "mn", "b_major": "mn" if layout[1] == "n" else "k"}
    constants = {"direct_store": False, "sms": 132, "epilogue_op": None}
    acc = nv.i32 if dtype == nv.i8 else nv.f32
    return tuned_matmul.tune(a, b, nv.ShapeDtype((m, n), out), acc_dtype=acc, **majors, **constants)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", type=int)
    parser.add_argument("--list", action="store_true")
    given = parser.parse_args()
    for shape in dict.fromkeys(shapes()):
        if given.only not in (None, shape[0]):
            continue
        print(*shape[:3], shape[3].name, shape[4], flush=True)
        if not given.list:
            print(" ", tune(*shape).config, flush=True)
    if not given.list:
        print(tuned_matmul.export())


if __name__ == "__main__":
    main()
