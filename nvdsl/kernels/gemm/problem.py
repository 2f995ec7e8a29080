"""What a matrix product is asked for, as shapes and strides: batches, broadcasting, majorness. Pure Python.

Everything here is decided by the specs of the arrays alone, so that it is worked out once for all calls alike.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import replace

import nvdsl as nv
from nvdsl.driver.array_spec import packed_strides
from nvdsl.errors import ArgumentError
from nvdsl.errors.records import dataclass

TMA_ALIGNMENT = 16
"""Bytes of which TMA's addresses and strides are multiples (CUDA driver API, cuTensorMapEncodeTiled)."""


@dataclass(frozen=True)
class Matrix:
    """A stack of matrices in memory: ``shape`` and ``strides`` in elements, the last two axes a matrix.

    ``aligned``: the address is a multiple of 16 bytes.
    """

    dtype: nv.DType
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    aligned: bool = True

    @property
    def transposed(self) -> Matrix:
        swap = lambda x: (*x[:-2], x[-1], x[-2])  # noqa: E731
        return replace(self, shape=swap(self.shape), strides=swap(self.strides))

    def fits_tma(self, major: int) -> bool:
        """Whether a tensor map can describe it as it is, with ``major`` (0 or 1) as the contiguous axis of a matrix."""
        inner = len(self.shape) - 2 + major
        if not self.aligned or (self.strides[inner] != 1 and self.shape[inner] > 1):
            return False
        axes = [i for i in range(len(self.shape)) if i != inner]
        steps = [self.strides[i] * self.dtype.bytes for i in axes if self.shape[i] > 1 and self.strides[i] != 0]
        repeated = any(self.shape[i] > 1 and self.strides[i] == 0 for i in axes[-1:])
        return not repeated and all(step > 0 and step % TMA_ALIGNMENT == 0 for step in steps)

    def expanded(self, batch: Sequence[int]) -> Matrix:
        """With the batch axes ``batch``, those that it lacks or has once repeated (stride 0)."""
        own = (1,) * (len(batch) + 2 - len(self.shape)) + self.shape[:-2]
        steps = (0,) * (len(batch) + 2 - len(self.shape)) + self.strides[:-2]
        strides = tuple(0 if n == 1 else s for n, s in zip(own, steps, strict=True))
        return replace(self, shape=(*batch, *self.shape[-2:]), strides=(*strides, *self.strides[-2:]))


def fits_tma(out: Matrix) -> bool:
    """Whether TMA can store a result: also, that it ends rows at whole 16 bytes."""
    return out.fits_tma(1) and out.shape[-1] * out.dtype.bytes % 16 == 0


def broadcast(a: Sequence[int], b: Sequence[int]) -> tuple[int, ...]:
    """The batch axes of a product, by NumPy's rule. Raises ArgumentError where they don't fit."""
    batch = []
    for x, y in itertools.zip_longest(reversed(a), reversed(b), fillvalue=1):
        if x != y and 1 not in (x, y):
            raise ArgumentError(
                f"batches of {tuple(a)} and {tuple(b)}",
                rule="leading axes are equal, or one of them is 1 or absent (NumPy's broadcasting)",
                fix="reshape one of the operands",
            )
        batch.append(y if x == 1 else x)
    return tuple(reversed(batch))


def collapse(matrices: Sequence[Matrix]) -> list[Matrix]:
    """The same stacks with as few batch axes as their strides allow. All have the same batch axes before and after.

        >>> x = Matrix(nv.f16, (2, 3, 4, 5), (60, 20, 5, 1))
        >>> collapse([x])[0].shape
        (6, 4, 5)
    """
    axes: list[tuple[int, list[int]]] = []  # extent, and the step of each matrix
    for i, extent in enumerate(matrices[0].shape[:-2]):
        steps = [m.strides[i] for m in matrices]
        if extent == 1:
            continue
        if axes and all(outer == inner * extent for outer, inner in zip(axes[-1][1], steps, strict=True)):
            axes[-1] = (axes[-1][0] * extent, steps)
        else:
            axes.append((extent, steps))
    batch = tuple(extent for extent, _ in axes)
    return [
        replace(m, shape=(*batch, *m.shape[-2:]), strides=(*(steps[j] for _, steps in axes), *m.strides[-2:]))
        for j, m in enumerate(matrices)
    ]


