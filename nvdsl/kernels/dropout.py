"""``nv.dropout``: the mask that an epilogue with `tile_ops.Dropout` has, on an array: for the way back."""

from __future__ import annotations

import reprlib
from typing import TypeVar

import nvdsl as nv
from nvdsl.driver.stream import Stream
from nvdsl.errors import ArgumentError
from nvdsl.errors.tracebacks import at_call
from nvdsl.kernels.arraylike import ArrayLike
from nvdsl.kernels.blocks.divisor import Divisor
from nvdsl.kernels.blocks.philox import kept, key_of, threshold
from nvdsl.kernels.options import is_whole, real
from nvdsl.kernels.repeated import Repeated
from nvdsl.kernels.rows.argument import Rows
from nvdsl.trace import decorated

A = TypeVar("A", bound=ArrayLike)
Matrix = nv.Shaped[nv.Array, "m", "n"]
THREADS = 256
_calls = Repeated("x out", outputs="out")


@nv.jit
def apply(x: Matrix, out: Matrix, low: int, high: int, *, p: float) -> None:
    """A thread has two neighbours in a row, and the two eight rows below: those of one call of Philox."""
    rows, cols = x.shape
    pairs = nv.cdiv(cols, 2)
    groups = nv.cdiv(rows, 16) * 8
    across = Divisor.of(nv.cdiv(pairs, THREADS))

    @nv.kernel(grid=groups * nv.cdiv(pairs, THREADS), block=THREADS)
    def kernel() -> None:
        group, part = across.divmod(nv.block_id.x)
        row, col = group // 8 * 16 + group % 8, (part * THREADS + nv.thread_id.x) * 2
        for (i, j), keep in kept((low, high), 0, row, col, threshold(p)).items():
            if row + i < rows and col + j < cols:
                value = nv.f32(x[row + i, col + j]) * (1.0 / (1.0 - p))
                out[row + i, col + j] = nv.select(keep, value, 0.0)

    kernel()


@at_call
def dropout(
    x: A, p: float, seed: int, out: ArrayLike | None = None, *, stream: Stream | None = None, target: str | None = None
) -> A:
    """``x / (1 - p)``, with zeros in random places, each with the probability ``p``; returns ``out``.

    Where they are is a function of ``seed`` (of 64 bits) and of the place alone: of the number of the row, through all
    leading axes, and of the column (Philox4x32-10, Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", 2011).
    So the gradient of ``dropout(x, p, seed)`` is ``dropout(gradient, p, seed)``, and that of a product whose epilogue
    drops (`nvdsl.kernels.blocks.tile_ops.Dropout`) has the same mask.

    ``x`` is f16, bf16 or f32, with elements of a row side by side and rows at even distances. ``out`` has its shape and
    one of these types, and may be ``x`` itself; None makes a new array of the type of ``x``. ``p`` is 0 or more, and
    less than 1; another one compiles anew. Raises ArgumentError for arguments that don't fit.
    """
    if not is_whole(seed):
        raise ArgumentError(f"seed={reprlib.repr(seed)}", rule="a seed is an integer, of which 64 bits count")
    p = real("p", p)
    threshold(p)
    numbers, arrays, rest = key_of(int(seed)), (x, out), (p, target)
    found = _calls.again(arrays, rest, stream, numbers)
    if found is not None:
        return found
    decorated.no_call("dropout")
    rows = Rows.of("x", x)
    into = rows.result("out", out, rows.dtype)
    into.argument.check_apart(rows.argument, or_same=True)
    if rows.rows:
        apart = [(into.argument, rows.argument, True)]
        _calls.run(apply, (rows, into, *numbers), {"p": p}, arrays, rest, stream, target, apart)
    return into.argument.result()
