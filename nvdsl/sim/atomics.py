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
from nvdsl.ir.operands import has, integer, string, word
from nvdsl.sim.clocks import Clock, Known, joined
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
    number = integer(op, ordering, 0)
    if number == 0:
        return RELAXED if has(op, "volatile_") else None
    return Order(number in _ACQUIRES, number in _RELEASES, _scope(op), number == 7)


def _scope(op: Any) -> str:
    name = string(op, "syncscope")
    return name if name in ("block", "cluster") else "gpu"


def fence_scope(op: Any) -> str:
    """The scope of nvvm.memory.barrier, nvvm.fence.sc.cluster or llvm.fence."""
    if op.name == "llvm.fence":
        return _scope(op)
    text = word(op, "scope") or op.name
    return "cluster" if "cluster" in text else "block" if "cta" in text else "gpu"


Told = tuple[Known | None, Known | None, Known | None]
"""(generic, proxy, beyond) of one cluster, never written; proxy means something in that cluster alone."""


class Released(dict[Any, Told]):
    """What was released, by (scope's domain, cluster)."""

    def take(self, key: Any, told: Told) -> None:
        old = self.get(key)
        if old is not None:
            told = joined(old[0], told[0]), joined(old[1], told[1]), joined(old[2], told[2])
        self[key] = told

    def take_all(self, other: Released) -> None:
        for key, told in other.items():
            self.take(key, told)

    def with_all(self, other: Released) -> Released:
        """Both, as a new one: what clocks have of them is shared, and never written."""
        both = Released(self)
        both.take_all(other)
        return both


def snapshot(w: Any, scope: str, what: str, at: Where | None) -> Released:
    """All that the active lanes know, and did: what a release by them passes on to those in the scope."""
    found = Released()
    for _ in w.apart():
        clock: Clock = w.clock
        domain = {"gpu": None, "cluster": clock.cluster, "block": w.block}[scope]
        found.take((domain, clock.cluster), (w.known(what, at), clock.proxy.copy(), clock.beyond))
        for cluster, (generic, beyond) in (clock.far or {}).items():
            found.take((domain, cluster), (generic, None, beyond))
    w.epoch += 1
    return found


def _acquire(w: Any, clock: Clock, released: Released, scope: str) -> None:
    for (domain, cluster), (generic, proxy, beyond) in released.items():
        if not (domain is None or domain is w.block or domain == clock.cluster):
            continue
        assert generic is not None
        if cluster != clock.cluster:
            if scope == "gpu":
                clock.learn(cluster, generic, beyond)
            continue
        clock.generic.join(generic)
        if proxy is not None:
            clock.proxy.join(proxy)
        clock.beyond = joined(clock.beyond, beyond)


def fence(w: Any, scope: str, at: Where | None) -> None:
    """fence.acq_rel or fence.sc (membar): relaxed reads before it acquire, relaxed writes after it release.

    Barriers hand both on: a thread's relaxed write releases what others of its block fenced before the barrier, and
    the fences of others acquire what it read before one (as in CUDA's ``threadFenceReduction`` sample).
    """
    for _ in w.apart():
        clock = w.alone()
        if clock.observed is not None:
            _acquire(w, clock, clock.observed, scope)
            clock.observed = None
        told = snapshot(w, scope, "fence", at)
        clock.fenced = told if clock.fenced is None else clock.fenced.with_all(told)
    w.fence_time = next(w.machine.stamps)


class Cell:
    """A location that atomics wrote. ``released`` with its value; ``old``: the value before that with what was released
    with it, ``writer`` and ``time``: of the write between the two, ``is_first``: in this launch; ``readers``: those who
    have seen it."""

    __slots__ = ("is_first", "old", "readers", "released", "time", "writer")

    def __init__(self) -> None:
        self.released = Released()
        self.old: tuple[bytes, Released] | None = None
        self.readers: dict[tuple[int, int], int] = {}
        self.is_first = False
        self.time = 0
        self.writer = (0, 0, 0)

    def written(self, w: Any, value: bytes) -> None:
        """``value``: what is there before the write."""
        self.is_first = self.old is None
        self.old = value, Released(self.released)
        self.writer = w.clock.cluster, w.actor, w.epoch
        self.time = next(w.machine.stamps)
        self.readers.clear()

    def is_same(self, memory: Any, address: int) -> bool:
        """Whether the last write left the old value: nobody can tell by it which of the two was read."""
        return self.old is not None and memory.data[address : address + len(self.old[0])].tobytes() == self.old[0]

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
    """A warp's last load of a cell, which read an old value; what the newer one would have told it. ``decided``: where
    the warp went on because of it; None where that isn't known."""

    cluster: int
    reader: str
    at: Where | None
    decided: Where | None
    memory: str
    released: Released


