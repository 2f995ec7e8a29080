"""Which matrix products are timed: one `Workload` each, and the named sets of them.

A layout has a letter for each operand, as BLAS has: N, its rows are contiguous as the product is written (A is M x K,
B is K x N); T, it is stored transposed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from typing import Any

BYTES = {"f32": 4, "tf32": 4, "f16": 2, "bf16": 2, "e4m3": 1, "e5m2": 1, "i8": 1, "i32": 4}
LAYOUTS = ("NN", "NT", "TN", "TT")


@dataclass(frozen=True)
class Workload:
    """``out[m, n] = a[m, k] @ b[k, n]``.

    ``dtype``, ``acc``, ``out``: names of dtypes; tf32: f32 arrays, multiplied as tf32. ``scales``: "" for none,
    "tensor" for one of each operand, "rows" for one of each row of A and column of B.
    """

    m: int
    n: int
    k: int
    dtype: str = "f16"
    acc: str = "f32"
    out: str = "f16"
    layout: str = "NN"
    scales: str = ""

    @property
    def kind(self) -> str:
        """All but the sizes: f16.f32.f16.NN"""
        return ".".join([self.dtype, self.acc, self.out, self.layout, *filter(None, [self.scales])])

    @property
    def key(self) -> str:
        return f"{self.kind}.{self.m}x{self.n}x{self.k}"

    @property
    def size(self) -> str:
        return str(self.m) if self.m == self.n == self.k else f"{self.m}x{self.n}x{self.k}"

    @property
    def flops(self) -> int:
        return 2 * self.m * self.n * self.k

    @property
    def bytes(self) -> int:
        """Of both operands and the result."""
        return (self.m + self.n) * self.k * BYTES[self.dtype] + self.m * self.n * BYTES[self.out]

    @property
    def seconds(self) -> float:
        """About how long one product takes on an H200: for deadlines, not for results."""
        rate = {4: 350e12, 2: 650e12, 1: 1300e12}[BYTES[self.dtype]]
        return max(self.flops / rate, self.bytes / 3e12) + 5e-6

    @property
    def tolerance(self) -> float:
        """Bound of ||out - exact|| / ||exact||: some times what rounding makes it, far below what a lost term does.

        Rounded results; sums of f16 round once for each k16 step of wgmma, an error that grows with the root of the
        steps; sums of fp8 are kept with 14 bits by the tensor cores.
        """
        if self.acc == "i32":
            return 0.0
        rounding = {"f16": 1e-3, "bf16": 4e-3, "f32": 1e-4}[self.out]
        if self.acc == "f16":
            rounding = max(rounding, 2**-11 * (self.k / 16) ** 0.5)
        return max(rounding, {"e4m3": 1e-2, "e5m2": 1e-2, "tf32": 2e-3}.get(self.dtype, 0.0))

    def plain(self) -> dict[str, Any]:
        return asdict(self)


def square(n: int, **options: Any) -> Workload:
    return Workload(n, n, n, **options)


FP8 = {"dtype": "e4m3", "out": "bf16", "layout": "NT"}  # 8- and 32-bit operands have K contiguous: wgmma's rule
INT8 = {"dtype": "i8", "acc": "i32", "out": "i32", "layout": "NT"}
TF32 = {"dtype": "tf32", "out": "f32", "layout": "NT"}
BF16 = {"dtype": "bf16", "out": "bf16"}

SIZES = tuple(range(1024, 16384 + 1, 256))
CHOSEN = (1024, 2048, 3072, 4096, 5120, 6144, 8192, 12288, 16384)
POWERS = tuple(2**e for e in range(8, 15))

WEIGHTS = ((4096, 4096), (6144, 4096), (14336, 4096), (4096, 14336), (8192, 8192))
"""(N, K) of layers of language models: what few rows are multiplied with."""
ROWS = (1, 2, 4, 8, 16, 32, 64, 96, 128, 192, 256)

RAGGED = (
    (4095, 4097, 4099), (4097, 4096, 4096), (4096, 4104, 4096), (4096, 4096, 4104), (8191, 8192, 8192),
    (5000, 5000, 5000), (3001, 6008, 1000), (1023, 1025, 8192), (12345, 2048, 4096), (2048, 12344, 4096),
    (777, 7777, 2048), (129, 8192, 8192),
)  # fmt: skip
"""Sizes that no tile divides; the first is one that TMA can't read as it lies."""

Made = Callable[[Iterable[int]], list[Workload]]


def _squares(sizes: Iterable[int], **options: Any) -> list[Workload]:
    return [square(n, **options) for n in sizes]


SETS: dict[str, tuple[str, tuple[int, ...], Made]] = {
    "squares-f16": ("f16, f32 sums", SIZES, lambda sizes: _squares(sizes)),
    "squares-f16-acc16": ("f16, f16 sums", SIZES, lambda sizes: _squares(sizes, acc="f16")),
    "squares-bf16": ("bf16, f32 sums", SIZES, lambda sizes: _squares(sizes, **BF16)),
    "layouts": (
        "the four layouts, f16, f32 sums", CHOSEN,
        lambda sizes: [square(n, layout=layout) for layout in LAYOUTS for n in sizes],
    ),
    "fp8": (
        "e4m3, a scale for each operand, and for each row and column; bf16 out", CHOSEN,
        lambda sizes: [square(n, scales=scales, **FP8) for scales in ("tensor", "rows") for n in sizes],
    ),
    "int8": ("int8, s32 sums and result", CHOSEN, lambda sizes: _squares(sizes, **INT8)),
    "tf32": ("f32 arrays multiplied as tf32", CHOSEN, lambda sizes: _squares(sizes, **TF32)),
    "powers": ("f16, f32 sums, powers of two", POWERS, lambda sizes: _squares(sizes)),
    "skinny": (
        "few rows times the weights of a layer, stored (N, K), f16, f32 sums", ROWS,
        lambda sizes: [Workload(m, n, k, layout="NT") for n, k in WEIGHTS for m in sizes],
    ),
    "ragged": (
        "sizes that no tile divides, f16, f32 sums", tuple(range(len(RAGGED))),
        lambda sizes: [Workload(*RAGGED[i]) for i in sizes],
    ),
}  # fmt: skip
"""name -> what it is, its sizes (for skinny: M; for ragged: numbers of `RAGGED`), and the problems of such sizes."""


def problems(name: str, sizes: Iterable[int] | None = None) -> list[Workload]:
    """The problems of a set, or of other ``sizes`` of it. Raises KeyError for an unknown name,
    ValueError for a number that `RAGGED` does not have."""
    _, usual, made = SETS[name]
    if name == "ragged" and not set(usual) >= set(sizes or ()):
        raise ValueError(f"the sizes of ragged are numbers of its {len(usual)} problems, 0 to {len(usual) - 1}")
    return made(usual if sizes is None else sizes)
