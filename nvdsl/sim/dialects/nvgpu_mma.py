"""nvgpu, matrices of a warp: ldmatrix and mma.sync on vectors, whose rows are a lane's registers."""

from __future__ import annotations

from typing import Any

import numpy as np

from nvdsl.ir.location import where
from nvdsl.ir.operands import has, integer, integers
from nvdsl.mlir import ir
from nvdsl.sim import matrix, mma
from nvdsl.sim.access import SHARED, Accessor
from nvdsl.sim.decode import Decoder, Frame, op, unknown
from nvdsl.sim.dialects.nvvm_wgmma import rows_of
from nvdsl.sim.indexer import Indexer
from nvdsl.sim.values import LANES, element


@op("nvgpu.ldmatrix")
def _ldmatrix(d: Decoder, op: Any) -> Any:
    r, at = d.result(op), where(op)
    kind, count = element(op.results[0].type), integer(op, "numTiles")
    transpose = ir.BoolAttr(op.attributes["transpose"]).value
    index = Indexer(d, op, op.operands[0], d.operands(op)[1:], trailing=16 // kind.bytes)
    if index.layout.space != SHARED or index.layout.strides[-1] != kind.bytes:
        raise unknown(op, "rows that are not contiguous in shared memory")
    access = Accessor(SHARED, element("i32"), 4, 16, at)

    given = np.arange(LANES) < 8 * count  # the lanes whose addresses are used

    def step(v: Frame) -> None:
        w = v[0]
        outer = w.mask
        w.set_mask(given)
        address = index(v)
        w.set_mask(outer)
        rows = rows_of(w, address, access, count, "ldmatrix", False, at)
        v[r] = _elements(matrix.ldmatrix(w.block.smem.data, rows, count, transpose), kind)

    return step


def _elements(words: Any, kind: Any) -> Any:
    """[registers, lanes] as [registers, elements, lanes]."""
    whole = np.ascontiguousarray(words).view(kind.dtype).reshape(len(words), LANES, 4 // kind.bytes)
    return np.ascontiguousarray(np.moveaxis(whole, 2, 1))


@op("nvgpu.mma.sync")
def _mma(d: Decoder, op: Any) -> Any:
    slots, r = d.operands(op), d.result(op)
    kinds = [element(value.type) for value in op.operands]
    m, n, k = integers(op, "mmaShape")
    names = ["tf32" if e.name == "f32" else {"i8": "s8"}.get(e.name, e.name) for e in kinds[:2]]
    if n != 8 or m != 16 or kinds[0].name == "f32" and not has(op, "tf32Enabled"):
        raise unknown(op, f"m{m}n{n}k{k} of {kinds[0].name}")
    one = mma.Mma(m, k, names[0], names[1], kinds[2].name)
    shape = tuple(op.results[0].type.shape)

    def step(v: Frame) -> None:
        a, b, c = (_lanes(v[slot], e) for slot, e in zip(slots, kinds, strict=True))
        found = mma.product(_words(a), _words(b), c.reshape(-1, LANES), one, v[0].machine.options.exact)
        v[r] = np.asarray(found, kinds[2].dtype).reshape(*shape, LANES)

    return step


def _lanes(x: Any, kind: Any) -> Any:
    """A vector with all of its lanes."""
    return np.broadcast_to(np.asarray(x, kind.dtype), (*x.shape[:-1], LANES))


def _words(x: Any) -> Any:
    """[registers, elements, lanes] as the registers' words, [registers, lanes]."""
    return np.ascontiguousarray(np.moveaxis(x, 1, 2)).view(np.int32)[..., 0]
