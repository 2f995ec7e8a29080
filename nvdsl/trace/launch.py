"""``nv.kernel``: a nested Python function becomes a ``gpu.launch`` in the host function's body."""

from __future__ import annotations

import functools
import operator
import re
from collections.abc import Callable, Sequence
from typing import Any, ParamSpec, TypeAlias

import numpy as np

from nvdsl.errors import TraceError, trace_error
from nvdsl.hopper import arch
from nvdsl.ir import declared
from nvdsl.mlir import ir
from nvdsl.mlir.dialects import _gpu_ops_gen as gpu_ops
from nvdsl.mlir.dialects import arith, gpu
from nvdsl.trace import decorated
from nvdsl.trace.calls import resolve
from nvdsl.trace.rewrite import convert
from nvdsl.values import scope
from nvdsl.values.extents import constant_fix
from nvdsl.values.traced import Value, const
from nvdsl.values.tracing import is_tracing
from nvdsl.values.typing import Int, PlainInt

P = ParamSpec("P")
Grid: TypeAlias = PlainInt | Value | Sequence[PlainInt | Value]
Block: TypeAlias = PlainInt | Sequence[PlainInt]
"""One to three extents."""

BLOCKS_PER_SM = "nvdsl.blocks_per_sm"
"""The attribute of a ``gpu.launch`` whose blocks share an SM with others of their kind."""

FEWEST_BLOCKS_PER_SM = "nvdsl.fewest_blocks_per_sm"
"""Beside it: with how few of them it shall do before registers are spilled."""

_LONG_GRID = (
    f"put the longest axis along x, which has room for {arch.MAX_GRID_DIM[0]:,} blocks, or fold axes into one: "
    "grid=rows * cols, row = nv.block_id.x // cols, col = nv.block_id.x % cols"
)


def kernel(
    grid: Grid | None = None,
    block: Block | None = None,
    *,
    cluster: Block = 1,
    programmatic: bool = False,
    blocks_per_sm: int | tuple[int, int] = 1,
    non_portable: bool = False,
) -> Callable[[Callable[P, None]], Callable[P, None]]:
    """Decorate a device function inside a host function; calling it launches it.

    * ``grid``: blocks, up to three extents (ints or traced integers of the host function). 0 along an axis launches
      nothing.
    * ``block``: threads of a block, up to three ints.
    * ``cluster``: blocks of a cluster, up to three ints that divide the grid.
    * ``programmatic``: the kernel may start while the one before it in the stream still runs. It calls `griddep_wait`
      before it uses what that one wrote (CUDA programming guide, programmatic dependent launch).
    * ``blocks_per_sm``: so many blocks shall fit on an SM together. ptxas then gives each thread no more registers than
      that leaves (PTX ISA, ``.minnctapersm``), and keeps what it has no room for in local memory. With the least and
      the most, ``(1, 4)``, it is the most that takes no local memory. Shared memory is the kernel's to keep small
      enough.
    * ``non_portable``: the cluster may have more than 8 blocks, up to 16, as an H100 and an H200 take them
      (CUDA programming guide, non-portable cluster sizes).

    The function may take arguments, and may use the host function's arrays, tensor maps and scalars directly. It
    returns nothing. Its shared memory is what its `nv.smem` and mbarriers add up to.

    Raises ``TraceError`` for a generator or coroutine, for sizes that the hardware does not have, for a kernel that
    returns something, and for one that is made in a host function and never launched.
    """

    if callable(grid) or grid is None or block is None:
        raise TraceError(
            "@nv.kernel without a grid and a block",
            where=decorated.place(grid),
            rule="a kernel is made for a number of blocks and a number of threads",
            fix="write @nv.kernel(grid=blocks, block=threads), in the host function",
        )

    def decorate(function: Any) -> Callable[..., None]:
        decorated.check(function, "@nv.kernel")
        body = convert(function)
        launched = decorated.made(function)

        @functools.wraps(function)
        def launch(*args: Any, **kwargs: Any) -> None:
            if not is_tracing():
                raise trace_error(
                    f"kernel `{function.__name__}` is launched outside of a host function",
                    rule="a launch is traced, in a function that @nv.jit decorates",
                    fix="write the host function, make the kernel in it and call it there; then call the host function",
                )
            launched()
            scope.outside(f"kernel `{function.__name__}` was launched", "launch it in the host function")
            info = describe_launch(function.__name__, grid, block, cluster, non_portable)
            fewest, most = _check_blocks_per_sm(blocks_per_sm, info.threads)
            if any(isinstance(blocks, int) and blocks == 0 for blocks in info.grid):
                return  # nothing to do, as for a traced size that is 0 when the host function runs
            op = emit_launch(info, lambda: decorated.no_result(function, body(*args, **kwargs), "the kernel"))
            if programmatic:
                op.operation.attributes["nvdsl.programmatic_launch"] = ir.UnitAttr.get()
            i32 = ir.IntegerType.get_signless(32)
            if most > 1:
                op.operation.attributes[BLOCKS_PER_SM] = ir.IntegerAttr.get(i32, most)
            if fewest < most:
                op.operation.attributes[FEWEST_BLOCKS_PER_SM] = ir.IntegerAttr.get(i32, fewest)

        return launch

    return decorate