def fold(a: Matrix, b: Matrix, others: Sequence[Matrix]) -> tuple[Matrix, Matrix, list[Matrix]]:
    """One product instead of a batch of them, where B is the same in all: the batch becomes further rows of A.

    ``others``: what lies like the result (out, C). Unchanged where strides don't allow it, or there is no batch.
    """
    stacks = [a, *others]
    one_axis = len(a.shape) == 3 and b.strides[0] == 0
    if not one_axis or any(m.strides[0] != m.shape[1] * m.strides[1] for m in stacks):
        return a, b, list(others)
    rows = [replace(m, shape=(m.shape[0] * m.shape[1], m.shape[2]), strides=m.strides[1:]) for m in stacks]
    return rows[0], replace(b, shape=b.shape[1:], strides=b.strides[1:]), rows[1:]


def offsets(matrices: Sequence[Matrix]) -> Iterator[list[int]]:
    """Where each stack starts, in elements, for every index of the outer batch axes (all but the last one)."""
    outer = matrices[0].shape[:-3]
    for at in itertools.product(*map(range, outer)):
        yield [sum(i * s for i, s in zip(at, m.strides, strict=False)) for m in matrices]


def is_block_scaled(given: dict[str, Matrix]) -> bool:
    """Whether scale_a and scale_b have an element for each 128 along K (and 128 columns of b); not where that would be
    the same as scales of rows and of the tensor. What else block scales ask for, `check_block_scaled` says."""
    a, b, scale_a, scale_b = (given.get(name) for name in ("a", "b", "scale_a", "scale_b"))
    if not (a and b and scale_a and scale_b) or min(len(a.shape), len(b.shape)) < 2:
        return False
    slices, columns = blocks(b.shape[-1], a.shape[-1])
    if (slices, columns) in ((1, 0), (1, 1)):
        return False
    return scale_a.shape[-1:] == (slices,) and scale_b.shape[-2:] == (slices, columns)


def blocks(n: int, k: int) -> tuple[int, int]:
    """Block scales: how many along K, and along N."""
    return nv.cdiv(k, 128), nv.cdiv(n, 128)


def check_block_scaled(problem: GemmProblem, scale_a: Matrix, scale_b: Matrix) -> None:
    """Raises ArgumentError for a product that has no block scales."""
    m, n, k = problem.sizes
    slices, columns = blocks(n, k)
    if problem.a.dtype not in _EIGHT_BIT_FLOATS:
        raise ArgumentError(
            f"scales for blocks of {problem.a.dtype.name}",
            rule="e4m3 and e5m2 have scales for each 128 elements along K",
            fix="scale rows and columns: scale_a of (..., M, 1), scale_b of (..., 1, N)",
        )
    if (len(problem.result), scale_a.shape, scale_b.shape) != (2, (m, slices), (slices, columns)):
        raise ArgumentError(
            f"scales of {scale_a.shape} and {scale_b.shape} for a result of {problem.result}",
            rule="block scales take one product, without batches",
            fix="call matmul for each matrix of the batch",
        )
    if problem.acc_dtype != nv.f32:
        raise ArgumentError(
            f"block scales with sums in {problem.acc_dtype.name}",
            rule="scaled slices of K are added in f32",
            fix="leave acc_dtype out",
        )


