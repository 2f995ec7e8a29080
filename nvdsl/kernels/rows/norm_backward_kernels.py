"""Gradients of LayerNorm and RMSNorm: of the rows, and of weight and bias, which are sums over all rows.

A persistent grid: each group of threads works on many rows, and keeps its sums for weight and bias in registers. What
it reads comes to shared memory some turns ahead. What the blocks have is added up by a second kernel, in the same order
in every run.
"""

from collections.abc import Callable
from typing import Any

import nvdsl as nv
from nvdsl.kernels.rows.beside import Beside
from nvdsl.kernels.rows.column_sums import add_up, column_gradients, put
from nvdsl.kernels.rows.config import RowsConfig
from nvdsl.kernels.rows.exchange import TurnSums
from nvdsl.kernels.rows.row import Matrix, Parts, PerRow, Row, Vector
from nvdsl.kernels.rows.staged import Staged, for_groups, group_of


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
    """``mean`` is None: RMSNorm. ``blocks``: at most so many work on rows, clusters counted as one. Where a thread has
    more columns than it has registers for sums (``config.keep`` is "memory"), these are made by columns."""
    rows, cols = x.shape
    count = nv.min(nv.cdiv(rows, config.groups), blocks)
    sums = [out for out in (dweight, dbias) if out is not None]
    partial = [nv.empty((nv.max(count, 1) * cols,), nv.f32) for _ in sums]
    kept = [] if config.keep == "memory" else sums
    given = [dy, x] if dresidual is None else [dy, x, dresidual]

    @nv.kernel(
        grid=count * config.cluster, block=config.threads, cluster=config.cluster, blocks_per_sm=config.blocks_per_sm
    )
    def kernel() -> None:
        block, group = nv.block_id.x // config.cluster, group_of(config)
        start, each = block * config.groups, count * config.groups
        share, zero = 1.0 / nv.f32(cols), nv.vector([0.0] * config.wide, nv.f32)
        totals = [[zero for _ in range(config.steps)] for _ in kept]
        staged = Staged(given, config) if config.keep == "shared" else None
        exchange = TurnSums(1 if mean is None else 2, config)
        kept_weight = None
        if weight is not None and config.weights:
            kept_weight = for_groups(weight, Row(x, config, start + group))

        def mean_of(row: Row) -> Any:
            return nv.f32(0.0) if mean is None else row.number(mean)

        def factor(row: Row) -> Parts | None:
            """The weight, some of it on its way."""
            if weight is None or kept_weight is not None:
                return kept_weight
            beside = Beside(weight, row)
            beside.begin()
            return beside

        def given_to(row: Row, parts: list[Parts], weight: Parts | None, centre: Any) -> tuple[Any, ...]:
            """What this thread adds to the sums of the row."""
            found = _totals(row, *_terms(parts, weight, None if mean is None else centre))
            return found if mean is not None else found[:1]

        def finish(
            row: Row, parts: list[Parts], weight: Parts | None, inverse: Any, centre: Any, found: Any, totals: Any
        ) -> Any:
            through, apart = _terms(parts, weight, None if mean is None else centre)
            slope, offset = found[0] * share * inverse, found[1] * share if mean is not None else None
            row.read_anew()
            more: list[list[Any]] = [[] for _ in totals]
            for step in range(config.steps):
                normalized = apart(step) * inverse
                value = nv.math.fma(normalized, -slope, through(step))
                value = (value if offset is None else value - offset) * inverse  # 0 where they are equal
                row.store(dx, step, value + parts[2](step) if dresidual is not None else value)
                for i, out in enumerate(kept):
                    if out is dweight:
                        more[i].append(nv.math.fma(parts[0](step), normalized, totals[i][step]))
                    else:
                        more[i].append(totals[i][step] + parts[0](step))
            return more

        turn = nv.u32(0)
        if staged is not None:
            for slot in range(config.slots - 1):
                staged.fetch(_ahead(x, config, start + group + slot * each), slot)()

        def slot_of(turn: nv.Int) -> nv.Int:
            return nv.i32(turn % config.slots)

        def fetch(row: Row, slot: Any) -> Callable[[], None]:
            """A row of a later turn, to where that of the turn before was. To be called at the end of this one."""
            if staged is None:
                return lambda: None
            last = _ahead(x, config, row.index + (config.slots - 1) * each)
            return staged.fetch(last, (slot + config.slots - 1) % config.slots)

        if staged is None or config.lanes <= 32:  # a warp waits for nobody
            for index in nv.range(start, rows, each, unroll=False):
                row = Row(x, config, index + group)
                inverse, centre = row.number(rstd), mean_of(row)
                beside = factor(row)
                parts = row.read(*given) if staged is None else staged.parts(slot_of(turn))
                settle = fetch(row, slot_of(turn))
                pending = exchange.give(given_to(row, parts, beside, centre), turn)
                again = factor(row)
                exchange.wait(turn)
                totals = finish(row, parts, again, inverse, centre, exchange.take(pending, turn), totals)
                settle()
                turn += 1
            exchange.end()
        else:
            first = _ahead(x, config, start + group)
            centre, next_centre = mean_of(first), mean_of(_ahead(x, config, first.index + each))
            pending = exchange.give(given_to(first, staged.parts(0), factor(first), centre), turn)
            for index in nv.range(start, rows, each, unroll=False):
                row, following = Row(x, config, index + group), _ahead(x, config, index + group + each)
                settle = fetch(row, slot_of(turn))
                if config.slots == 2:  # that is the following row
                    settle()
                inverse, later = row.number(rstd), mean_of(_ahead(x, config, row.index + 2 * each))
                beside = factor(following)
                mine = given_to(following, staged.parts(slot_of(turn + 1)), beside, next_centre)
                again = factor(row)
                exchange.wait(turn)  # for what was given a turn ago
                given_now = exchange.give(mine, turn + 1)
                found = exchange.take(pending, turn)
                totals = finish(row, staged.parts(slot_of(turn), waited=True), again, inverse, centre, found, totals)
                settle()
                centre, next_centre, pending = next_centre, later, given_now
                turn += 1
            exchange.end(turn)
        for total, into in zip(totals, partial, strict=False):
            _store(Row(x, config, start + group), total, into, block)

    if sums and not kept:
        column_gradients(dy, x, mean, rstd, dweight, partial, count, config)  # before dx takes the place of one
    kernel()
    if sums:
        add_up(partial, sums, count, config)


