"""The kernels: a row is read once, and stays in registers until its result is written.

Where all rows are scaled by one, each thread takes a batch of rows, and that one once for all of them.
"""

from typing import Any

import nvdsl as nv
from nvdsl.kernels.rows.config import RowsConfig
from nvdsl.kernels.rows.row import Beside, Row, load, maxima, store, sums

Matrix = nv.Shaped[nv.Array, "m", "n"]
Vector = nv.Shaped[nv.Array, "n"]


def _grid(x: nv.Array, config: RowsConfig) -> nv.Int:
    return nv.cdiv(x.shape[0], config.rows_per_block) * config.cluster


@nv.jit
def softmax(x: Matrix, y: Matrix, *, config: RowsConfig) -> None:
    """The greatest element is subtracted before the exponentials, which are computed twice rather than kept."""

    @nv.kernel(grid=_grid(x, config), block=config.threads, cluster=config.cluster, blocks_per_sm=config.blocks_per_sm)
    def kernel() -> None:
        rows = load(x, config, float("-inf"))
        highest = maxima(rows)
        totals = sums(rows, lambda row, total, step, part: total + nv.math.exp_approx(part - highest[row.number]))
        scale = [1.0 / total for (total,) in totals]
        store(rows, y, lambda row, part: nv.math.exp_approx(part - highest[row.number]) * scale[row.number])

    kernel()


@nv.jit
def log_softmax(x: Matrix, y: Matrix, *, config: RowsConfig) -> None:
    @nv.kernel(grid=_grid(x, config), block=config.threads, cluster=config.cluster, blocks_per_sm=config.blocks_per_sm)
    def kernel() -> None:
        rows = load(x, config, float("-inf"))
        highest = maxima(rows)
        totals = sums(rows, lambda row, total, step, part: total + nv.math.exp_approx(part - highest[row.number]))
        logarithm = [nv.math.log(total) for (total,) in totals]
        store(rows, y, lambda row, part: part - highest[row.number] - logarithm[row.number])

    kernel()


@nv.jit
def layer_norm(
    x: Matrix, y: Matrix, weight: Vector | None, bias: Vector | None, eps: float, *, config: RowsConfig
) -> None:
    """The variance is that of deviations from the mean, so that it does not cancel where rows are far from zero. What
    the rounding of the mean left over, which f32 elements show, comes out of the same pass."""

    @nv.kernel(grid=_grid(x, config), block=config.threads, cluster=config.cluster, blocks_per_sm=config.blocks_per_sm)
    def kernel() -> None:
        rows = load(x, config, 0.0)
        beside = _beside(rows[0], weight, bias)
        share = 1.0 / nv.f32(x.shape[1])
        mean = [total * share for (total,) in sums(rows, lambda row, total, step, part: total + part)]

        def deviation(row: Row, step: int, part: nv.Value) -> Any:
            apart = part - mean[row.number]
            return apart if step < config.full else nv.where(row.inside(step), apart, 0.0)

        def square(row: Row, total: nv.Value, step: int, part: nv.Value) -> nv.Value:
            return nv.math.fma(deviation(row, step, part), deviation(row, step, part), total)

        if x.dtype is nv.f32:
            found = sums(rows, lambda row, total, step, part: total + deviation(row, step, part), square)
        else:  # the mean's rounding is far below what such elements tell apart
            found = [(0, squares) for (squares,) in sums(rows, square)]
        left = [over * share if x.dtype is nv.f32 else over for over, _ in found]
        scale = [
            nv.math.rsqrt(squares * share - over * over + nv.f32(eps))
            for over, (_, squares) in zip(left, found, strict=True)
        ]

        def normalized(row: Row, part: nv.Value, *rest: nv.Value) -> nv.Value:
            result = (part - mean[row.number] - left[row.number]) * scale[row.number]
            if weight is not None and bias is not None:
                return nv.math.fma(result, rest[0], rest[1])
            if weight is not None:
                return result * rest[0]
            return result if bias is None else result + rest[0]

        store(rows, y, normalized, *beside)

    kernel()


@nv.jit
def rms_norm(x: Matrix, y: Matrix, weight: Vector | None, eps: float, *, config: RowsConfig) -> None:
    @nv.kernel(grid=_grid(x, config), block=config.threads, cluster=config.cluster, blocks_per_sm=config.blocks_per_sm)
    def kernel() -> None:
        rows = load(x, config, 0.0)
        beside = _beside(rows[0], weight)
        found = sums(rows, lambda row, total, step, part: nv.math.fma(part, part, total))
        share = 1.0 / nv.f32(x.shape[1])
        scale = [nv.math.rsqrt(squares * share + nv.f32(eps)) for (squares,) in found]

        def normalized(row: Row, part: nv.Value, *rest: nv.Value) -> nv.Value:
            result = part * scale[row.number]
            return result * rest[0] if rest else result

        store(rows, y, normalized, *beside)

    kernel()


def _beside(row: Row, *arrays: nv.Array | None) -> list[Beside]:
    found = [Beside(array, row) for array in arrays if array is not None]
    for one in found:
        one.begin()
    return found
