"""Kernels of nv.warp, nv.warpgroup, nv.block and nv.cluster, and what NumPy says of them."""

from __future__ import annotations

import ml_dtypes
import numpy as np

import nvdsl as nv

DTYPES = ("f16", "bf16", "f32", "f64", "i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64")


@nv.jit
def each(x, *outs, group, do, block, cluster=1, times=1, where=()):
    """``outs`` get what ``do(group, x[i], **where)`` is in thread i, after ``times``
    rounds of a loop; ``where``: items of the keyword arguments."""

    where = dict(where)

    @nv.kernel(grid=x.shape[0] // block, block=block, cluster=cluster)
    def kernel():
        i = nv.block_id.x * block + nv.linear_thread_id()
        if times == 1:
            found = do(getattr(nv, group), x[i], **where)
        else:
            found = do(getattr(nv, group), x[i], **where)
            for _ in nv.range(times - 1):
                found = do(getattr(nv, group), x[i], **where)
        for out, one in zip(outs, found if isinstance(found, tuple) else (found,), strict=True):
            out[i] = one

    kernel()


def threads_of(group, block, cluster=1, width=None):
    """How many threads the group has."""
    return width or {"warp": 32, "warpgroup": 128, "block": block, "cluster": block * cluster}[group]


def numbers(dtype, count, seed=0):
    """Small integers, so that sums are exact in any order, in every type."""
    rng = np.random.default_rng([seed, count])
    low = 0 if dtype.startswith(("u", "b")) and dtype != "bf16" else -3
    kind = ml_dtypes.bfloat16 if dtype == "bf16" else np.bool_ if dtype == "bool_" else getattr(nv, dtype).numpy
    return rng.integers(low, 2 if dtype == "bool_" else 4, count).astype(kind)


def of_groups(x, size, compute):
    """What ``compute`` makes of each group's elements, one number for all its threads or one for each."""
    return np.concatenate([np.broadcast_to(compute(part), (size,)) for part in x.reshape(-1, size)])


@nv.jit
def composed(a, b, *outs, group, block, cluster=1):
    """Scans and reductions of the functions x -> a x + b, whose composition does not commute."""

    @nv.kernel(grid=cluster, block=block, cluster=cluster)
    def kernel():
        i = nv.block_id.x * block + nv.thread_id.x
        threads = getattr(nv, group)

        def then(p, q):
            return p[0] * q[0], p[1] * q[0] + q[1]

        found = [*threads.inclusive_scan((a[i], b[i]), then), *threads.reduce((a[i], b[i]), then)]
        found += threads.exclusive_scan((a[i], b[i]), then, (3, 7))
        for out, one in zip(outs, found, strict=True):
            out[i] = one

    kernel()


@nv.jit
def vectors(x, total, highest, before):
    """Two elements of each thread."""

    @nv.kernel(grid=1, block=64)
    def kernel():
        at = (2 * nv.thread_id.x,)
        mine = x.load_vector(at, 2)
        total.store_vector(nv.block.sum(mine), at)
        highest.store_vector(nv.warp.max(mine, width=4), at)
        before.store_vector(nv.block.inclusive_sum(mine), at)

    kernel()


@nv.jit
def rounds(x, out):
    """One use in a loop, two in another one, under a condition of the block, and with scratch that they share."""

    @nv.kernel(grid=1, block=256)
    def kernel():
        t = nv.thread_id.x
        value, scratch = x[t], nv.smem(16, nv.f32)
        for i in nv.range(3):
            value += nv.block.max(value + i)
        for _ in nv.range(2):
            value += nv.block.max(value)
            if nv.block.any(value > 3.0):
                value += nv.block.min(value, scratch=scratch)
            value += nv.block.broadcast(value, 3, scratch)
        out[t] = value

    kernel()


@nv.jit
def rounds_of_parts(x, out):
    """Groups of two warps, each with a number of rounds of its own."""

    @nv.kernel(grid=1, block=256)
    def kernel():
        t = nv.thread_id.x
        value = x[t]
        for i in nv.range(t // 64 + 1):
            value += nv.block.max(value + i, width=64)
        if nv.warpgroup_id() == 1:
            value += nv.warpgroup.min(value)
        out[t] = value

    kernel()


@nv.jit
def rounds_of_a_cluster(x, out):
    """Four blocks, in a loop."""

    @nv.kernel(grid=4, block=64, cluster=4)
    def kernel():
        i = nv.block_id.x * 64 + nv.thread_id.x
        value = x[i]
        for k in nv.range(3):
            value += nv.cluster.max(value + k)
        out[i] = value + nv.cluster.broadcast(value, 70)

    kernel()


def _rounds(x):
    value = x.copy()
    for i in range(3):
        value += (value + i).max()
    for _ in range(2):
        value += value.max()
        value += value.min() if (value > 3).any() else 0
        value += value[3]
    return value


def _rounds_of_parts(x):
    value = x.reshape(4, 64).copy()
    for group, part in enumerate(value):
        for i in range(group + 1):
            part += (part + i).max()
    value[2:] += value[2:].min()
    return value.reshape(-1)


def _rounds_of_a_cluster(x):
    value = x.copy()
    for k in range(3):
        value += (value + k).max()
    return value + value[70]


EXPECTED = {"rounds": _rounds, "rounds_of_parts": _rounds_of_parts, "rounds_of_a_cluster": _rounds_of_a_cluster}


@nv.jit
def divided(x, n, *, group, where=()):
    """A sum that the threads below n[0] of each block reach."""
    where = dict(where)

    @nv.kernel(grid=2, block=256, cluster=2)
    def kernel():
        t = nv.thread_id.x
        if t < n[0]:
            x[nv.block_id.x * 256 + t] = getattr(nv, group).sum(nv.f32(t), **where)

    kernel()


GROUPS = [
    ("warp", 64, 1, {}), ("warp", 64, 1, {"width": 8}), ("warp", 32, 1, {"width": 1}), ("warp", 96, 1, {"width": 2}),
    ("block", 8, 1, {}), ("block", 96, 1, {}), ("block", 256, 1, {}), ("block", 512, 1, {}), ("block", 736, 1, {}),
    ("block", 256, 1, {"width": 64}), ("block", 64, 1, {"width": 16}), ("warpgroup", 384, 1, {}),
    ("cluster", 64, 2, {}), ("cluster", 96, 3, {}), ("cluster", 288, 4, {}), ("cluster", 320, 8, {}),
]  # fmt: skip
"""Group, threads of a block, blocks of a cluster, keyword arguments."""


def _total(part):
    return part.sum(dtype=np.int64 if part.dtype == np.bool_ else part.dtype)


OPERATIONS = {
    "sum": (lambda group, x, **where: group.sum(x, **where), _total),
    "max": (lambda group, x, **where: group.max(x, **where), np.max),
    "min": (lambda group, x, **where: group.min(x, **where), np.min),
    "argmax": (lambda group, x, **where: group.argmax(x, **where), np.argmax),
    "argmin": (lambda group, x, **where: group.argmin(x, **where), np.argmin),
    "inclusive_sum": (lambda group, x, **where: group.inclusive_sum(x, **where), lambda x: x.cumsum(dtype=np.float64)),
    "exclusive_sum": (lambda group, x, **where: group.exclusive_sum(x, **where),
                      lambda x: x.cumsum(dtype=np.float64) - x.astype(np.float64)),
    "broadcast": (lambda group, x, **where: group.broadcast(x, **where), lambda x: x[0]),
    "any": (lambda group, x, **where: group.any(x == 3, **where), lambda x: (x == 3).any()),
    "all": (lambda group, x, **where: group.all(x >= 0, **where), lambda x: (x >= 0).all()),
}  # fmt: skip


TYPES = (*DTYPES, "bool_")
CASES = [(group, operation, TYPES[(5 * i + j) % len(TYPES)])
         for i, group in enumerate(GROUPS) for j, operation in enumerate(OPERATIONS)]  # fmt: skip
"""Each group with each operation, each of these with some types."""


def check(call, group, operation, dtype):
    """``call(function, *arrays, **constants)`` runs it, in the simulator or on the device."""
    name, block, cluster, where = group
    do, expected = OPERATIONS[operation]
    if dtype == "bool_" and operation.startswith("arg"):
        dtype = "f32"
    size, count = threads_of(name, block, cluster, where.get("width")), 2 * block * cluster
    x = numbers(dtype, count)
    if "sum" in operation and dtype in ("f16", "bf16", "i8", "u8"):  # what comes out fits the type
        x = (np.arange(count) % (64 if dtype == "bf16" else 7) == 0).astype(x.dtype)
    want = of_groups(x, size, expected)
    integer = operation.startswith("arg") or (dtype == "bool_" and "sum" in operation)
    out = np.zeros(count, np.bool_ if operation in ("any", "all") else np.int32 if integer else x.dtype)
    call(each, x, out, group=name, do=do, block=block, cluster=cluster, where=tuple(where.items()))
    np.testing.assert_array_equal(out, want.astype(out.dtype))