def describe_launch(
    name: str, grid: Grid, block: Block, cluster: Block, non_portable: bool = False
) -> scope.Kernel:
    """Check the sizes of a launch. Raises TraceError where the hardware has no such launch."""
    blocks, threads, together = _three(grid, "grid"), _known(block, "block"), _known(cluster, "cluster")
    _check_grid(blocks)
    _check_block(threads)
    _check_cluster(blocks, together, non_portable)
    symbol = re.sub(r"[^A-Za-z0-9_$]", "_", name)  # a lambda's name, é: PTX has no such identifiers
    return scope.Kernel(symbol, blocks, threads, together, converted=lambda function: resolve(function, convert))


def _known(size: Block, what: str) -> tuple[int, int, int]:
    x, y, z = sizes = _three(size, what)
    if not (isinstance(x, int) and isinstance(y, int) and isinstance(z, int) and min(x, y, z) >= 1):
        raise trace_error(
            f"{what}={sizes}",
            rule=f"a {what}'s extents are positive Python ints",
            fix=constant_fix("take them from keyword arguments of the host function", sizes),
        )
    return x, y, z


def _three(size: Grid, what: str) -> tuple[Int, Int, Int]:
    size = size.tolist() if isinstance(size, np.ndarray) else size
    sizes = tuple(map(_plain, size if isinstance(size, Sequence) else (size,)))
    if not 1 <= len(sizes) <= 3:
        raise trace_error(
            f"{what}={sizes}", rule=f"a {what} has one to three extents", fix="x, (x, y) or (x, y, z)"
        )
    x, y, z = (*sizes, 1, 1)[:3]
    return x, y, z


def _plain(size: Any) -> Int:
    """NumPy's integers as Python's."""
    return size if isinstance(size, Value) or not hasattr(size, "__index__") else operator.index(size)


def _check_grid(grid: tuple[Int, Int, Int]) -> None:
    for axis, blocks, most in zip("xyz", grid, arch.MAX_GRID_DIM, strict=True):
        if isinstance(blocks, ir.Value):
            fits = isinstance(blocks, Value) and not blocks.dtype.is_float
        else:
            fits = isinstance(blocks, int) and 0 <= blocks <= most
        if not fits:
            raise trace_error(
                f"a grid of {blocks!r} blocks along {axis}",
                rule=f"0 to {most:,} blocks along {axis}, an int or a traced integer (CUDA programming guide, "
                "compute capabilities)",
                fix=_LONG_GRID
                if isinstance(blocks, int) and blocks > most
                else "nv.cdiv(extent, tile) rounds up",
            )


