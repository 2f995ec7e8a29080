"""The kernels: a row is read once, and stays in registers until its result is written."""

from typing import Any

import nvdsl as nv
from nvdsl.kernels.rows.config import RowsConfig
from nvdsl.kernels.rows.row import Row

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
        scale = 1.0 / row.sum(lambda step, part: nv.math.exp(part - highest))
        row.store(y, lambda step, part: nv.math.exp(part - highest) * scale)

    kernel()


@nv.jit
def log_softmax(x: Matrix, y: Matrix, *, config: RowsConfig) -> None:
    @nv.kernel(grid=_grid(x, config), block=config.threads, cluster=config.cluster)
    def kernel() -> None:
        row = Row(x, config)
        row.load(x, float("-inf"))
        highest = row.max()
        total = nv.math.log(row.sum(lambda step, part: nv.math.exp(part - highest)))
        row.store(y, lambda step, part: part - highest - total)

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
    the rounding of the mean left over comes out of the same pass."""

    @nv.kernel(grid=_grid(x, config), block=config.threads, cluster=config.cluster)
    def kernel() -> None:
        row = Row(x, config)
        row.load(x, 0.0)
        count = nv.f32(x.shape[1])
        mean = row.sum(lambda step, part: part) / count

        def deviation(step: int, part: nv.Value) -> Any:
            return part - mean if step < config.full else nv.where(row.inside(step), part - mean, 0.0)

        left, squares = row.sum(deviation, lambda step, part: deviation(step, part) * deviation(step, part))
        left /= count
        scale = nv.math.rsqrt(squares / count - left * left + nv.f32(eps))

        def normalized(step: int, part: nv.Value) -> nv.Value:
            result = (part - mean - left) * scale
            if weight is not None:
                result = result * row.beside(weight, step)
            return result if bias is None else result + row.beside(bias, step)

        row.store(y, normalized)

    kernel()


@nv.jit
def rms_norm(x: Matrix, y: Matrix, weight: Vector | None, eps: float, *, config: RowsConfig) -> None:
    @nv.kernel(grid=_grid(x, config), block=config.threads, cluster=config.cluster)
    def kernel() -> None:
        row = Row(x, config)
        row.load(x, 0.0)
        squares = row.sum(lambda step, part: part * part)
        scale = nv.math.rsqrt(squares / nv.f32(x.shape[1]) + nv.f32(eps))

        def normalized(step: int, part: nv.Value) -> nv.Value:
            result = part * scale
            return result if weight is None else result * row.beside(weight, step)

        row.store(y, normalized)

    kernel()
