"""`QuantizedWeight`: a matrix of 4- or 8-bit weights with scales, packed in the order in which a kernel reads it."""

from __future__ import annotations

import reprlib
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import ml_dtypes
import numpy as np

import nvdsl as nv
from nvdsl.driver import arrays
from nvdsl.errors import ArgumentError
from nvdsl.errors.records import dataclass
from nvdsl.errors.tracebacks import at_call
from nvdsl.kernels.arguments import Argument
from nvdsl.kernels.blocks.dequantize import BITS
from nvdsl.kernels.gemm.quantized_operands import COLUMNS, COLUMNS_OF_PART, SLICE, THREADS_OF_PART
from nvdsl.kernels.options import dtype as element_type
from nvdsl.kernels.options import is_whole, switch

GROUPS = (32, 64, 128)
PARTS = COLUMNS // COLUMNS_OF_PART


@dataclass(frozen=True, eq=False)
class QuantizedWeight:
    """``w[k, n] = scales[k // group, n] * (values[k, n] - zeros[k // group, n])``: what `nvdsl.quantized_matmul` takes.

    `pack` makes one of integers or e4m3, `quantize` of floats; both work in NumPy, on arrays of any library in the
    host's memory. `map` takes its arrays elsewhere, to
    a GPU, say. ``kind``: what values are stored as, "u4", "u8" or "e4m3". ``group``: elements along K with one scale.
    ``data``: i32, a row for each 256 columns. ``scales``, ``zeros``: (groups, N rounded up to 256).
    """

    kind: str
    shape: tuple[int, int]
    group: int
    data: Any
    scales: Any
    zeros: Any = None

    def __post_init__(self) -> None:
        if self.kind not in BITS:
            raise ArgumentError(f"kind={self.kind!r}", rule=f"a weight is stored as one of {', '.join(BITS)}")
        _check_group(self.group)

    @staticmethod
    @at_call
    def pack(
        values: Any, scales: Any, *, zeros: Any = None, group: int | None = None, bits: int = 8
    ) -> QuantizedWeight:
        """Pack ``values``, (K, N): integers, or e4m3.

        Without ``zeros``, integers have a sign: -8 to 7 (``bits=4``), or -128 to 127. With ``zeros``, they are 0 to 15,
        or 0 to 255, and the zero points are such integers. ``scales`` and ``zeros`` are (ceil(K / group), N); or (N,),
        with ``group=None``, for one scale of a whole column. ``group``: 32, 64, 128, or a multiple of 128. Scales of
        f16 and bf16 stay what they are; others become f32.

        Raises ArgumentError for values out of range, and for shapes that don't fit.
        """
        values, scales = _numbers("values", values), _numbers("scales", scales)
        zeros = None if zeros is None else _numbers("zeros", zeros)
        if values.ndim != 2 or not values.size:
            raise ArgumentError(f"weights of shape {values.shape}", rule="a weight is (K, N), with one element or more")
        K, N = values.shape
        is_float = values.dtype == ml_dtypes.float8_e4m3fn
        if not is_float and values.dtype.kind not in "iu":
            raise ArgumentError(
                f"weights of {values.dtype}",
                rule="packed weights are integers, or e4m3",
                fix="QuantizedWeight.quantize(w)",
            )
        _check_bits(bits)
        if is_float and (bits != 8 or zeros is not None):
            raise ArgumentError(f"bits={bits} of {values.dtype}", rule="4 or 8; e4m3 has 8, and no zero points")
        kind = "e4m3" if is_float else f"u{bits}"
        scales = np.atleast_2d(scales)
        if group is None:
            group = max(-(-K // SLICE), 1) * SLICE
        _check_group(group)
        want = (-(-K // group), N)
        for name, table in (("scales", scales), ("zeros", zeros)):
            if table is not None and np.atleast_2d(table).shape != want:
                raise ArgumentError(
                    f"{name} of shape {np.shape(table)} for weights of {values.shape} and group={group}",
                    rule=f"a number for each group of a column: {want}",
                    fix="transpose or reshape them",
                )
        if scales.dtype not in (np.float16, ml_dtypes.bfloat16, np.float32):
            scales = scales.astype(np.float32)
        if not is_float:
            low, high = (0, 2**bits - 1) if zeros is not None else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
            for name, x in (("values", values), ("zeros", zeros)):
                if x is not None and not (low <= np.min(x) and np.max(x) <= high and np.all(x == np.rint(x))):
                    raise ArgumentError(
                        f"{name} of {np.min(x)} to {np.max(x)} in {bits} bits",
                        rule=f"they are integers of {low} to {high}"
                        + ("" if zeros is None else ": without a sign, where there are zero points"),
                    )
            values = (values.astype(np.int16) + (0 if zeros is not None else 2 ** (bits - 1))).astype(np.uint8)
        columns = -(-N // COLUMNS) * COLUMNS
        pad = lambda x: np.pad(x, ((0, 0), (0, columns - N)))  # noqa: E731
        zeros = None if zeros is None else pad(np.atleast_2d(zeros).astype(scales.dtype))
        return QuantizedWeight(kind, (K, N), group, _packed(values.view(np.uint8), BITS[kind]), pad(scales), zeros)

    @staticmethod
    @at_call
    def quantize(
        w: Any, *, bits: int = 4, group: int | None = 128, symmetric: bool = True, dtype: Any = np.float16
    ) -> QuantizedWeight:
        """Round floats, (K, N), to integers of 4 or 8 bits. For each group of a column, the largest magnitude becomes
        the largest integer; with ``symmetric=False`` the least and the greatest element become the least and the
        greatest integer, and there is a zero point.
        ``dtype``: of the scales. The nearest ones are taken, or the next larger ones where weights would be cut off, so
        that a weight is off by half a scale at most (with zero points, by one). ``group`` None: one scale for a whole
        column. Raises ArgumentError as `pack` does."""
        w = _numbers("w", w).astype(np.float32)
        if w.ndim != 2 or not w.size or not np.isfinite(w).all():
            raise ArgumentError(
                f"weights of shape {w.shape}" + ("" if w.ndim != 2 or not w.size else ", not all finite"),
                rule="a weight is (K, N), with one element or more, all of them finite",
            )
        _check_bits(bits)
        symmetric, kind = switch("symmetric", symmetric), element_type("dtype", dtype)
        if kind not in (nv.f16, nv.bf16, nv.f32):
            raise ArgumentError(f"dtype={dtype!r}", rule="scales are f16, bf16 or f32")
        K, N = w.shape
        if group is not None:
            _check_group(group)
        size = min(group or K, -(-K // SLICE) * SLICE)
        padded = np.pad(w, ((0, -K % size), (0, 0)), mode="edge").reshape(-1, size, N)
        if symmetric:
            most = 2 ** (bits - 1) - 1
            exact = np.abs(padded).max(1) / np.float64(most)
            zeros, low, high = None, -most, most
        else:
            low, high = 0, 2**bits - 1
            least, greatest = np.minimum(padded.min(1), 0), np.maximum(padded.max(1), 0)
            exact = (greatest.astype(np.float64) - least) / high
        with np.errstate(over="ignore"):
            scales = exact.astype(kind.numpy)
        # Subnormal ones are rounded by up to a half, or to 0. The next number has the next bits.
        scales.view(f"u{kind.bytes}")[:] += exact * high > scales.astype(np.float64) * (high + 0.5)
        if not np.isfinite(scales.astype(np.float32)).all():
            raise ArgumentError(
                f"a scale of {exact.max():.3g} in {scales.dtype}",
                rule="the greatest weights, over the greatest integer, are numbers of the scales' type",
                fix="dtype=np.float32",
            )
        steps = np.where(scales == 0, 1, scales).astype(np.float32)
        if not symmetric:
            zeros = np.clip(np.rint(-least / steps), low, high).astype(np.uint8)
        values = np.rint(padded / steps[:, None]) + (0 if zeros is None else zeros[:, None])
        values = np.clip(values, low, high).astype(np.int16).reshape(-1, N)[:K]
        return QuantizedWeight.pack(values, scales, zeros=zeros, group=group, bits=bits)

    @property
    def packed_shapes(self) -> tuple[tuple[int, int], tuple[int, int]]:
        """Of ``data``, and of ``scales`` and ``zeros``."""
        K, N = self.shape
        tiles, words = -(-N // COLUMNS), -(-K // SLICE) * SLICE * COLUMNS * BITS[self.kind] // 32
        return (tiles, words), (-(-K // self.group), tiles * COLUMNS)

    def dequantized(self) -> np.ndarray:
        """The weight as f32, (K, N). Its arrays are NumPy's."""
        K, N = self.shape
        stored = _unpacked(self.data, BITS[self.kind])[:K, :N]
        if self.kind == "e4m3":
            values = stored.view(ml_dtypes.float8_e4m3fn).astype(np.float32)
        else:
            zero = 2 ** (BITS[self.kind] - 1) if self.zeros is None else self._of_all(self.zeros)
            values = stored.astype(np.float32) - zero
        return values * self._of_all(self.scales)

    def _of_all(self, table: Any) -> Any:
        K, N = self.shape
        return np.repeat(table.astype(np.float32), self.group, axis=0)[:K, :N]

    def map(self, function: Callable[[Any], Any]) -> QuantizedWeight:
        """With ``function`` of each array in its place: ``weight.map(lambda x: torch.from_numpy(x).cuda())``."""
        zeros = None if self.zeros is None else function(self.zeros)
        return replace(self, data=function(self.data), scales=function(self.scales), zeros=zeros)

    def __repr__(self) -> str:
        zeros = "" if self.zeros is None else ", zeros"
        return f"QuantizedWeight({self.kind}, {self.shape}, group={self.group}{zeros})"


def _numbers(name: str, x: Any) -> np.ndarray:
    """An array of any library in the host's memory, or what NumPy makes of it. Raises ArgumentError for others, and
    for what is no real number."""
    if isinstance(x, np.ma.MaskedArray):
        raise ArgumentError(f"{name} is a masked array", rule="its mask would be lost", fix="x.filled(0)")
    known = not isinstance(x, np.ndarray) and arrays.describe(x) is not None
    found = Argument.of(name, x).host if known else np.asarray(x)
    if found is None:
        raise ArgumentError(
            f"{name} in a GPU's memory", rule="weights are packed by NumPy, in the host's memory", fix="x.cpu()"
        )
    if found.dtype in (ml_dtypes.int4, ml_dtypes.uint4):  # a byte each in NumPy, which compares and shifts none
        found = found.astype(np.int8)
    if found.dtype.kind not in "biuf" and found.dtype not in (ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn):
        raise ArgumentError(f"{name} of {found.dtype}", rule=f"{name} are real numbers", fix="x.astype(np.float32)")
    return found


def _check_group(group: Any) -> None:
    fits = is_whole(group) and 0 < group < 2**31
    if not fits or group not in GROUPS and group % SLICE:
        raise ArgumentError(
            f"group={reprlib.repr(group)}", rule=f"a group is 32, 64, 128 or a multiple of {SLICE}, along K"
        )


def _check_bits(bits: Any) -> None:
    if not is_whole(bits) or bits not in (4, 8):
        raise ArgumentError(f"bits={reprlib.repr(bits)}", rule="weights are quantized to 4 or 8 bits")


_REGISTERS = np.array([[(r, c), (r, c + 1)] for c in (0, 8) for r in (0, 8)])
"""Rows and columns of 64 x 16 elements that the four registers of lane 0 have (PTX ISA, wgmma, register fragments)."""


def _places(bits: int) -> tuple[np.ndarray, np.ndarray]:
    """Of 16 columns of w and a slice of K: the column and the k of each value, [vector][thread][word][part of it]."""
    thread = np.arange(THREADS_OF_PART)
    column, k = thread // 4, thread % 4 * 2
    each = _REGISTERS.reshape(8, 2)  # pair after pair
    if bits == 4:  # one word for 16 columns of A: a pair is nibbles i and i + 4
        each = np.concatenate([_REGISTERS[:, 0], _REGISTERS[:, 1]])
    of_step = each.reshape(-1, 32 // bits, 2)
    words = np.concatenate([of_step + [0, 16 * step] for step in range(SLICE // 16)])
    vectors = words.reshape(-1, 1, 4, 32 // bits, 2)
    return vectors[..., 0] + column[:, None, None], vectors[..., 1] + k[:, None, None]


def _packed(values: np.ndarray, bits: int) -> np.ndarray:
    """(K, N) bytes as i32, (columns / 256, slices * words)."""
    K, N = values.shape
    padded = np.pad(values, ((0, -K % SLICE), (0, -N % COLUMNS)))
    column, k = _places(bits)
    tiles = padded.reshape(padded.shape[0] // SLICE, SLICE, -1, PARTS, COLUMNS_OF_PART).transpose(2, 0, 3, 4, 1)
    parts = tiles[..., column, k].astype(np.uint32)  # [256 columns][slice][16 columns][vector][thread][word][part]
    shifts = (np.arange(32 // bits) * bits).astype(np.uint32)
    words = np.bitwise_or.reduce(parts << shifts, axis=-1)
    return np.ascontiguousarray(words.reshape(tiles.shape[0], -1)).view(np.int32)


def _unpacked(data: np.ndarray, bits: int) -> np.ndarray:
    """The bytes, rounded up to whole tiles."""
    column, k = _places(bits)
    words = np.asarray(data).view(np.uint32).reshape(len(data), -1, PARTS, *column.shape[:-1])
    shifts = (np.arange(32 // bits) * bits).astype(np.uint32)
    parts = words[..., None] >> shifts & np.uint32(2**bits - 1)
    tiles = np.zeros((*words.shape[:3], COLUMNS_OF_PART, SLICE), np.uint8)
    tiles[..., column, k] = parts
    return tiles.transpose(1, 4, 0, 2, 3).reshape(words.shape[1] * SLICE, -1)
