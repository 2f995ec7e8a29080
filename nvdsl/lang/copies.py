"""nv.copy: a group of threads copies a part of memory; the layouts of both sides say who moves what, and how."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from operator import and_
from typing import Any

from nvdsl.errors import trace_error
from nvdsl.hopper import arch
from nvdsl.ir.linear import linear
from nvdsl.lang.array import Array
from nvdsl.lang.copy_side import UNKNOWN, Guard, Side, side
from nvdsl.lang.extents import is_static, shown
from nvdsl.lang.remote import Remote
from nvdsl.lang.tile import Tile
from nvdsl.lang.tma import TMA
from nvdsl.lang.vector_access import WIDEST
from nvdsl.layout.copying import CopyPlan, common_vector, contiguous_axis
from nvdsl.mlir import ir
from nvdsl.mlir.dialects import scf
from nvdsl.ops.cp_async import cp_async, cp_async_arrive
from nvdsl.ops.mbarrier import Mbarrier
from nvdsl.ops.pointer import condition, index, under
from nvdsl.ops.warp import WARP_GROUP_SIZE, WARP_SIZE, lane_id, linear_thread_id, warpgroup_thread
from nvdsl.values import dtypes, scope, select
from nvdsl.values.traced import Value, const, wrap
from nvdsl.values.typing import Bool, Coords, Int

_BATCH = 8
"""Loads of a thread that are under way at a time: 32 registers of 16-byte accesses."""

_UNROLLED = 32
"""Rounds that are traced one by one; beyond, a loop takes a batch in each turn."""


def copy(
    source: Array | Tile | Remote | TMA,
    target: Array | Tile | Remote | TMA,
    *,
    group: str = "block",
    asynchronous: bool = False,
    barrier: Mbarrier | None = None,
    coords: Coords | None = None,
) -> CopyPlan:
    """Copy a part of memory: the threads of a group share it. Returns how: ``str(plan)`` is the plan as a text.

    ``source`` and ``target``: arrays and tiles of one shape, in global or shared memory, or those of another block of
    the cluster (``tile.at(rank)``). All threads of the ``group``
    call it: "block", "warp" or "warpgroup" (each of these copies all of it). It does not wait for others: a barrier
    before others read what was copied, and before what they read is overwritten, is the caller's.

    The width of an access is the widest, up to 16 bytes, at which both layouts have their elements in a row and
    aligned. Neighbouring threads take neighbouring addresses of global memory. A part that reaches past its array,
    ``x[row : row + 32, :]`` in the last block, is zeros there; what would be stored past the end is left out. It costs
    no comparison where the launch and the loops around it show that no part does.

    ``asynchronous``: from global to shared memory by `cp_async`, without registers; `cp_async_commit` and
    `cp_async_wait` follow, or ``barrier`` counts an arrival of each thread once its copies are done. With a `TMA` on
    one side one thread of the group starts the copy at ``coords``: a load completes on ``barrier``, which has been told
    of ``tma.bytes``; a store belongs to that thread's bulk group.

    Raises TraceError for different shapes, for what cp.async can't copy, and where elements would not fit the type.
    """
    scope.current("nv.copy")
    if isinstance(source, TMA) or isinstance(target, TMA):
        return _by_tma(source, target, group, barrier, coords)
    a, b = side(source, "source"), side(target, "destination")
    _check(a, b, asynchronous, barrier, coords)
    thread, threads = _threads(group)
    plan = _plan(a, b, threads, asynchronous)
    if asynchronous:
        _each(plan, thread, lambda at: _start(plan, a, b, at))
        if barrier is not None:
            cp_async_arrive(barrier)
    else:
        _each(plan, thread, lambda at: _load(plan, a, at), lambda at, value: _store(plan, b, at, value))
    return plan


def _threads(group: str) -> tuple[Value, int]:
    count = scope.current("nv.copy").threads
    known: dict[str, tuple[Callable[[], Value], int]] = {
        "block": (linear_thread_id, count), "warp": (lane_id, min(WARP_SIZE, count)),
        "warpgroup": (warpgroup_thread, min(WARP_GROUP_SIZE, count)),
    }  # fmt: skip
    if group not in known:
        raise trace_error(
            f"nv.copy with group={group!r}", rule=f"a group is one of {list(known)}", fix='group="block", the default'
        )
    number, threads = known[group]
    return dtypes.u32(number()), threads


def _check(a: Side, b: Side, asynchronous: bool, barrier: Any, coords: Any) -> None:
    dynamic = next((x for x in (a, b) if not is_static(x.shape)), None)
    if dynamic is not None:
        raise trace_error(
            f"nv.copy of a part of shape {shown(dynamic.shape)}",
            rule="the threads share a part whose extents are known while tracing; it may reach past its array",
            fix="copy it piece by piece: x[row : row + 32, :64], in a loop or by the blocks of the grid",
        )
    if a.shape != b.shape:
        raise trace_error(
            f"nv.copy from a part of shape {a.shape} to one of shape {b.shape}",
            rule="both sides have one shape: element by element",
            fix="slice the larger one: x[row : row + 32, :]; an index in place of a slice drops an axis",
        )
    if coords is not None or (barrier is not None and not asynchronous):
        raise trace_error(
            f"nv.copy with {'coords' if coords is not None else 'a barrier, but not asynchronous'}",
            rule="coordinates belong to a tensor map; ordinary copies are done when the call is, and count nowhere",
            fix="nv.copy(x_tma, tile, coords=(row, col), barrier=full), or asynchronous=True",
        )
    if asynchronous and (a.shared or not b.shared or a.dtype is not b.dtype):
        raise trace_error(
            f"an asynchronous copy of {a.dtype.name} in {_memory(a)} to {b.dtype.name} in {_memory(b)}",
            rule="cp.async goes from global to shared memory, and does not convert (PTX ISA, cp.async)",
            fix="leave asynchronous out, or copy through a tensor map: nv.TMA(x, tile=..., swizzle=...)",
        )


def _memory(side: Side) -> str:
    return "shared memory" if side.shared else "global memory"


def _plan(a: Side, b: Side, threads: int, asynchronous: bool) -> CopyPlan:
    """The axis is that of global memory; the width what both sides have in a row, aligned and within their arrays."""
    lead = a if b.shared and not a.shared else b
    axis = contiguous_axis(lead.shape, _numbers(lead))
    itemsize = max(a.dtype.bytes, b.dtype.bytes)
    most = 1 if dtypes.bool_ in (a.dtype, b.dtype) else max(WIDEST // itemsize, 1)
    limits = [("16 bytes of one access", most)]
    in_a_row = all(x.along == axis and _numbers(x)[axis] == 1 for x in (a, b))
    limits.append(("elements in a row on both sides", common_vector(a.layout, b.layout, most) if in_a_row else 1))
    limits.append(("the extent of the axis", _divides(a.shape[axis], most)))
    for name, x in (("source", a), ("destination", b)):
        limits.append((f"the alignment of the {name}", x.aligned(axis, most)))
        ends = [_whole(g, most) for g in x.guards if g.axis == axis and (g.below or not asynchronous)]
        limits.append((f"where the {name} ends", min(ends, default=most)))
    vector = min(limit for _, limit in limits)
    why = [f"limited by {name}: {n} element{'s' if n > 1 else ''}" for name, n in limits if n == vector < most]
    guards = [(name, g) for name, x in (("source", a), ("destination", b)) for g in x.guards]
    why += [f"axis {g.axis} of the {name} may reach past its end: each access is compared" for name, g in guards]
    if asynchronous and vector * itemsize not in arch.CP_ASYNC_BYTES:
        raise trace_error(
            f"an asynchronous copy whose widest access has {vector * itemsize} bytes ({'; '.join(why)})",
            rule="cp.async copies 4, 8 or 16 contiguous, aligned bytes (PTX ISA, cp.async)",
            fix="leave asynchronous out, or align the rows of both sides",
        )
    instruction = "cp.async" if asynchronous else f"{'ld.shared' if a.shared else 'ld.global'}, " + (
        "st.shared" if b.shared else "st.global"
    )
    return CopyPlan(a.shape, itemsize, threads, axis, vector, instruction, tuple(why))


def _numbers(side: Side) -> list[int]:
    return [s if isinstance(s, int) else UNKNOWN for s in side.strides]


def _divides(extent: int, most: int) -> int:
    while extent % most:
        most //= 2
    return most


def _whole(guard: Guard, most: int) -> int:
    """Elements of an access that is inside as a whole, or outside."""
    left = linear(guard.extent).plus(linear(guard.start), -1)
    while most > 1 and (left.constant % most or left.step() % most):
        most //= 2
    return most


def _each(
    plan: CopyPlan, thread: Value, first: Callable[[Any], Any], then: Callable[[Any, Any], None] | None = None
) -> None:
    """``first`` at each place of the thread, and ``then`` with what it gave: a batch of the one before the other."""

    def batch(start: Int, count: int) -> None:
        made = [(at, first(at)) for at in (plan.place(thread, start + i) for i in range(count))]
        if then is not None:
            for at, value in made:
                then(at, value)

    whole = plan.count // plan.threads
    done = 0
    if whole > _UNROLLED:
        turns, done = whole // _BATCH, whole // _BATCH * _BATCH
        loop = scf.ForOp(index(0), index(turns), index(1))
        with ir.InsertionPoint(loop.body):
            batch(dtypes.u32(wrap(loop.induction_variable, dtypes.index)) * _BATCH, _BATCH)
            scf.yield_([])
    for start in range(done, whole, _BATCH):
        batch(start, min(_BATCH, whole - start))
    if plan.count % plan.threads:
        with under(thread < plan.count - whole * plan.threads):
            batch(whole, 1)


def _inside(guards: Sequence[Guard], at: Sequence[Int]) -> Bool | None:
    """Whether the element at ``at`` is there; None where all are."""
    return reduce(and_, (condition(g.holds(at[g.axis])) for g in guards)) if guards else None


def _load(plan: CopyPlan, a: Side, at: Sequence[Int]) -> Value:
    inside = _inside(a.guards, at)
    if inside is None:
        return a.load(at, plan.vector)
    type = a.dtype.ir if plan.vector == 1 else ir.VectorType.get([plan.vector], a.dtype.ir)
    branches = scf.IfOp(inside, [type], has_else=True)
    with ir.InsertionPoint(branches.then_block):
        scf.yield_([a.load(at, plan.vector)])
    with ir.InsertionPoint(branches.else_block):
        scf.yield_([const(0, type)])
    return wrap(branches.results[0], a.dtype)


def _store(plan: CopyPlan, b: Side, at: Sequence[Int], value: Value) -> None:
    with under(_inside(b.guards, at)):
        b.store(value, at, plan.vector)


def _start(plan: CopyPlan, a: Side, b: Side, at: Sequence[Int]) -> None:
    """One cp.async, of as many elements as are there."""
    across = [g for g in a.guards if g.axis != plan.axis]
    along = [g for g in a.guards if g.axis == plan.axis]
    valid: Int | None = None
    for g in along:
        left = select.clamp(index(g.left(at[g.axis])), 0, plan.vector)
        valid = left if valid is None else select.min(valid, left)
    rows = _inside(across, at)
    if rows is not None:
        valid = select.select(rows, index(plan.vector) if valid is None else valid, index(0))
    target, key = b.place(at, plan.vector)
    source, where = a.place(at, plan.vector)
    with under(_inside(b.guards, at)):
        cp_async(target, key, source, where, plan.vector, valid=valid)


def _by_tma(source: Any, target: Any, group: str, barrier: Mbarrier | None, coords: Coords | None) -> CopyPlan:
    load = isinstance(source, TMA)
    tma, tile = (source, target) if load else (target, source)
    if coords is None or load != (barrier is not None) or isinstance(tile, TMA):
        lacks = "without coords" if coords is None else "without a barrier" if load else "with a barrier"
        raise trace_error(
            f"nv.copy {'from' if load else 'to'} a tensor map {lacks}",
            rule="a TMA copy has the coordinates of its box; a load completes on an mbarrier, a store in a bulk group",
            fix="nv.copy(x_tma, tile, coords=(row, col), barrier=full), nv.copy(tile, x_tma, coords=(row, col))",
        )
    thread, threads = _threads(group)
    with under(thread == 0):
        if load:
            tma.load(tile, barrier, coords)
        else:
            tma.store(tile, coords)
    name = "cp.async.bulk.tensor"
    why = (f"one thread of the group starts boxes of {'x'.join(map(str, tma.box))}: a tensor map is given",)
    vector = tma.box[-1]
    return CopyPlan(tma.shape, tma.dtype.bytes, threads, len(tma.shape) - 1, vector, name, why)
