"""cp.async: nvgpu's copy of elements, nvvm's of bytes; groups, and arrivals at an mbarrier."""

from __future__ import annotations

from typing import Any

import numpy as np

from nvdsl.ir.location import where
from nvdsl.ir.operands import integer, named
from nvdsl.sim import async_copies
from nvdsl.sim.async_copies import Copier
from nvdsl.sim.decode import Blocking, Decoder, Frame, op
from nvdsl.sim.dialects.memref import tile_of
from nvdsl.sim.indexer import Indexer
from nvdsl.sim.values import LANES, element


@op("nvgpu.device_async_copy")
def _copy(d: Decoder, op: Any) -> Any:
    into, out, valid = d.named(op, "dstIndices", "srcIndices", "srcElements")
    view, count = named(op), integer(op, "dstElements")
    target = Indexer(d, op, view.dst, into, trailing=count)
    source = Indexer(d, op, view.src, out, trailing=1 if valid else count)
    copier = Copier(target.layout.element, count, where(op), tile_of(view.dst))
    size = target.layout.element.bytes
    d.define(op.results[0], 0)

    def step(v: Frame) -> None:
        w = v[0]
        if valid is None:
            copier.start(w, target(v), source(v), copier.size)
            return
        bytes_ = np.broadcast_to(v[valid], (LANES,)) * size
        outer, address = w.mask, 0
        if (outer & (bytes_ > 0)).any():  # who reads nothing may name any element
            w.set_mask(outer & (bytes_ > 0))
            address = source(v)
            w.set_mask(outer)
        copier.start(w, target(v), address, bytes_)

    return step


@op("nvvm.cp.async.shared.global")
def _bytes(d: Decoder, op: Any) -> Any:
    target, source, valid = d.named(op, "dst", "src", "cpSize")
    copier = Copier(element("i8"), integer(op, "size"), where(op), None)

    def step(v: Frame) -> None:
        copier.start(v[0], v[target], v[source], copier.size if valid is None else v[valid])

    return step


@op("nvvm.cp.async.commit.group", "nvgpu.device_async_create_group")
def _commit(d: Decoder, op: Any) -> Any:
    """nvgpu's tokens say nothing that the order of the groups does not: its lowering drops them."""
    for result in op.results:
        d.define(result, 0)
    return lambda v: async_copies.commit(v[0])


@op("nvvm.cp.async.wait.group", "nvgpu.device_async_wait")
def _wait(d: Decoder, op: Any) -> Any:
    pending, at = integer(op, "n" if op.name.startswith("nvvm") else "numGroups", 0), where(op)
    return Blocking(lambda v: async_copies.wait(v[0], pending, at))


@op("nvvm.cp.async.mbarrier.arrive")
def _arrive(d: Decoder, op: Any) -> Any:
    (address,) = d.named(op, "addr")
    at, counted = where(op), "noinc" in op.attributes and bool(op.attributes["noinc"].value)
    return lambda v: async_copies.arrive(v[0], v[address], at, counted)
