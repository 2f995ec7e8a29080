"""LayerNorm and RMSNorm. A row is read once, and stays in registers or in shared memory until its result is written."""

from collections.abc import Callable
from typing import Any

import nvdsl as nv
from nvdsl.kernels.rows.beside import Beside, copies
from nvdsl.kernels.rows.config import RowsConfig
from nvdsl.kernels.rows.row import Matrix, Parts, PerRow, Row, Vector, grid

_SMALLEST = 1e-30
"""Of a row's greatest magnitude that is scaled: 448 divided by less is no f32."""


@nv.jit
def norm(
    x: Matrix,
    y: Matrix,
    weight: Vector | None,
    bias: Vector | None,
    residual: Matrix | None,
    residual_out: Matrix | None,
    mean_out: PerRow | None,
    rstd_out: PerRow | None,
    scale_out: PerRow | None,
    eps: float,
    *,
    centered: bool,
    config: RowsConfig,
) -> None:
    """``centered``: LayerNorm, else RMSNorm. ``scale_out``: ``y`` is e4m3, the result divided by these."""

    factors, summands = copies([weight, bias], config) if config.copies else [weight, bias]

    @nv.kernel(
        grid=grid(x, config), block=config.threads, cluster=config.cluster, blocks_per_sm=config.residency,
        programmatic=config.copies > 0,
    )  # fmt: skip
    def kernel() -> None:
        row = Row.of_group(x, config)
        factor = None if factors is None else Beside(factors, row)
        summand = None if summands is None else Beside(summands, row)

        def begin() -> None:
            if config.copies:
                nv.griddep_wait()
            for each in (factor, summand):
                if each is not None:
                    each.begin()

        def ask() -> None:
            for each in (factor, summand):
                if each is not None:
                    each.ask()

        shared = config.keep == "shared"
        late = shared and (not centered or config.cluster > 1 or residual_out is not None)
        if not late and not config.copies:
            begin()
        if not shared:
            ask()

        def meanwhile() -> None:
            if shared:
                ask()
            if not late and config.copies:
                begin()

        rows = [x] if residual is None else [x, residual]
        given: Parts
        given, *rest = row.read(*rows, meanwhile=meanwhile)
        if rest:
            one, other = given, rest[0]
            given = row.hold(lambda step: one(step) + other(step))
        if residual_out is not None:
            given = row.rounded(given, residual_out.dtype)
            row.write(residual_out, given)
            row.read_anew(True)
        exact = x.dtype is nv.f32 or residual is not None and residual.dtype is nv.f32
        apart, rstd, mean = _moments(row, given, eps, centered, exact, begin if late else lambda: None)
        if mean_out is not None:
            row.put(mean_out, mean)
        if rstd_out is not None:
            row.put(rstd_out, rstd)

        def result(step: int) -> Any:
            value = apart(step) * rstd
            if factor is not None and summand is not None:
                return nv.math.fma(value, factor(step), summand(step))
            if factor is not None:
                return value * factor(step)
            return value if summand is None else value + summand(step)

        if scale_out is None:
            row.write(y, result)
        else:
            made = row.hold(result)
            highest = row.max(lambda step: row.only(step, nv.abs(made(step))))
            scaled = highest > _SMALLEST
            scale = nv.where(scaled, highest * (1.0 / nv.e4m3.max), 1.0)
            inverse = nv.where(scaled, nv.e4m3.max / highest, 1.0)
            row.write(y, lambda step: made(step) * inverse)
            row.put(scale_out, scale)

    kernel()


def _moments(
    row: Row, given: Parts, eps: Any, centered: bool, exact: bool, meanwhile: Callable[[], None]
) -> tuple[Parts, Any, Any]:
    """What the row's elements are apart from its mean (from 0 for RMSNorm), the inverse of their root mean square,
    and the mean. ``meanwhile``: what begins before threads wait for each other.

    The variance is that of deviations from the mean, so that it does not cancel where rows are far from zero. What
    the rounding of the mean left over, which f32 elements show (``exact``), comes out of the same pass. Otherwise the
    blocks of a cluster merge their warps' moments, and wait for each other once.
    """
    share = nv.math.rcp_approx(nv.f32(row.cols))
    if not centered:
        (squares,) = row.sum(lambda total, step: nv.math.fma(given(step), given(step), total), meanwhile=meanwhile)
        return given, nv.math.rsqrt(squares * share + nv.f32(eps)), 0.0
    if row.exchange is not None and not exact:
        mean, squares = row.moments(given, meanwhile)
        return lambda step: given(step) - mean, nv.math.rsqrt(squares * share + nv.f32(eps)), mean
    mean = row.sum(lambda total, step: total + given(step), meanwhile=meanwhile)[0] * share

    def deviation(step: int) -> Any:
        return row.only(step, given(step) - mean)

    def square(total: Any, step: int) -> Any:
        return nv.math.fma(deviation(step), deviation(step), total)

    if not exact:
        (squares,) = row.sum(square)
        return lambda step: given(step) - mean, nv.math.rsqrt(squares * share + nv.f32(eps)), mean
    over, squares = row.sum(lambda total, step: total + deviation(step), square)
    left = over * share
    rstd = nv.math.rsqrt(squares * share - left * left + nv.f32(eps))
    return lambda step: given(step) - mean - left, rstd, mean + left
