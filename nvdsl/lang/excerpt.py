"""A few rows and columns of a fragment, to be printed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn

from nvdsl.errors import trace_error
from nvdsl.hopper import arch
from nvdsl.ops.warp import WARP_SIZE, shuffle, warpgroup_thread
from nvdsl.values import dtypes

if TYPE_CHECKING:
    from nvdsl.lang.axis import Axis
    from nvdsl.lang.matrix import Matrix
    from nvdsl.values.traced import Value


class Excerpt:
    """``acc[0:8, 0:8]``: rows and columns of which some threads have some registers. `print` takes it, nothing else."""

    __nv_unprintable__ = "print(acc[0:8, 0:8]): up to 32 columns"

    def __init__(self, fragment: Matrix, rows: range, cols: range) -> None:
        self.fragment, self.rows, self.cols = fragment, rows, cols

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        return len(self.rows), len(self.cols)

    def __nv_lines__(self) -> list[tuple[Value, list[Any]]] | None:
        """For each row: whether this thread prints it, and what, text and values. They come to it by shuffles, which
        all threads execute. None where rows are too long for the device's printf."""
        if len(self.cols) > arch.MAX_PRINTED:
            return None
        rows, cols = self.fragment._both()
        grid = self.fragment.grid()
        thread = warpgroup_thread() if rows.threads > WARP_SIZE else warpgroup_thread() % WARP_SIZE
        found: list[tuple[Value, list[Any]]] = []
        for row in self.rows:
            r, first = _held(rows, row)
            holder = next(t for t in range(rows.threads) if rows.lanes(t) == first)
            values = []
            for col in self.cols:
                c, at = _held(cols, col)
                lane = next(t for t in range(rows.threads) if rows.lanes(t) == first and cols.lanes(t) == at)
                values.append(shuffle(_in_32_bits(grid[r][c]), lane % WARP_SIZE))
            step = f":{self.cols.step}" if self.cols.step > 1 else ""
            place = f"[{row}, {self.cols.start}:{self.cols.stop}{step}] ["
            found.append((thread == holder, [place, *[x for v in values for x in (v, ", ")][:-1], "]"]))
        return found

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("__"):
            raise AttributeError(name)
        raise trace_error(
            f".{name} of {len(self.rows)} x {len(self.cols)} elements of a fragment",
            rule="some threads have some of them: they can be printed. A part to compute with has whole groups of 8 "
            "columns and of 64 rows, which each thread has the same registers of",
            fix="print(acc[0:8, 0:8]), or acc[:, 0:64]",
        )


def _held(axis: Axis, coordinate: int) -> tuple[int, int]:
    """The register that holds a coordinate of an axis, and the coordinate of its threads' first one."""
    lanes = {axis.lanes(thread) for thread in range(axis.threads)}
    return next((i, coordinate - off) for i, off in enumerate(axis.offsets) if coordinate - off in lanes)


def _in_32_bits(x: Value) -> Value:
    """What a shuffle moves, and the device prints."""
    if x.dtype.bits == 32:
        return x
    return dtypes.f32(x) if x.dtype.is_float else dtypes.i32(x)
