"""Gradients of LayerNorm and RMSNorm: of the rows, and of weight and bias, which are sums over all rows.

A persistent grid: each group of threads works on many rows, and keeps its sums for weight and bias in registers. What
it reads comes to shared memory some turns ahead. What the blocks have is added up by a second kernel, in the same order
in every run.
"""

from collections.abc import Sequence
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
    more columns than it has registers for sums (``config.keep`` is "memory"), these are made by columns. It is a
    multiple of ``config.period``: each thread's columns are the same ones in all rows of a block."""
    rows, cols = x.shape
    count = nv.min(nv.cdiv(nv.cdiv(rows, config.groups), config.period) * config.period, blocks)
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

        def given_to(row: Row, parts: Sequence[Parts], weight: Parts | None, centre: Any) -> tuple[Any, ...]:
            """What this thread adds to the sums of the row."""
            found = _shares(row, parts, weight, None if mean is None else centre)
            return found if mean is not None else found[:1]

        def finish(
            row: Row, parts: Sequence[Parts], weight: Parts | None, inverse: Any, centre: Any, found: Any, totals: Any
        ) -> Any:
            mine, elements = parts[:2]
            if mean is not None and not config.full:  # what rounding leaves of an only column, which is its own mean
                inverse = nv.where(cols == 1, 0.0, inverse)
            slope = -(found[0] * share * inverse * inverse * inverse)
            offset = None if mean is None else -(found[1] * share * inverse)
            row.read_anew()
            more: list[list[Any]] = [[] for _ in totals]
            for step in range(config.steps):
                apart = elements(step) if mean is None else elements(step) - centre
                scaled = mine(step) * inverse
                for i, out in enumerate(kept):
                    if out is dweight:
                        more[i].append(nv.math.fma(scaled, apart, totals[i][step]))
                    else:
                        more[i].append(totals[i][step] + mine(step))
                value = apart * slope if offset is None else nv.math.fma(apart, slope, offset)
                value = scaled + value if weight is None else nv.math.fma(scaled, weight(step), value)
                row.store(dx, step, value + parts[2](step) if dresidual is not None else value)
            return more

        turn = nv.u32(0)

        def slot_of(turn: nv.Int) -> nv.Int:
            return nv.i32(turn % config.slots)

        def fetch(row: Row, slot: Any, loaded: list[Any]) -> list[Any]:
            """A row of a later turn, to where that of the turn before was. What that needs besides copies is ``loaded``
            and returned to be put there a turn later, if it isn't wanted before."""
            if staged is None:
                return []
            last = _ahead(x, config, row.index + (config.slots - 1) * each)
            into = (slot + config.slots - 1) % config.slots
            if config.slots > 2:
                before = _ahead(x, config, row.index + (config.slots - 2) * each)
                staged.settle(before, loaded, (slot + config.slots - 2) % config.slots)
            loaded = staged.fetch(last, into)
            if config.slots == 2:
                staged.settle(last, loaded, into)
            return loaded

        def fetch_first() -> list[Any]:
            """The rows before that one."""
            loaded: list[Any] = []
            if staged is None:
                return loaded
            for slot in range(config.slots - 1):
                ahead = _ahead(x, config, start + group + slot * each)
                loaded = staged.fetch(ahead, slot)
                if slot < config.slots - 2 or config.slots == 2:
                    staged.settle(ahead, loaded, slot)
            return loaded

        loaded = fetch_first()
        if staged is None or config.lanes <= 32:  # a warp waits for nobody
            for index in nv.range(start, rows, each, unroll=False):
                row = Row(x, config, index + group)
                inverse, centre = row.number(rstd), mean_of(row)
                beside = factor(row)
                parts = row.read(*given) if staged is None else staged.parts(slot_of(turn))
                loaded = fetch(row, slot_of(turn), loaded)
                pending = exchange.give(given_to(row, parts, beside, centre), turn)
                again = factor(row)
                exchange.wait(turn)
                totals = finish(row, parts, again, inverse, centre, exchange.take(pending, turn), totals)
                turn += 1
            exchange.end()
        else:
            first = _ahead(x, config, start + group)
            centre, next_centre = mean_of(first), mean_of(_ahead(x, config, first.index + each))
            pending = exchange.give(given_to(first, staged.parts(0), factor(first), centre), turn)
            for index in nv.range(start, rows, each, unroll=False):
                row, following = Row(x, config, index + group), _ahead(x, config, index + group + each)
                loaded = fetch(row, slot_of(turn), loaded)
                inverse, later = row.number(rstd), mean_of(_ahead(x, config, row.index + 2 * each))
                beside = factor(following)
                mine = given_to(following, staged.parts(slot_of(turn + 1)), beside, next_centre)
                again = factor(row)
                exchange.wait(turn)  # for what was given a turn ago
                given_now = exchange.give(mine, turn + 1)
                found = exchange.take(pending, turn)
                totals = finish(row, staged.parts(slot_of(turn), waited=True), again, inverse, centre, found, totals)
                centre, next_centre, pending = next_centre, later, given_now
                turn += 1
            exchange.end(turn)
        if staged is not None:
            nv.cp_async_wait(0)  # for zeros, which come in place of rows beyond the last one
        for total, into in zip(totals, partial, strict=False):
            _store(Row(x, config, start + group + nv.i32(turn) * each), total, into, block)

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


def _shares(row: Row, parts: Sequence[Parts], factor: Parts | None, centre: Any) -> tuple[Any, Any]:
    """With ``g = dy * weight`` and ``d = x - mean``, ``dx = rstd * g - rstd**3 * mean(g * d) * d - rstd * mean(g)``,
    for RMSNorm without the last part: this thread's share of the sums of ``g * d``, and of g."""
    row.read_anew()
    along: Any = None
    whole: Any = None
    for step in range(row.config.steps):
        through, apart = parts[0](step), parts[1](step)
        through = through if factor is None else through * factor(step)
        apart = apart if centre is None else apart - centre
        for g, d in zip(_pieces(through), _pieces(apart), strict=True):
            along = g * d if along is None else nv.math.fma(g, d, along)
            whole = g if whole is None else whole + g
    return along.sum(), whole.sum()


def _pieces(values: Any) -> list[Any]:
    """Of a vector, 4 elements at a time: sums of as many take few registers."""
    wide = values.shape[0]
    return [nv.vector([values[k] for k in range(i, min(i + 4, wide))]) for i in range(0, wide, 4)]


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
