"""Gradients of LayerNorm and RMSNorm: of the rows, and of weight and bias, which are sums over all rows.

A persistent grid: each group of threads works on many rows, and keeps its sums for weight and bias in registers. What
the blocks have is added up by a second kernel, in the same order in every run.
"""

from typing import Any

import nvdsl as nv
from nvdsl.kernels.rows.ahead import Ahead
from nvdsl.kernels.rows.column_sums import add_up, column_gradients, put
from nvdsl.kernels.rows.config import RowsConfig
from nvdsl.kernels.rows.row import Beside, Matrix, Parts, PerRow, Row, Vector


@nv.jit
def norm_backward(
    dy: Matrix,
    x: Matrix,
    dx: Matrix,
    mean: PerRow | None,
    rstd: PerRow,
    weight: Vector | None,
    dresidual: Matrix | None,
    dweight: Vector | None,
    dbias: Vector | None,
    *,
    blocks: int,
    config: RowsConfig,
) -> None:
    """``mean`` is None: RMSNorm. ``blocks``: at most so many work on rows, clusters counted as one. Where a thread does
    not hold its part of a row, it has no registers for sums either: those are made by columns."""
    rows, cols = x.shape
    count = nv.min(nv.cdiv(rows, config.groups), blocks)
    sums = [out for out in (dweight, dbias) if out is not None]
    partial = [nv.empty((nv.max(count, 1) * cols,), nv.f32) for _ in sums]
    kept = sums if config.held else []

    @nv.kernel(
        grid=count * config.cluster, block=config.threads, cluster=config.cluster, blocks_per_sm=config.blocks_per_sm
    )
    def kernel() -> None:
        block, group = nv.block_id.x // config.cluster, nv.thread_id.x // config.lanes
        zero = nv.vector([0.0] * config.wide, nv.f32)
        totals = [[zero for _ in range(config.steps)] for _ in kept]
        first = block * config.groups + group
        ahead = Ahead([dy, x], config, first, count * config.groups) if config.ahead else None
        state = nv.PipelineState(max(config.ahead, 1))
        if ahead is not None:
            ahead.begin()
        for turn in nv.range(nv.cdiv(rows, count * config.groups), unroll=False):
            row = Row(x.shape, config, first + turn * count * config.groups)
            row.exists = row.index < rows
            if ahead is None:
                gradient, given = row.read(dy), row.read(x)
            else:
                gradient, given = ahead.read(row, state)
            gradient, normalized = _one_row(row, gradient, given, dx, mean, rstd, weight, dresidual, ahead, state)
            state = state.next()
            for i, out in enumerate(kept):
                for step in range(config.steps):
                    more = gradient(step) * normalized(step) if out is dweight else gradient(step)
                    totals[i][step] = totals[i][step] + more
        row = Row(x.shape, config, group)
        for total, into in zip(totals, partial, strict=False):
            _store(row, total, into, block)

    if sums and not config.held:
        column_gradients(dy, x, mean, rstd, dweight, partial, count, config)  # before dx takes the place of one
    kernel()
    if sums:
        add_up(partial, sums, count)


def _one_row(
    row: Row,
    gradient: Parts,
    given: Parts,
    dx: nv.Array,
    mean: nv.Array | None,
    rstd: nv.Array,
    weight: nv.Array | None,
    dresidual: nv.Array | None,
    ahead: Ahead | None,
    state: nv.PipelineState,
) -> tuple[Parts, Parts]:
    """With ``g = dy * weight`` and ``z = (x - mean) * rstd`` it is ``dx = rstd * (g - mean(g) - z * mean(g * z))``, for
    RMSNorm without ``mean(g)``. ``dresidual`` is added. Returns dy and z."""
    factor = None if weight is None else Beside(weight, row).begin()
    inverse, share = row.number(rstd), 1.0 / nv.f32(row.cols)
    centre = None if mean is None else row.number(mean)

    def normalized(step: int) -> Any:
        apart = given(step) if centre is None else given(step) - centre
        return row.only(step, apart * inverse)

    def along(total: Any, step: int) -> Any:
        return nv.math.fma(through(step), normalized(step), total)

    through = gradient if factor is None else row.hold(lambda step: gradient(step) * factor(step))
    if centre is None:
        slope, offset = row.sum(along)[0] * share, None
    else:
        slope, offset = (total * share for total in row.sum(along, lambda total, step: total + through(step)))
    if ahead is not None:
        ahead.next(row, state)
    beyond = None if dresidual is None else row.read(dresidual)

    def result(step: int) -> Any:
        value = through(step) - normalized(step) * slope
        value = (value if offset is None else value - offset) * inverse
        return value if beyond is None else value + beyond(step)

    row.write(dx, result)
    return gradient, normalized


def _store(row: Row, total: list[Any], into: nv.Array, block: nv.Int) -> None:
    """The sums of a block, of all groups of its threads."""
    config = row.config
    if config.groups == 1:
        for step in range(config.steps):
            if row.inside(step):
                put(into, block * row.cols + row.column(step), total[step])
        return
    length = config.steps * config.stride
    shared = nv.smem(config.groups * length, nv.f32)
    group = nv.thread_id.x // config.lanes
    for step in range(config.steps):
        put(shared, group * length + row.column(step), total[step])
    nv.sync_threads()
    for first in range(0, length, config.threads):
        col = first + nv.thread_id.x
        if col < length and col < row.cols:
            value = shared[col]
            for other in range(1, config.groups):
                value = value + shared[other * length + col]
            into[block * row.cols + col] = value
    nv.sync_threads()
