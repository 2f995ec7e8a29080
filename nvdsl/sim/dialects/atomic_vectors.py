"""Atomics of several elements: the inline PTX of `nvdsl.ops.atomic_vectors`."""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from nvdsl.ir.location import where
from nvdsl.ir.operands import string
from nvdsl.mlir import ir
from nvdsl.sim.access import GLOBAL, SHARED, SHARED_CLUSTER, Accessor
from nvdsl.sim.atomics import Order, add_f32
from nvdsl.sim.decode import Decoder, Frame, unknown
from nvdsl.sim.registers import Struct
from nvdsl.sim.values import LANES, element

_TEXT = re.compile(
    r"atom\.(\w+)\.(\w+)\.(global|shared|shared::cluster)\.(add|min|max)(?:\.noftz)?\.(?:v(\d)\.(\w+)|(b?f16)x2) "
)
_SPACES = {"global": GLOBAL, "shared": SHARED, "shared::cluster": SHARED_CLUSTER}
_SCOPES = {"cta": "block", "cluster": "cluster", "gpu": "gpu", "sys": "gpu"}
_KINDS: dict[str, Any] = {"add": np.add, "min": np.fmin, "max": np.fmax}


def atomic_vector(d: Decoder, op: Any) -> Any:
    """Lane by lane, and element by element, old = memory; memory = f(old, value)."""
    match = _TEXT.match(string(op, "asm_string"))
    if match is None:
        raise unknown(op, "an atomic that is written in another way")
    order, scope, space, kind, count, type, pair = match.groups()
    e = element(ir.Type.parse(pair or type))
    width, f = int(count or 2), add_f32 if type == "f32" else _KINDS[kind]
    acquires, releases = order in ("acquire", "acq_rel"), order in ("release", "acq_rel")
    at = Order(acquires, releases, _SCOPES[scope])
    access = Accessor(_SPACES[space], e, width, e.bytes * width, where(op), at)
    pointer, *values = d.operands(op)
    r = d.result(op)

    def step(v: Frame) -> None:
        w = v[0]
        given = v[values[0]] if pair else [v[s] for s in values]
        each = np.stack([np.broadcast_to(np.asarray(x, e.dtype), (LANES,)) for x in given])
        old = np.zeros((width, LANES), e.dtype)
        for found, offsets in access.modify(w, v[pointer]):
            view = found.view(e.dtype)
            for lane, offset in w.in_turn(offsets):
                at = slice(offset >> access.shift, (offset >> access.shift) + width)
                old[:, lane] = view[at]
                view[at] = f(view[at], each[:, lane])
        w.machine.changes += 1
        v[r] = old if pair else Struct(list(old))

    return step
