"""Cross entropy of logits and labels. The gradient is written where the logits are still in registers."""

from collections.abc import Callable
from typing import Any

import nvdsl as nv
from nvdsl.errors.records import dataclass
from nvdsl.kernels.rows import streams
from nvdsl.kernels.rows.apart import One
from nvdsl.kernels.rows.config import RowsConfig
from nvdsl.kernels.rows.exponentials import Exponentials
from nvdsl.kernels.rows.row import Matrix, Parts, PerRow, Row, grid
from nvdsl.kernels.rows.staged import Elements

Number = nv.Shaped[nv.Array, "one"]

_THREADS, _AT_ONCE = 1024, 8


@nv.jit
def cross_entropy(
    x: Matrix,
    labels: PerRow,
    losses: PerRow | None,
    result: Number | None,
    lse_out: PerRow | None,
    gradient: Matrix | None,
    ignored: int,
    smoothing: float,
    z_loss: float,
    *,
    smooth: bool,
    mean: bool,
    config: RowsConfig,
) -> None:
    """Of each row ``(1 - smoothing) (lse - x[label]) + smoothing (lse - mean(x)) + z_loss lse^2``, 0 for an ignored
    one. ``losses`` gets them, or ``result`` their sum, or with ``mean`` that divided by the number of rows that are not
    ignored. ``gradient``: of ``result``, or of the sum of ``losses``. ``smooth``: whether ``smoothing`` is not 0."""
    rows, cols = x.shape
    each = nv.empty((nv.max(rows, 1),), nv.f32) if losses is None else losses
    counted = nv.empty((1,), nv.f32) if mean and gradient is not None else None
    if counted is not None:
        _count(labels, counted, ignored)

    @nv.kernel(
        grid=grid(x, config), block=config.threads, cluster=config.cluster, blocks_per_sm=config.residency,
        programmatic=counted is not None,
    )  # fmt: skip
    def kernel() -> None:
        row = Row.of_group(x, config)
        policy = None
        if gradient is None:
            policy = streams.policy(x)
            streams.limit(x, config)
        (given,) = row.read(x, missing=float("-inf"), numbers=[labels], policy=policy)
        label = Label.of(row, x, given, row.numbers[0], ignored)
        whole = [lambda total, step: total + row.only(step, given(step))] if smooth else []
        found = Exponentials.of(row, given, *whole)
        lse = found.highest + found.logarithm
        surprise = found.highest - label.logit() + found.logarithm  # where logits are far from 0, lse has lost digits
        loss = surprise
        if smooth:
            loss = (1.0 - smoothing) * surprise + smoothing * (lse - found.sums[0] / nv.f32(cols))
        loss = loss + z_loss * lse * lse
        if label.tells:
            each[row.index] = label.valid(loss)
        if lse_out is not None:
            row.put(lse_out, lse)
        if gradient is not None:
            share = nv.f32(1.0)
            if counted is not None:
                nv.griddep_wait()
                share = 1.0 / counted[0]
            _write_gradient(
                row, gradient, found.made, found.scale, label, surprise, lse, share, smoothing if smooth else None,
                z_loss,
            )  # fmt: skip

    kernel()
    if result is not None:
        _add_up(each, rows, result, labels if mean else None, ignored)


@nv.jit
def cross_entropy_backward(
    dloss: PerRow,
    x: Matrix,
    labels: PerRow,
    lse: PerRow,
    dx: Matrix,
    ignored: int,
    smoothing: float,
    z_loss: float,
    *,
    smooth: bool,
    mean: bool,
    config: RowsConfig,
) -> None:
    """``dx`` from the gradients of the rows' losses, or of the one loss of all (a stride of 0)."""
    counted = nv.empty((1,), nv.f32) if mean else None
    if counted is not None:
        _count(labels, counted, ignored)

    @nv.kernel(
        grid=grid(x, config), block=config.threads, cluster=config.cluster, blocks_per_sm=config.residency,
        programmatic=mean,
    )  # fmt: skip
    def kernel() -> None:
        row = Row.of_group(x, config)
        (given,) = row.read(x, missing=float("-inf"), numbers=[labels, dloss, lse])
        number, slope, highest = row.numbers
        label, factor = Label.of(row, x, given, number, ignored), nv.f32(slope)
        if counted is not None:
            nv.griddep_wait()
            factor = factor / counted[0]
        made = lambda step: nv.math.exp_approx(given(step) - highest)  # noqa: E731
        surprise = highest - label.logit()
        _write_gradient(row, dx, made, 1.0, label, surprise, highest, factor, smoothing if smooth else None, z_loss)

    kernel()


