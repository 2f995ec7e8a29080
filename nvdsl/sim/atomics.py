"""Atomics order memory: what a release writes, an acquire that reads it knows (PTX ISA, "Memory Consistency Model").

A release is an atomic write with that order, or a relaxed one after a fence; an acquire an atomic read with that order,
or a relaxed one before a fence. Read-modify-writes of any order hand on what was released to their location before
them. Volatile accesses are relaxed ones. A scope smaller than the GPU orders the threads within it alone.

A load may read an older value until something orders it after the newer write (the same section, "Coherence"). So a
warp's first load after a write by another block, in global memory, shows what was there before that: a flag that was
left raised by the launch before is then taken for this launch's.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from nvdsl.errors import Where
from nvdsl.mlir import ir
from nvdsl.sim.clocks import Clock
from nvdsl.sim.report import stale_flag

_ACQUIRES, _RELEASES = (4, 6, 7), (5, 6, 7)  # of LLVM's AtomicOrdering: acquire 4, release 5, acq_rel 6, seq_cst 7


class Order(NamedTuple):
    """``scope``: "block", "cluster", or "gpu" (the system's included). ``total``: seq_cst."""

    acquires: bool = False
    releases: bool = False
    scope: str = "gpu"
    total: bool = False


RELAXED = Order()


def order(op: Any, ordering: str = "ordering") -> Order | None:
    """The order of an op of the llvm dialect; None for an ordinary access."""
    number = ir.IntegerAttr(op.attributes[ordering]).value if ordering in op.attributes else 0
    if number == 0:
        return RELAXED if "volatile_" in op.attributes else None
    return Order(number in _ACQUIRES, number in _RELEASES, _scope(op), number == 7)


def _scope(op: Any) -> str:
    name = ir.StringAttr(op.attributes["syncscope"]).value if "syncscope" in op.attributes else ""
    return name if name in ("block", "cluster") else "gpu"


def fence_scope(op: Any) -> str:
    """The scope of nvvm.memory.barrier, nvvm.fence.sc.cluster or llvm.fence."""
    if op.name == "llvm.fence":
        return _scope(op)
    text = str(op.attributes["scope"]) if "scope" in op.attributes else op.name
    return "cluster" if "cluster" in text else "block" if "cta" in text else "gpu"


Known = tuple[Any, Any, Any]
"""(generic, proxy, beyond) clocks of one cluster, never written; proxy means something in that cluster alone."""


class Released(dict[Any, Known]):
    """What was released, by (scope's domain, cluster)."""

    def take(self, key: Any, known: Known) -> None:
        old = self.get(key)
        self[key] = known if old is None else tuple(_max(a, b) for a, b in zip(old, known, strict=True))

    def take_all(self, other: Released) -> None:
        for key, known in other.items():
            self.take(key, known)


def _max(a: Any, b: Any) -> Any:
    return b if a is None else a if b is None else np.maximum(a, b)


def snapshot(w: Any, scope: str) -> Released:
    """All that a warp knows, and did: what a release by it passes on to those in the scope."""
    clock: Clock = w.clock
    domain = {"gpu": None, "cluster": clock.cluster, "block": w.block}[scope]
    found = Released()
    found[domain, clock.cluster] = (clock.generic.copy(), clock.proxy.copy(), clock.beyond)
    for cluster, (generic, beyond) in (clock.far or {}).items():
        found[domain, cluster] = (generic, None, beyond)
    clock.tick()
    return found


def _acquire(w: Any, released: Released, scope: str) -> None:
    clock: Clock = w.clock
    for (domain, cluster), (generic, proxy, beyond) in list(released.items()):
        if not (domain is None or domain is w.block or domain == clock.cluster):
            continue
        if cluster != clock.cluster:
            if scope == "gpu":
                clock.learn(cluster, generic, beyond)
            continue
        np.maximum(clock.generic, generic, out=clock.generic)
        np.maximum(clock.proxy, proxy, out=clock.proxy)
        clock.beyond = _max(clock.beyond, beyond)


def fence(w: Any, scope: str) -> None:
    """fence.acq_rel or fence.sc (membar): relaxed reads before it acquire, relaxed writes after it release."""
    clock: Clock = w.clock
    if clock.observed is not None:
        _acquire(w, clock.observed, scope)
        clock.observed = None
    clock.fenced = snapshot(w, scope)
    w.fence_time = next(w.machine.stamps)


class Cell:
    """A location that atomics wrote. ``released`` with its value; ``old``: the value before that with what was released
    with it, ``writer`` and ``time``: of the write between the two; ``readers``: those who have seen it."""

    __slots__ = ("old", "readers", "released", "time", "writer")

    def __init__(self) -> None:
        self.released = Released()
        self.old: tuple[bytes, Released] | None = None
        self.readers: dict[tuple[int, int], int] = {}
        self.time = 0
        self.writer = (0, 0, 0)

    def written(self, w: Any, value: bytes) -> None:
        """``value``: what is there before the write."""
        self.old = value, Released(self.released)
        self.writer = w.clock.cluster, w.clock.actor, w.clock.epoch
        self.time = next(w.machine.stamps)
        self.readers.clear()

    def may_be_old(self, w: Any) -> bool:
        """Whether nothing that ``w`` knows comes after the last write. (A fence since then might: fence.sc is one.)"""
        clock: Clock = w.clock
        if self.old is None or w.fence_time > self.time or _sees(clock, *self.writer):
            return False
        return not any(_sees(clock, *reader, epoch) for reader, epoch in self.readers.items())


def _sees(clock: Clock, cluster: int, actor: int, epoch: int) -> bool:
    own = cluster == clock.cluster and actor == clock.actor
    return own or clock.sees(cluster, actor, epoch, False)


class Stale(NamedTuple):
    """A warp's last load of a cell, which read an old value; what the newer one would have told it."""

    cluster: int
    reader: str
    at: Where | None
    memory: str
    released: Released


def load(w: Any, memory: Any, addresses: Any, order: Order, at: Where | None) -> dict[int, bytes]:
    """An atomic load of each address of global memory, offsets in ``memory``. Returns the old values that it reads."""
    found = {}
    for address in addresses:
        cell = memory.cells.get(address)
        if cell is None:
            continue
        is_old = not order.total and w.machine.shows_old() and cell.may_be_old(w)
        reader = w.clock.cluster, w.clock.actor
        cell.readers[reader] = w.clock.epoch
        w.machine.stale.pop((cell, reader), None)
        if is_old:
            w.machine.changes += 1  # the next one sees more
            found[address] = cell.old[0]
            w.machine.stale[cell, reader] = Stale(w.clock.cluster, w.name, at, memory.name, Released(cell.released))
        _observe(w, cell.old[1] if is_old else cell.released, order)
    return found


def read(w: Any, memory: Any, addresses: Any, order: Order) -> None:
    """The read of a read-modify-write, or of shared memory: of the last value."""
    for address in addresses:
        cell = memory.cells.get(address)
        if cell is not None:
            _observe(w, cell.released, order)


def _observe(w: Any, released: Released, order: Order) -> None:
    if not released:
        return
    if order.acquires:
        _acquire(w, released, order.scope)
    elif w.clock.observed is None:
        w.clock.observed = Released(released)
    else:
        w.clock.observed.take_all(released)


def write(w: Any, memory: Any, addresses: Any, order: Order, modifies: bool, size: int) -> None:
    """An atomic write of ``size`` bytes, before they change; ``modifies``: by a read-modify-write, which continues what
    was released before it."""
    cells = [memory.cells.setdefault(address, Cell()) for address in addresses]
    if memory.is_global:
        for address, cell in zip(addresses, cells, strict=True):
            cell.written(w, memory.data[address : address + size].tobytes())
    released = snapshot(w, order.scope) if order.releases else w.clock.fenced
    for cell in cells:
        if not modifies:
            cell.released = Released()
        if released:
            cell.released.take_all(released)


def domain(w: Any, scope: str) -> tuple[int, ...]:
    """Who is in the scope of an atomic by ``w``: see `histories.Touch`."""
    return {"gpu": (), "cluster": (w.clock.cluster,), "block": (w.clock.cluster, w.block.rank)}[scope]


def check_stale(w: Any, other: Any) -> None:
    """Raise where ``w`` would come after ``other`` (a `histories.Touch`) if a load had read the newer value."""
    for stale in w.machine.stale.values():
        if stale.cluster == w.clock.cluster and any(
            cluster == other.cluster and known[0][other.actor] >= other.epoch
            for (_, cluster), known in stale.released.items()
        ):
            raise stale_flag(stale.reader, stale.at, stale.memory, other.access)