def _ahead(x: nv.Array, config: RowsConfig, index: nv.Int) -> Row:
    """A row of a later turn."""
    row = Row(x, config, index)
    row.exists = index < x.shape[0]
    return row


def _terms(parts: list[Parts], factor: Parts | None, centre: Any) -> tuple[Parts, Parts]:
    """``dy * weight`` and ``x - mean``"""
    gradient, elements = parts[:2]

    def through(step: int) -> Any:
        return gradient(step) if factor is None else gradient(step) * factor(step)

    def apart(step: int) -> Any:
        return elements(step) if centre is None else elements(step) - centre

    return through, apart


def _totals(row: Row, through: Parts, apart: Parts) -> tuple[Any, Any]:
    """With g and d as `_terms` gives them, and ``z = d * rstd``, it is ``dx = rstd * (g - mean(g) - z * mean(g * z))``,
    for RMSNorm without ``mean(g)``: this thread's share of the sums of ``g * d``, and of g."""
    row.read_anew()
    along = whole = nv.vector([0.0] * row.config.wide, nv.f32)
    for step in range(row.config.steps):
        part = through(step)
        along = nv.math.fma(part, apart(step), along)
        whole = whole + part
    return along.sum(), whole.sum()


def _store(row: Row, total: list[Any], into: nv.Array, block: nv.Int) -> None:
    """The sums of a block, of all groups of its threads."""
    config = row.config
    if config.groups == 1:
        for step in range(config.steps):
            if row.whole(step):
                put(into, block * row.cols + row.column(step), total[step], config.grain if config.ragged else 4)
            elif config.ragged:
                for i in range(config.wide):
                    if row.has(row.column(step) + i):
                        into[block * row.cols + row.column(step) + i] = total[step][i]
        return
    shared = nv.smem(config.groups * config.width, nv.f32)
    group, first = nv.thread_id.x // config.lanes, nv.thread_id.x % config.lanes * config.wide
    for step in range(config.steps):
        put(shared, group * config.width + first, total[step])
        nv.sync_threads()
        for start in range(0, config.width, config.threads):
            at = start + nv.thread_id.x
            if at < config.width and step * config.width + at < row.cols:
                value = shared[at]
                for other in range(1, config.groups):
                    value = value + shared[other * config.width + at]
                into[block * row.cols + step * config.width + at] = value
        nv.sync_threads()