@dataclass(frozen=True)
class Label:
    """The label of a row, and its logit in the thread in whose part it lies (``is_mine``). That one alone reads the
    logit, since it overwrites it with a gradient while others are still at work, and so it tells the loss (``tells``);
    of a row without such a label the first thread does. ``logit``: called when all of the row has come."""

    kept: Any
    exists: Any
    is_mine: Any
    tells: Any
    column: Any
    logit: Callable[[], Any]

    @staticmethod
    def of(row: Row, x: nv.Array, given: Elements, number: Any, ignored: Any) -> "Label":
        number = nv.i64(number)
        exists = row.exists and number >= 0 and number < nv.i64(row.cols)
        column, logit, find = nv.i32(number), nv.f32(0.0), given.find
        behind = column - row.first
        is_mine = exists and behind >= 0 and column < row.end and behind % row.config.width < row.config.wide
        if find is None and is_mine:
            logit = nv.f32(x[row.index, column])
        tells = is_mine or row.exists and row.leads and not exists
        kept, place = number != nv.i64(ignored), nv.where(is_mine, behind, 0)
        return Label(kept, exists, is_mine, tells, column, lambda: nv.f32(find(place)) if find else logit)

    def valid(self, value: Any) -> Any:
        """``value``; 0 where the row is ignored, NaN where there is no such column."""
        return nv.where(self.kept, nv.where(self.exists, value, float("nan")), 0.0)


def _write_gradient(
    row: Row,
    out: nv.Array,
    made: Parts,
    scale: Any,
    label: Label,
    surprise: Any,
    lse: Any,
    factor: Any,
    smoothing: Any,
    z_loss: Any,
) -> None:
    """``factor * (softmax(x) (1 + 2 z_loss lse) - (1 - smoothing) onehot(label) - smoothing / n)``; 0 where the row is
    ignored, whatever its logits are. ``made`` times ``scale``: the softmax; ``surprise``: minus the logarithm of the
    label's."""
    factor = label.valid(factor)
    more = nv.math.fma(2.0 * z_loss, lse, 1.0) * factor
    less = factor if smoothing is None else factor * (1.0 - smoothing)
    evenly = 0.0 if smoothing is None else factor * smoothing / nv.f32(row.cols)
    share = scale * more
    own = nv.math.exp_approx(-surprise) * more - evenly
    one = One(label.is_mine, label.column, nv.where(label.kept, own, 0.0) - less)
    row.write(out, lambda step: nv.where(label.kept, made(step) * share - evenly, 0.0), one)


def _count(labels: nv.Array, counted: nv.Array, ignored: Any) -> None:
    """In a host function: how many labels are not ignored. The kernel behind it may begin at once."""

    @nv.kernel(grid=1, block=_THREADS)
    def count() -> None:
        nv.griddep_launch_dependents()
        (total,) = _totals(labels.shape[0], _kept(labels, ignored))
        if nv.thread_id.x == 0:
            counted[0] = total

    count()


def _add_up(losses: nv.Array, rows: nv.Int, result: nv.Array, labels: nv.Array | None, ignored: Any) -> None:
    """In a host function: the sum of all rows' losses; with ``labels``, divided by how many are not ignored."""

    @nv.kernel(grid=1, block=_THREADS, programmatic=True)
    def add_up() -> None:
        nv.griddep_wait()
        terms = [lambda i: losses[i], *([] if labels is None else [_kept(labels, ignored)])]
        total, *counted = _totals(rows, *terms)
        if nv.thread_id.x == 0:
            result[0] = total / counted[0] if counted else total

    add_up()


def _kept(labels: nv.Array, ignored: Any) -> Callable[[Any], Any]:
    """1 for a label that counts, 0 for one that is ignored."""
    return lambda i: nv.where(nv.i64(labels[i]) != nv.i64(ignored), 1.0, 0.0)


def _totals(count: nv.Int, *terms: Callable[[Any], Any]) -> tuple[Any, ...]:
    """The sums of each term of 0 to ``count``, by a block. A thread takes some at once."""
    totals = [nv.f32(0.0) for _ in terms]
    for first in nv.range(nv.thread_id.x, count, _THREADS * _AT_ONCE, unroll=False):
        found = []
        for k in range(_AT_ONCE):
            values = [nv.f32(0.0) for _ in terms]
            if first + k * _THREADS < count:
                values = [term(first + k * _THREADS) for term in terms]
            found.append(values)
        totals = [sum((values[i] for values in found), total) for i, total in enumerate(totals)]
    return nv.block.sum(tuple(totals))
