"""``nv.warp``, ``nv.warpgroup``, ``nv.block`` and ``nv.cluster``: which threads a group has, and how they meet."""

from __future__ import annotations

from nvdsl.errors import trace_error
from nvdsl.hopper import arch
from nvdsl.hopper.arch import WARP_SIZE, WARPGROUP_SIZE
from nvdsl.ir.walk import find
from nvdsl.lang.array import Array
from nvdsl.lang.collectives.group import Group, Threads
from nvdsl.lang.collectives.lanes import Lanes
from nvdsl.lang.collectives.scratch import Barrier
from nvdsl.lang.collectives.warps import Warps
from nvdsl.mlir import ir
from nvdsl.ops.cluster import cluster_arrive, cluster_sync, cluster_wait
from nvdsl.ops.warp import ALL_LANES, named_barrier_sync, sync_threads, warp_id
from nvdsl.values import scope
from nvdsl.values.python_numbers import plain


def _warp(*, width: int = WARP_SIZE, mask: int = ALL_LANES) -> Lanes:
    threads, mask = scope.current("nv.warp").threads, plain(mask)
    powers = (1, 2, 4, 8, 16, 32)
    if width not in powers or threads % width:
        raise trace_error(
            f"groups of {width} lanes, in a block of {threads} threads",
            rule=f"a warp is divided into groups of {', '.join(map(str, powers))} lanes, each of which is whole",
            fix="launch a multiple of them; give threads that have nothing what changes no result, 0 for a sum",
        )
    group = (1 << width) - 1
    present = [mask >> at & group for at in range(0, WARP_SIZE, width)]
    if not 0 < mask <= ALL_LANES or any(part not in (0, group) for part in present):
        raise trace_error(
            f"groups of {width} lanes with the mask {mask:#x}",
            rule="the mask names the lanes that execute it, whole groups of them (PTX ISA, membermask)",
            fix="mask=0xffff with width=16 are the lower 16 lanes",
        )
    return Lanes(width, mask)


def _block(scratch: Array | None = None, *, width: int | None = None) -> Threads:
    threads = scope.current("nv.block").threads
    size = threads if width is None else width
    if size <= WARP_SIZE:
        return _warp(width=size)
    if size % WARP_SIZE or threads % size:
        raise trace_error(
            f"nv.block with {'' if size == threads else f'groups of {size} of '}{threads} threads",
            rule="the threads of a group are whole warps of 32, or a power of two below, and divide the block",
            fix="launch a multiple of 32 threads; give those past the end what changes no result, 0 for a sum",
        )
    return _warps("nv.block", size, scratch)


def _warpgroup(scratch: Array | None = None) -> Threads:
    threads = scope.current("nv.warpgroup").threads
    if threads % WARPGROUP_SIZE:
        raise trace_error(
            f"nv.warpgroup in a block of {threads} threads",
            rule="a warpgroup has 128 threads, the first at a multiple of 128",
            fix="use a block of 128, 256, 384 ... threads, or nv.block.sum(x, width=64)",
        )
    return _warps("nv.warpgroup", WARPGROUP_SIZE, scratch)


def _warps(what: str, size: int, scratch: Array | None) -> Warps:
    threads = scope.current(what).threads
    warps, groups = size // WARP_SIZE, threads // size
    if groups == 1:
        return Warps(what, warps, Barrier("block", sync_threads), scratch)
    group = warp_id() // warps
    number = _first_barrier(size, groups) + group
    return Warps(
        what, warps, Barrier(f"{size} threads", lambda: named_barrier_sync(number, size)), scratch, groups, group
    )


def _first_barrier(size: int, groups: int) -> int:
    """The number of the first group's named barrier."""
    kernel = scope.current("a named barrier")
    if size not in kernel.group_barriers:
        first = min(kernel.group_barriers.values(), default=arch.NAMED_BARRIERS) - groups
        taken = sorted(n for n in kernel.named_barriers if n >= first)
        if first < 1 or taken:
            because = f"the kernel uses number {taken[0]} itself" if taken else "there are not so many"
            raise trace_error(
                f"{groups} groups of {size} threads need named barriers {first} to {first + groups - 1}: {because}",
                rule=f"a block has {arch.NAMED_BARRIERS} barriers (PTX ISA, barrier): 0 is sync_threads, and each "
                "group takes one, from the highest number down",
                fix="use larger groups, or number the kernel's own barriers from 1",
            )
        kernel.group_barriers[size] = first
    return kernel.group_barriers[size]


def _cluster(scratch: Array | None = None) -> Threads:
    kernel = scope.current("nv.cluster")
    if kernel.cluster_size == 1:
        return _block(scratch=scratch)
    if kernel.threads % WARP_SIZE:
        raise trace_error(
            f"nv.cluster with blocks of {kernel.threads} threads",
            rule="the threads of a block are whole warps of 32",
            fix="launch a multiple of 32 threads; give those past the end what changes no result, 0 for a sum",
        )
    _meet_at_start(kernel)
    warps = kernel.threads // WARP_SIZE
    return Warps("nv.cluster", warps, Barrier("cluster", cluster_sync), scratch, blocks=kernel.cluster_size)


def _meet_at_start(kernel: scope.Kernel) -> None:
    """No block may write into one that has not started. All arrive where the kernel starts, and wait here, so that what
    they load meanwhile is on its way; or there, where the barrier is used in between."""
    if "cluster collectives" in kernel.at_start:
        return
    kernel.at_start["cluster collectives"] = True
    here = block = ir.InsertionPoint.current.block
    while block.owner.name != "gpu.launch":
        block = block.owner.operation.block
    free = block == here and not find(block.owner, *_CLUSTER_BARRIERS)
    with ir.InsertionPoint.at_block_begin(block):
        cluster_arrive()
        if not free:
            cluster_wait()
    if free:
        cluster_wait()


_CLUSTER_BARRIERS = ("nvvm.cluster.arrive", "nvvm.cluster.arrive.relaxed", "nvvm.cluster.wait", "gpu.cluster_barrier")


warp = Group("nv.warp", _warp)
"""The lanes of a warp. ``width``: groups of so many lanes, a power of two. ``mask``: the lanes that execute it."""

warpgroup = Group("nv.warpgroup", _warpgroup)
"""The 128 threads of a warpgroup. ``scratch``: see `block`."""

block = Group("nv.block", _block)
"""All threads of a block. ``width``: groups of so many threads. ``scratch``: an array of 32-bit elements in shared
memory, for a kernel that has no more to spare; without it each use has its own."""

cluster = Group("nv.cluster", _cluster)
"""All threads of all blocks of a cluster. ``scratch``: see `block`."""