def load(
    w: Any, memory: Any, addresses: Any, order: Order, at: Where | None, decided: Where | None
) -> dict[int, bytes]:
    """An atomic load of each address of global memory, offsets in ``memory``. ``decided``: where its value decides
    whether the warp goes on (`polling.decided`). Returns the old values that it reads."""
    found = {}
    for address in addresses:
        cell = memory.cells.get(address)
        if cell is None:
            continue
        is_old = not order.total and cell.may_be_old(w) and (cell.is_same(memory, address) or w.machine.shows_old())
        reader = w.clock.cluster, w.actor
        cell.readers[reader] = w.epoch
        w.machine.stale.pop((cell, reader), None)
        if is_old:
            w.machine.changes += 1  # the next one sees more
            found[address] = cell.old[0]
            if cell.is_first or cell.is_same(memory, address):  # the old value may stand for the last write
                w.machine.stale[cell, reader] = Stale(
                    w.clock.cluster, w.name, at, decided, memory.name, Released(cell.released)
                )
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
    for _ in w.apart():
        clock = w.alone()
        if order.acquires:
            _acquire(w, clock, released, order.scope)
        else:
            clock.observed = Released(released) if clock.observed is None else clock.observed.with_all(released)


def write(
    w: Any, memory: Any, addresses: Any, order: Order, modifies: bool, size: int, at: Where | None
) -> None:
    """An atomic write of ``size`` bytes, before they change; ``modifies``: by a read-modify-write, which continues what
    was released before it."""
    cells = [memory.cells.setdefault(address, Cell()) for address in addresses]
    if memory.is_global:
        for address, cell in zip(addresses, cells, strict=True):
            cell.written(w, memory.data[address : address + size].tobytes())
    released = snapshot(w, order.scope, "release", at) if order.releases else _fenced(w, at)
    for cell in cells:
        if not modifies:
            cell.released = Released()
        if released:
            cell.released.take_all(released)


def _fenced(w: Any, at: Where | None) -> Released | None:
    """What the fences before it released."""
    found: Released | None = None
    for _ in w.apart():
        more = w.clock.fenced
        if more is not None and w.touched & ~w.bits:
            more = _by_these(w, more, at)
        found = more if found is None else found if more is None else found.with_all(more)
    return found


def _by_these(w: Any, fenced: Released, at: Where | None) -> Released:
    """The part of the active lanes: a fence covers what its own thread did."""
    return Released({
        key: told if key[1] != w.clock.cluster or told[0] is None else (w.own_part(told[0], "an atomic", at), *told[1:])
        for key, told in fenced.items()
    })


def add_f32(x: Any, y: Any) -> Any:
    """In global memory: subnormal inputs and sums are flushed to zeros of their sign (PTX ISA, atom)."""
    return _flushed(_flushed(x) + _flushed(y))


def _flushed(x: Any) -> Any:
    return np.where(np.abs(x) < np.finfo(np.float32).tiny, np.copysign(np.float32(0), x), x)


def domain(w: Any, scope: str) -> tuple[int, ...]:
    """Who is in the scope of an atomic by ``w``: see `histories.Touch`."""
    return {"gpu": (), "cluster": (w.clock.cluster,), "block": (w.clock.cluster, w.block.rank)}[scope]


def check_stale(w: Any, other: Any) -> None:
    """Raise where ``w`` would come after ``other`` (a `histories.Touch`) if a load had read the newer value."""
    for stale in w.machine.stale.values():
        if stale.cluster == w.clock.cluster and any(
            cluster == other.cluster and known is not None and known.upto[other.actor] >= other.epoch
            for (_, cluster), (known, _, _) in stale.released.items()
        ):
            raise stale_flag(stale.reader, stale.at, stale.decided, stale.memory, other.access)