_SUMS = {nv.f64: (nv.f64,), nv.i8: (nv.i32,), nv.f16: (nv.f32, nv.f16), nv.bf16: (nv.f32,), nv.f32: (nv.f32,)}
_SUMS |= dict.fromkeys((nv.e4m3, nv.e5m2), (nv.f32, nv.f16))
_EIGHT_BIT_FLOATS = (nv.e4m3, nv.e5m2)
_RESULTS = (nv.f16, nv.bf16, nv.f32, nv.e4m3, nv.e5m2, nv.f64, nv.i32)


@dataclass(frozen=True)
class GemmProblem:
    """One product, all that decides how it is computed.

    ``a, b, out, others``: of the same batch axes (`Matrix.expanded`), as few as strides allow. ``result``: the shape of
    the array that is returned. ``others``: name -> c, bias, scales, repeated to the result's shape.
    """

    a: Matrix
    b: Matrix
    out: Matrix
    others: tuple[tuple[str, Matrix], ...]
    acc_dtype: nv.DType
    result: tuple[int, ...]

    @property
    def out_dtype(self) -> nv.DType:
        return self.out.dtype

    @property
    def sizes(self) -> tuple[int, int, int]:
        """M, N, K of one matrix product."""
        return self.a.shape[-2], self.b.shape[-1], self.a.shape[-1]

    @property
    def batches(self) -> int:
        return math.prod(self.a.shape[:-2])

    @property
    def transposed(self) -> GemmProblem:
        """The same result by columns: out.T = b.T @ a.T."""
        others = tuple((name, matrix.transposed) for name, matrix in self.others)
        return replace(self, a=self.b.transposed, b=self.a.transposed, out=self.out.transposed, others=others)

    @staticmethod
    def of(given: dict[str, Matrix], acc_dtype: nv.DType | None, out_dtype: nv.DType | None) -> GemmProblem:
        """From the arrays by name: a, b, and where given out, c, bias, scale_a, scale_b. Raises ArgumentError."""
        a, b = given["a"], given["b"]
        acc_dtype, out_dtype = types(a.dtype, b.dtype, acc_dtype, out_dtype, given.get("out"))
        vector_a, vector_b = len(a.shape) == 1, len(b.shape) == 1
        if 0 in (len(a.shape), len(b.shape)):
            raise ArgumentError("a scalar instead of a matrix", fix="pass alpha= to scale the product")
        if vector_a:
            a = replace(a, shape=(1, *a.shape), strides=(a.shape[0], *a.strides))
        if vector_b:
            b = replace(b, shape=(*b.shape, 1), strides=(*b.strides, 1))
        if a.shape[-1] != b.shape[-2]:
            raise ArgumentError(
                f"a of shape {given['a'].shape} times b of shape {given['b'].shape}",
                rule=f"K is a's last axis ({a.shape[-1]}) and b's last but one ({b.shape[-2]})",
                fix="transpose one of them: x.T costs nothing",
            )
        batch = broadcast(a.shape[:-2], b.shape[:-2])
        full = (*batch, a.shape[-2], b.shape[-1])
        result = (*batch, *(() if vector_a else full[-2:-1]), *(() if vector_b else full[-1:]))
        out = given.get("out") or Matrix(out_dtype, result, packed_strides(result))
        if out.shape != result:
            raise ArgumentError(f"out of shape {out.shape} for a result of {result}", fix="pass one of that shape")
        if 0 not in result and any(n > 1 and step == 0 for n, step in zip(out.shape, out.strides, strict=True)):
            raise ArgumentError("elements of out share memory (stride 0)", fix="pass an array of its own memory")
        out = _with_unit_axes(out, vector_a, vector_b)
        names = [name for name in given if name not in ("a", "b", "out")]
        others = []
        for name in names:
            whole = name in ("c", "bias") and fits(given[name].shape, result)  # scales say which axis they are of
            x = repeated(name, given[name], result if whole else full)
            others.append(_with_unit_axes(x, vector_a, vector_b) if whole else x)
        stacks = collapse([a.expanded(batch), b.expanded(batch), out, *others])
        a, b, (out, *others) = fold(stacks[0], stacks[1], stacks[2:])
        return GemmProblem(a, b, out, tuple(zip(names, others, strict=True)), acc_dtype, result)


