"""Atomics order memory: what a release writes, an acquire that reads it knows (PTX ISA, "Memory Consistency Model").

A release is an atomic write with that order, or a relaxed one after a fence; an acquire an atomic read with that order,
or a relaxed one before a fence. Read-modify-writes of any order hand on what was released to their location before
them. Volatile accesses are relaxed ones. A scope smaller than the GPU orders the threads within it alone.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from nvdsl.mlir import ir
from nvdsl.sim.clocks import Clock

_ACQUIRES, _RELEASES = (4, 6, 7), (5, 6, 7)  # of LLVM's AtomicOrdering: acquire 4, release 5, acq_rel 6, seq_cst 7


class Order(NamedTuple):
    """``scope``: "block", "cluster", or "gpu" (the system's included)."""

    acquires: bool = False
    releases: bool = False
    scope: str = "gpu"


RELAXED = Order()


def order(op: Any, ordering: str = "ordering") -> Order | None:
    """The order of an op of the llvm dialect; None for an ordinary access."""
    number = ir.IntegerAttr(op.attributes[ordering]).value if ordering in op.attributes else 0
    if number == 0:
        return RELAXED if "volatile_" in op.attributes else None
    return Order(number in _ACQUIRES, number in _RELEASES, _scope(op))


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


def read(w: Any, memory: Any, addresses: Any, order: Order) -> None:
    """An atomic read of each address, offsets in ``memory``."""
    for address in addresses:
        cell = memory.cells.get(address)
        if not cell:
            continue
        if order.acquires:
            _acquire(w, cell, order.scope)
        elif w.clock.observed is None:
            w.clock.observed = Released(cell)
        else:
            w.clock.observed.take_all(cell)


def write(w: Any, memory: Any, addresses: Any, order: Order, modifies: bool) -> None:
    """An atomic write; ``modifies``: by a read-modify-write, which continues what was released before it."""
    released = snapshot(w, order.scope) if order.releases else w.clock.fenced
    for address in addresses:
        if not modifies:
            memory.cells.pop(address, None)
        if released:
            memory.cells.setdefault(address, Released()).take_all(released)