def _check_block(block: tuple[int, int, int]) -> None:
    threads = block[0] * block[1] * block[2]
    if threads > arch.MAX_THREADS_PER_BLOCK or block[2] > 64:
        raise trace_error(
            f"a block of {block[0]} x {block[1]} x {block[2]} = {threads} threads",
            rule=f"a block has at most {arch.MAX_THREADS_PER_BLOCK} threads, 64 along z (CUDA programming guide, "
            "compute capabilities)",
            fix="use a smaller block and more blocks",
        )


def _check_blocks_per_sm(blocks: int | tuple[int, int], threads: int) -> tuple[int, int]:
    """The least and the most."""
    most = min(arch.MAX_BLOCKS_PER_SM, arch.MAX_THREADS_PER_SM // threads)
    pair = blocks if isinstance(blocks, tuple) else (blocks, blocks)
    if not (len(pair) == 2 and all(isinstance(x, int) for x in pair) and 1 <= pair[0] <= pair[1] <= most):
        raise trace_error(
            f"blocks_per_sm={blocks!r} with {threads} threads in a block",
            rule=f"an SM has room for {arch.MAX_BLOCKS_PER_SM} blocks and {arch.MAX_THREADS_PER_SM} threads (CUDA "
            "programming guide, compute capabilities)",
            fix=f"pass an int from 1 to {most}, or two, the least and the most; or use a smaller block",
        )
    return pair


def _check_cluster(grid: tuple[Int, Int, Int], cluster: tuple[int, int, int], non_portable: bool) -> None:
    size = cluster[0] * cluster[1] * cluster[2]
    most = arch.MAX_CLUSTER_SIZE_NON_PORTABLE if non_portable else arch.MAX_CLUSTER_SIZE
    if size > most:
        where = "with non_portable=True" if non_portable else "on every Hopper GPU"
        raise trace_error(
            f"a cluster of {size} blocks",
            rule=f"a cluster has at most {most} blocks {where} (CUDA programming guide)",
            fix="use 2, 4 or 8 blocks" + ("" if non_portable else "; up to 16 with non_portable=True"),
        )
    for axis, blocks, per in zip("xyz", grid, cluster, strict=True):
        if isinstance(blocks, int) and blocks % per:
            raise trace_error(
                f"a grid of {blocks} blocks along {axis} in clusters of {per}",
                rule="the grid is a whole number of clusters along each axis (CUDA programming guide)",
                fix=f"round the grid up to a multiple of {per} and skip the extra blocks in the kernel",
            )


def emit_launch(info: scope.Kernel, body: Callable[[], None], smem: int | None = None) -> gpu_ops.LaunchOp:
    """Emit ``gpu.launch`` and trace ``body`` into it. Returns the op.

    ``smem``: bytes of dynamic shared memory that the user laid out himself; None: what the body allocates.
    """
    clusters = [const(c) for c in info.cluster] if info.cluster_size > 1 else [None] * 3
    sizes = [const(s) if isinstance(s, int) else _index(s) for s in (*info.grid, *info.block)]
    smem_op = arith.ConstantOp(ir.IntegerType.get_signless(32), smem or 0)
    name = ir.FlatSymbolRefAttr.get(info.name)
    op = gpu_ops.LaunchOp(
        None,
        [],
        *sizes,
        clusterSizeX=clusters[0],
        clusterSizeY=clusters[1],
        clusterSizeZ=clusters[2],
        dynamicSharedMemorySize=smem_op.result,
        module=name,
        function=name,
    )
    arguments = 18 if info.cluster_size > 1 else 12
    block = op.body.blocks.append(
        *([ir.IndexType.get()] * arguments), arg_locs=[ir.Location.current] * arguments
    )
    with ir.InsertionPoint(block):
        scope.within(info, body)
        gpu.terminator()
    if info.tiles:
        op.operation.attributes[declared.ATTRIBUTE] = declared.attribute(info.tiles)
    if smem is None:
        i32 = ir.IntegerType.get_signless(32)
        smem_op.operation.attributes["value"] = ir.IntegerAttr.get(i32, info.smem_bytes)
    return op


def _index(value: Value) -> Value:
    from nvdsl.values.dtypes import index

    return index(value)