_BLOCKS = (
    "; scales for blocks of 128 along K are two, (M, ceil(K / 128)) and (ceil(K / 128), ceil(N / 128)), and the latter "
    "once more for each group of rows"
)


def _with_unit_axes(x: Matrix, row: bool, col: bool) -> Matrix:
    """What lies like a result that is one row, one column, or a number, as a matrix: with the axes that it lacks."""
    shape, strides = x.shape, x.strides
    if col:
        shape, strides = (*shape, 1), (*strides, 1)
    if row:
        shape, strides = (*shape[:-1], 1, shape[-1]), (*strides[:-1], 0, strides[-1])
    return replace(x, shape=shape, strides=strides)


def fits(shape: tuple[int, ...], full: tuple[int, ...]) -> bool:
    """Whether an array of ``shape`` broadcasts to ``full``."""
    last = full[len(full) - len(shape) :]
    return len(shape) <= len(full) and all(n in (1, m) for n, m in zip(shape, last, strict=True))


def repeated(name: str, matrix: Matrix, full: tuple[int, ...]) -> Matrix:
    """Broadcast to the result's shape by strides of 0. Raises ArgumentError where it doesn't fit."""
    shape = (1,) * (len(full) - len(matrix.shape)) + matrix.shape
    one = {"scale_a": -1, "scale_b": -2}.get(name)
    if not fits(matrix.shape, full) or (one is not None and shape[one] != 1 and full[one] != 1):
        want = {"scale_a": (*full[:-1], 1), "scale_b": (*full[:-2], 1, full[-1])}.get(name, full)
        raise ArgumentError(
            f"{name} of shape {matrix.shape} for a result of shape {full}",
            rule=f"{name} is broadcast to {want}" + (_BLOCKS if one is not None else ""),
            fix="reshape it" + (": a scale for each row of a is a column, x[:, None]" if name == "scale_a" else ""),
        )
    steps = (0,) * (len(full) - len(matrix.shape)) + matrix.strides
    return replace(matrix, shape=full, strides=tuple(0 if n == 1 else s for n, s in zip(shape, steps, strict=True)))


def types(
    a: nv.DType, b: nv.DType, acc: nv.DType | None, out: nv.DType | None, given: Matrix | None
) -> tuple[nv.DType, nv.DType]:
    """Types of the sums and of the result. Raises ArgumentError for a pair that can't be multiplied."""
    if a not in _SUMS or (a != b and not (a in _EIGHT_BIT_FLOATS and b in _EIGHT_BIT_FLOATS)):
        known = [t.name for t in (a, b) if t in _SUMS]
        raise ArgumentError(
            f"a product of {a.name} and {b.name}",
            rule=f"a and b have one type of {', '.join(t.name for t in _SUMS)}; e4m3 and e5m2 may be mixed",
            fix=f"convert one of them to {' or '.join(known)}" if known else "convert both, to i8 or f16, say",
        )
    if acc is None:
        acc = _SUMS[a][0]
    if acc not in _SUMS[a]:
        raise ArgumentError(
            f"sums of {a.name} in {acc.name}", rule=f"they are {' or '.join(t.name for t in _SUMS[a])}"
        )
    if given is not None and out is not None and given.dtype != out:
        raise ArgumentError(f"out_dtype={out.name} and an out of {given.dtype.name}", fix="pass one of the two")
    if given is not None:
        out = given.dtype
    elif out is None:
        out = nv.i32 if a == nv.i8 else nv.bf16 if a in _EIGHT_BIT_FLOATS else a
    if out not in _RESULTS:
        raise ArgumentError(f"a result of {out.name}", rule=f"one of {', '.join(t.name for t in _RESULTS)}")
    return acc, out
