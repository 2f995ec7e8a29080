"""Rows that are read once, by a kernel that writes none.

What it reads pushes out of L2 what others wrote there, which has to go to memory first: up to 50 MB, 10 us. Reads that
leave L2 first push out each other instead. They are slower by a tenth, so of many rows they are no gain; and few rows
stay in L2 for whoever reads them next.
"""

from __future__ import annotations

from typing import Any

import nvdsl as nv
from nvdsl.hopper.arch import NAMED_BARRIERS
from nvdsl.kernels.arguments import ALIGNMENT
from nvdsl.kernels.rows.config import RowsConfig
from nvdsl.lang.packing import as_vector
from nvdsl.ops.pointer import GLOBAL, element_address

_FEWEST, _MOST = 32 << 20, 320 << 20
"""Bytes of all rows that are read so."""

_WORDS = ALIGNMENT // 4

_ON_THEIR_WAY, _BARRIERS = 64 << 10, 64
"""Bytes of rows that an SM asks for at once, and the barriers that its blocks share."""


def policy(x: nv.Array) -> Any:
    """How L2 keeps what is read of rows ``x``: one of ``L2_EVICT_*``, found at run time."""
    size = nv.i64(x.shape[0]) * x.shape[1] * x.dtype.bytes
    first = (size >= _FEWEST) & (size < _MOST)
    return nv.select(first, nv.i64(nv.L2_EVICT_FIRST), nv.i64(nv.L2_EVICT_NORMAL))


def limit(x: nv.Array, config: RowsConfig) -> None:
    """Few enough blocks on an SM where a warp holds a row. What more ask for pushes out of L2 what others wrote there,
    whatever the policy is. Blocks run out of barriers, at which nobody waits: shared memory would take L1's place."""
    if config.lanes != 32 or config.ragged or config.keep != "registers":
        return
    row = (config.full + config.steps) * config.width * x.dtype.bytes // 2  # rows of several lengths share a kernel
    blocks = _ON_THEIR_WAY // (config.groups * row)
    last = _BARRIERS // max(blocks, 1) - 1
    if 0 < last < NAMED_BARRIERS and x.shape[0] < 0:
        nv.named_barrier_sync(last, config.threads)


def vector(x: nv.Array, key: tuple[Any, Any], count: int, policy: Any) -> Any:
    """``x.vector(key, count)`` with a policy, if it is one access of 16 bytes."""
    if policy is None or count * x.dtype.bytes != ALIGNMENT:
        return x.vector(key, count)
    place = element_address(x, key, x.strides, GLOBAL)
    words = nv.ptx(
        "ld.global.L2::cache_hint.v4.b32 {$0, $1, $2, $3}, [$4], $5;", place, policy,
        result=[nv.i32] * _WORDS, meaning=_load, volatile=False, memory=False,
    )  # fmt: skip
    return as_vector(words, x.dtype)


def _load(pointer: Any, policy: Any) -> tuple[Any, ...]:
    return tuple(pointer.load(nv.i32, 4 * i) for i in range(_WORDS))
