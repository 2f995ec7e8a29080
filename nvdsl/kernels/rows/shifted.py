"""Rows for all rows, weights say, beside rows that begin anywhere in memory.

An access of a row begins at a multiple of its own size in memory, and so at any column. For each way in which rows
begin there is a copy of the weight, so far behind that what belongs to an access is one aligned access, too.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import nvdsl as nv
from nvdsl.kernels.arguments import ALIGNMENT
from nvdsl.kernels.rows.config import RowsConfig

_THREADS = 128


def size_of(cols: Any, config: RowsConfig) -> Any:
    """Elements of a copy."""
    return nv.cdiv(cols, config.wide) * config.wide + config.wide


def copies(arrays: Sequence[nv.Array | None], config: RowsConfig) -> list[nv.Array | None]:
    """In a host function: of each array the copies, one behind the other. Number s has element i of the array at
    ``i + s * config.grain``. The kernel behind it may begin at once."""
    given = [x for x in arrays if x is not None]
    cols, count = given[0].shape[0], config.wide // config.grain
    size = size_of(cols, config)
    outs = [nv.empty((count * size,), x.dtype) for x in given]

    @nv.kernel(grid=(nv.cdiv(size, _THREADS * config.wide), count, len(given)), block=_THREADS)
    def shift() -> None:
        nv.griddep_launch_dependents()
        first = (nv.block_id.x * _THREADS + nv.thread_id.x) * config.wide
        for number, (x, out) in enumerate(zip(given, outs, strict=True)):
            if nv.block_id.z == number and first < size:
                values = []
                for i in range(config.wide):
                    col, value = first + i - nv.block_id.y * config.grain, x.dtype(0)
                    if (col >= 0) & (col < cols):
                        value = x[col]
                    values.append(value)
                each = min(config.wide, ALIGNMENT // x.dtype.bytes)
                for i in range(0, config.wide, each):
                    out.store_vector(nv.vector(values[i : i + each]), nv.block_id.y * size + first + i)

    shift()
    made = iter(outs)
    return [None if x is None else next(made) for x in arrays]
