"""Softmax and its logarithm, and their gradients. A row is read once, and stays in registers or in shared memory until
its result is written."""

import nvdsl as nv
from nvdsl.kernels.rows.config import RowsConfig
from nvdsl.kernels.rows.exponentials import Exponentials
from nvdsl.kernels.rows.row import Matrix, Row, grid


@nv.jit
def softmax(x: Matrix, y: Matrix, *, config: RowsConfig) -> None:
    """The greatest element is subtracted before the exponentials."""

    @nv.kernel(grid=grid(x, config), block=config.threads, cluster=config.cluster, blocks_per_sm=config.residency)
    def kernel() -> None:
        row = Row.of_group(x, config)
        (given,) = row.read(x, missing=float("-inf"))
        found = Exponentials.of(row, given)
        row.write(y, lambda step: found.made(step) * found.scale)

    kernel()


@nv.jit
def log_softmax(x: Matrix, y: Matrix, *, config: RowsConfig) -> None:
    @nv.kernel(grid=grid(x, config), block=config.threads, cluster=config.cluster, blocks_per_sm=config.residency)
    def kernel() -> None:
        row = Row.of_group(x, config)
        (given,) = row.read(x, missing=float("-inf"))
        found = Exponentials.of(row, given)
        row.write(y, lambda step: given(step) - found.highest - found.logarithm)

    kernel()


@nv.jit
def softmax_backward(dy: Matrix, y: Matrix, dx: Matrix, *, config: RowsConfig) -> None:
    """``dx = y * (dy - sum(dy * y))``"""

    @nv.kernel(grid=grid(y, config), block=config.threads, cluster=config.cluster, blocks_per_sm=config.residency)
    def kernel() -> None:
        row = Row.of_group(y, config)
        gradient, result = row.read(dy, y)
        (along,) = row.sum(lambda total, step: nv.math.fma(gradient(step), result(step), total))
        row.write(dx, lambda step: result(step) * (gradient(step) - along))

    kernel()


@nv.jit
def log_softmax_backward(dy: Matrix, y: Matrix, dx: Matrix, *, config: RowsConfig) -> None:
    """``dx = dy - exp(y) * sum(dy)``"""

    @nv.kernel(grid=grid(y, config), block=config.threads, cluster=config.cluster, blocks_per_sm=config.residency)
    def kernel() -> None:
        row = Row.of_group(y, config)
        gradient, result = row.read(dy, y)
        (whole,) = row.sum(lambda total, step: total + gradient(step))
        row.write(dx, lambda step: gradient(step) - nv.math.exp_approx(result(step)) * whole)

    kernel()
