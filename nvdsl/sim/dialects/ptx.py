"""nvdsl's inline PTX, by the name that its registry gives it: wgmma with A in registers or scale-d in one; touch;
try_wait at cluster scope."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import numpy as np

from nvdsl.ir.location import where
from nvdsl.ir.operands import string
from nvdsl.ops import inline_ptx
from nvdsl.ops.ptx import ORDER
from nvdsl.sim import async_stores, phases, undefined
from nvdsl.sim.decode import Blocking, Decoder, Frame, op, unknown
from nvdsl.sim.descriptors import Source
from nvdsl.sim.dialects import fragments, nvvm_mma
from nvdsl.sim.dialects.atomic_vectors import atomic_vector
from nvdsl.sim.dialects.gpu import block_barrier
from nvdsl.sim.dialects.inline_ptx import user_ptx
from nvdsl.sim.registers import Struct
from nvdsl.sim.uniform import one_value
from nvdsl.sim.values import LANES
from nvdsl.sim.wgmma import state
from nvdsl.sim.wgmma_registers import Kind

_U64 = (1 << 64) - 1


@op("llvm.inline_asm")
def _inline_asm(d: Decoder, op: Any) -> Any:
    text = string(op, "asm_string")
    name = string(op, "nvdsl.ptx")
    if not text.strip():
        return _touch(d, op)
    if name == ORDER:
        return None
    if name == "wgmma":
        return _wgmma(d, op, text)
    if name == "mma":
        return nvvm_mma.inline(d, op, text)
    if name == "try_wait":
        address, parity, _ticks = d.operands(op)
        at = where(op)
        return Blocking(lambda v: phases.wait(v[0], v[address], v[parity], at))
    if name == "barrier_any":
        return _barrier_any(d, op)
    if name == "st_async":
        return _st_async(d, op)
    if name == "atom":
        return atomic_vector(d, op)
    if name == inline_ptx.NAME:
        return user_ptx(d, op)
    raise unknown(op, f"inline PTX: {text[:60]}")


def _barrier_any(d: Decoder, op: Any) -> Any:
    number, threads, condition = d.operands(op)
    at, r = where(op), d.result(op)

    def run(v: Frame) -> Iterator[Any]:
        w = v[0]
        which = int(one_value(v[number], w, at, "the barrier's number"))
        count = int(one_value(v[threads], w, at, "the barrier's thread count"))
        barrier = w.block.named_barrier(which)
        held = np.broadcast_to(np.asarray(v[condition]) != 0, (LANES,))
        generation = barrier.vote(any(bool(held[lane]) for lane in w.active_lanes()))
        yield from block_barrier(w, which, count, at)
        v[r] = int(barrier.votes[generation])

    return Blocking(run)


def _st_async(d: Decoder, op: Any) -> Any:
    address, *words, barrier = d.operands(op)
    bits = op.operands[1].type.width
    at, dtype = where(op), np.dtype(f"u{bits // 8}")

    def step(v: Frame) -> None:
        rows = np.stack([np.broadcast_to(np.asarray(v[word]).astype(dtype), (LANES,)) for word in words], axis=1)
        async_stores.start(v[0], v[address], rows.view(np.uint8), v[barrier], at)

    return step


def _touch(d: Decoder, op: Any) -> Any:
    """No instruction: the same registers."""
    if not len(op.results):
        return None
    if len(op.operands) == 1:  # a register, or a struct of several
        d.alias(op.results[0], op.operands[0])
        return None
    slots, r = d.operands(op), d.result(op)

    def step(v: Frame) -> None:
        mma = v[0].mma
        v[r] = Struct([v[s] for s in slots], mma.fences if mma is not None else 0)

    return step


_WGMMA = re.compile(
    r"wgmma\.mma_async\.sync\.aligned\.m64n(\d+)k\d+\.(\w+)\.(\w+)\.(\w+) "
    r"\{[^}]*\}, (\{[^}]*\}|\$\d+), \$\d+, (.*?);"
)


def _wgmma(d: Decoder, op: Any, text: str) -> Any:
    """The forms that nvvm.wgmma.mma_async lacks: A in registers, scale-d in a register."""
    match = _WGMMA.search(text)
    if match is None:
        raise unknown(op, "a wgmma that is written in another way")
    n, d_type, a_type, b_type, a_text, rest = match.groups()
    in_registers = a_text.startswith("{")
    numbers = [int(x) for x in rest.split(",")[1:]]
    scales = (numbers[0], numbers[1]) if len(numbers) >= 2 else (1, 1)
    transposed = numbers[2:]
    majors = ["mn" if t else "k" for t in transposed]
    a_major = majors[0] if len(majors) == 2 else "k"
    b_major = majors[-1] if majors else "k"
    types = {"s32": "i32"}
    kind = Kind(int(n), a_type, b_type, types.get(d_type, d_type), (a_major, b_major), scales, where(op))
    *registers, source = op.operands
    operands: list[Any] = [d.find(x) for x in registers]
    count = 4 if in_registers else 1
    fenced = not in_registers or fragments.is_fenced(op, registers[:4])
    remade = in_registers and fragments.is_remade(op, registers[:4])
    if in_registers:
        fragments.belong(d, registers[:4], kind)
    a_slots, b_slot, scale = operands[:count], operands[count], operands[count + 1]
    whole = d.slot(source)
    kind.sources = None if in_registers else Source(d, registers[0]), Source(d, registers[count])
    of_a = undefined.of_fragment(d.undefined, registers[:4]) if in_registers else None
    given = undefined.of_struct(d.undefined, source, kind)
    r = d.result(op)

    def step(v: Frame) -> None:
        w = v[0]
        before = v[whole]
        if not one_value(v[scale], w, kind.at, "scale-d"):
            before = None
        b = one_value(v[b_slot], w, kind.at, "the descriptor of B")
        if in_registers:
            if not fenced and w.machine.checks:
                raise fragments.unfenced(w, kind.at)
            if remade and w.machine.checks:
                fragments.check_remade(w, kind)
            a: Any = [v[s] for s in a_slots]
        else:
            a = one_value(v[a_slots[0]], w, kind.at, "the descriptor of A") & _U64
        mma, rows = state(w), None
        if w.undefined:
            rows = given.undefined(v) if before.__class__ is Struct else None
            if of_a is not None and (more := of_a.undefined(v)) is not None:
                rows = more if rows is None else rows | more
        v[r] = mma.issue(kind, a, b & _U64, before, rows)

    return step
