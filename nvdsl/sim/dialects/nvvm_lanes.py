"""nvvm, within a warp: shuffles, votes, special registers, conversions, approximations."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from nvdsl.ir.location import where
from nvdsl.ir.operands import named, word
from nvdsl.mlir import ir
from nvdsl.sim import numbers
from nvdsl.sim.clocks import ALL_LANES
from nvdsl.sim.decode import Decoder, Frame, op, unknown
from nvdsl.sim.dialects.arith import unary
from nvdsl.sim.dialects.gpu import IDS, shuffle_source
from nvdsl.sim.dialects.masked import masked
from nvdsl.sim.dialects.math import rounded
from nvdsl.sim.lanes import indices, mask_of
from nvdsl.sim.moved import Moved
from nvdsl.sim.registers import Struct
from nvdsl.sim.report import error
from nvdsl.sim.undefined import Absent
from nvdsl.sim.values import LANES, element, lanes

_U64 = (1 << 64) - 1

# --- lanes


@op("nvvm.bar.warp.sync")
def _warp_sync(d: Decoder, op: Any) -> Any:
    (mask,) = d.operands(op)
    return masked(d, op, mask, [], lambda v, named, values: None)


@op("nvvm.shfl.sync")
def _shfl(d: Decoder, op: Any) -> Any:
    mask, value, offset, clamp = d.named(op, "thread_mask", "val", "offset", "mask_and_clamp")
    r, at = d.result(op), where(op)
    kind = {"bfly": "xor", "idx": "idx", "up": "up", "down": "down"}[word(op, "kind")]
    with_predicate = str(op.results[0].type).startswith("!llvm.struct")
    moved = Moved(d, [(r, 0) if with_predicate else r], [named(op).val])

    def finish(v: Frame, named: int, values: list[Any]) -> None:
        w, (x, by) = v[0], values
        if v[clamp] not in (31, 0):
            raise error("unknown-op", "shfl.sync of parts of a warp", at)
        source = shuffle_source(w, kind, by, LANES)
        inside = (source >= 0) & (source < LANES)
        source = np.where(inside, source, w.lane)
        absent = w.mask & ~(mask_of(named) & w.launched)[source] if named != ALL_LANES and w.machine.checks else None
        if absent is not None and absent.any():
            lane = int(np.flatnonzero(absent)[0])
            w.undefined = Absent(lane, int(source[lane]), at)
        if w.undefined:
            moved.between_lanes(v, source, absent)
        if not isinstance(x, np.ndarray):
            y = x
        elif kind == "idx" and by.__class__ is int:
            y = x[source[0]]
            y = y if x.dtype.kind == "f" else y.item()
        else:
            y = x[source]
        v[r] = Struct([y, inside]) if with_predicate else y

    return masked(d, op, mask, [value, offset], finish, "." + word(op, "kind"))


@op("nvvm.vote.sync")
def _vote(d: Decoder, op: Any) -> Any:
    mask, condition = d.named(op, "mask", "pred")
    r, kind = d.result(op), word(op, "kind")

    def finish(v: Frame, named: int, values: list[Any]) -> None:
        there = mask_of(named)
        held = np.broadcast_to(np.asarray(values[0], np.bool_), (LANES,)) & there
        if kind == "any":
            v[r] = bool(held.any())
        elif kind == "all":
            v[r] = bool((held == there).all())
        elif kind == "uni":
            v[r] = bool((held == there).all() or not held.any())
        else:
            bits = indices(held)[1]
            v[r] = bits - (1 << 32) if bits >= 1 << 31 else bits

    return masked(d, op, mask, [condition], finish, "." + kind)


@op("nvvm.elect.sync")
def _elect(d: Decoder, op: Any) -> Any:
    (mask,), r = d.named(op, "membermask"), d.result(op)

    def finish(v: Frame, named: int, values: list[Any]) -> None:
        elected = np.zeros(LANES, np.bool_)
        elected[(named & -named).bit_length() - 1] = True
        v[r] = elected

    return masked(d, op, mask, [], finish)


_REDUX: dict[str, Any] = {
    "add": np.add, "min": np.minimum, "max": np.maximum, "umin": np.minimum, "umax": np.maximum,
    "and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor,
}  # fmt: skip


@op("nvvm.redux.sync")
def _redux(d: Decoder, op: Any) -> Any:
    value, mask = d.named(op, "val", "mask_and_clamp")
    r, kind = d.result(op), word(op, "kind")
    if kind not in _REDUX:
        raise unknown(op, f"redux {kind}")
    moved = Moved(d, [r], [named(op).val])

    def finish(v: Frame, named: int, values: list[Any]) -> None:
        x = lanes(values[0], element("i32"))[mask_of(named)]
        x = x.view(np.uint32) if kind.startswith("u") else x
        if v[0].undefined:
            moved.into_all(v)
        v[r] = int(np.asarray(_REDUX[kind].reduce(x)).astype(np.uint32).view(np.int32))

    return masked(d, op, mask, [value], finish, "." + kind)


# --- special registers

for _register, _name in (("tid", "gpu.thread_id"), ("ctaid", "gpu.block_id"), ("ntid", "gpu.block_dim"),
                         ("nctaid", "gpu.grid_dim"), ("clusterid", "gpu.cluster_id"),
                         ("cluster.ctaid", "gpu.cluster_block_id"),
                         ("cluster.nctaid", "gpu.cluster_dim_blocks")):  # fmt: skip
    for _i, _axis in enumerate("xyz"):

        def _special(d: Decoder, op: Any, read: Any = IDS[_name], axis: int = _i) -> Any:
            r = d.result(op)

            def step(v: Frame) -> None:
                x = read(v[0])[axis]
                v[r] = x.astype(np.int32) if isinstance(x, np.ndarray) else x

            return step

        op(f"nvvm.read.ptx.sreg.{_register}.{_axis}")(_special)


@op("nvvm.read.ptx.sreg.laneid")
def _laneid(d: Decoder, op: Any) -> Any:
    r = d.result(op)

    def step(v: Frame) -> None:
        v[r] = v[0].lane

    return step


@op("nvvm.read.ptx.sreg.cluster.ctarank")
def _ctarank(d: Decoder, op: Any) -> Any:
    r = d.result(op)

    def step(v: Frame) -> None:
        v[r] = v[0].block.rank

    return step


@op("nvvm.read.ptx.sreg.clock64", "nvvm.read.ptx.sreg.globaltimer")
def _clock(d: Decoder, op: Any) -> Any:
    r = d.result(op)

    def step(v: Frame) -> None:
        v[r] = v[0].machine.read_clock()

    return step


# --- conversions and approximations

for _name, _f in (("ex2", np.exp2), ("log2", np.log2), ("sin", np.sin), ("cos", np.cos),
                  ("rcp.approx.ftz.f", lambda x: 1 / x)):  # fmt: skip
    op(f"nvvm.{_name}")(functools.partial(unary, f=rounded(_f)))


@op("nvvm.convert.float.to.tf32")
def _to_tf32(d: Decoder, op: Any) -> Any:
    def f(x: Any) -> Any:
        r = numbers.convert(np.asarray(x), "tf32").view(np.int32)
        return r if r.ndim else r.item()

    return unary(d, op, f)


@op("nvvm.convert.f32x2.to.f8x2", "nvvm.convert.f32x2.to.f16x2", "nvvm.convert.f32x2.to.bf16x2")
def _narrowed(d: Decoder, op: Any) -> Any:
    """Two floats, the first one as the high element of a pair: a vector, or (f8x2) one word."""
    high, low = d.operands(op)[:2]
    r = d.result(op)
    is_word = not isinstance(op.results[0].type, ir.VectorType)
    kind = str(named(op).dstTy) if "f8x2" in op.name else "bf16" if "bf16" in op.name else "f16"
    bits = element(op.results[0].type).dtype

    def step(v: Frame) -> None:
        first, second = (numbers.convert(np.asarray(v[s]), kind) for s in (low, high))
        pair = np.empty((2, max(first.size, second.size)), first.dtype)
        pair[0], pair[1] = first, second
        if is_word:
            word = np.ascontiguousarray(pair.T).view(bits)[:, 0]
            v[r] = word if len(word) > 1 else word[0].item()
        else:
            v[r] = pair.view(bits)

    return step


@op("nvvm.convert.f8x2.to.f16x2")
def _from_float8(d: Decoder, op: Any) -> Any:
    kind = numbers.dtype(str(named(op).srcType)).numpy
    return unary(d, op, lambda x: numbers.convert(np.ascontiguousarray(x).view(kind), "f16"))
