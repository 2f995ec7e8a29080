"""The kernels: a row is read once, and stays in registers until its result is written."""

from typing import Any

import nvdsl as nv
from nvdsl.kernels.rows.config import RowsConfig
from nvdsl.kernels.rows.row import Beside, Row

Matrix = nv.Shaped[nv.Array, "m", "n"]
Vector = nv.Shaped[nv.Array, "n"]


def _grid(x: nv.Array, config: RowsConfig) -> nv.Int:
    return nv.cdiv(x.shape[0], config.rows_per_block) * config.cluster


@nv.jit
def softmax(x: Matrix, y: Matrix, *, config: RowsConfig) -> None:
    """The greatest element is subtracted before the exponentials, which are computed twice rather than kept."""

    @nv.kernel(grid=_grid(x, config), block=config.threads, cluster=config.cluster)
    def kernel() -> None:
        row = Row(x, config)
        row.load(x, float("-inf"))
        highest = row.max()
        scale = 1.0 / row.sum(lambda total, step, part: total + nv.math.exp_approx(part - highest))
        row.store(y, lambda part: nv.math.exp_approx(part - highest) * scale)

    kernel()


@nv.jit
def log_softmax(x: Matrix, y: Matrix, *, config: RowsConfig) -> None:
    @nv.kernel(grid=_grid(x, config), block=config.threads, cluster=config.cluster)
    def kernel() -> None:
        row = Row(x, config)
        row.load(x, float("-inf"))
        highest = row.max()
        total = nv.math.log(row.sum(lambda total, step, part: total + nv.math.exp_approx(part - highest)))
        row.store(y, lambda part: part - highest - total)

    kernel()


@nv.jit
def layer_norm(
    x: Matrix,
    y: Matrix,
    weight: Vector | None,
    bias: Vector | None,
    eps: float,
    *,
    config: RowsConfig,
) -> None:
    """The variance is that of deviations from the mean, so that it does not cancel where rows are far from zero. What
    the rounding of the mean left over, which f32 elements show, comes out of the same pass."""

    @nv.kernel(grid=_grid(x, config), block=config.threads, cluster=config.cluster)
    def kernel() -> None:
        row = Row(x, config)
        row.load(x, 0.0)
        beside = _beside(row, weight, bias)
        count = nv.f32(x.shape[1])
        mean = row.sum(lambda total, step, part: total + part) / count

        def deviation(step: int, part: nv.Value) -> Any:
            return part - mean if step < config.full else nv.where(row.inside(step), part - mean, 0.0)

        def square(total: nv.Value, step: int, part: nv.Value) -> nv.Value:
            return nv.math.fma(deviation(step, part), deviation(step, part), total)

        if x.dtype is nv.f32:
            left, squares = row.sum(lambda total, step, part: total + deviation(step, part), square)
            left /= count
            variance = squares / count - left * left
        else:  # the mean's rounding is far below what such elements tell apart
            left, variance = 0, row.sum(square) / count
        scale = nv.math.rsqrt(variance + nv.f32(eps))

        def normalized(part: nv.Value, *rest: nv.Value) -> nv.Value:
            result = (part - mean - left) * scale
            if weight is not None and bias is not None:
                return nv.math.fma(result, rest[0], rest[1])
            if weight is not None:
                return result * rest[0]
            return result if bias is None else result + rest[0]

        row.store(y, normalized, *beside)

    kernel()


@nv.jit
def rms_norm(x: Matrix, y: Matrix, weight: Vector | None, eps: float, *, config: RowsConfig) -> None:
    @nv.kernel(grid=_grid(x, config), block=config.threads, cluster=config.cluster)
    def kernel() -> None:
        row = Row(x, config)
        row.load(x, 0.0)
        beside = _beside(row, weight)
        squares = row.sum(lambda total, step, part: nv.math.fma(part, part, total))
        scale = nv.math.rsqrt(squares / nv.f32(x.shape[1]) + nv.f32(eps))
        row.store(y, lambda part, *rest: part * scale * rest[0] if rest else part * scale, *beside)

    kernel()


def _beside(row: Row, *arrays: nv.Array | None) -> list[Beside]:
    found = [Beside(array, row) for array in arrays if array is not None]
    for one in found:
        one.begin()
    return found
