"""mma.sync: nvvm's op, and the inline PTX of the shapes that it lacks."""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from nvdsl.ir.operands import matrix_shape, named, word
from nvdsl.sim import mma
from nvdsl.sim.decode import Decoder, Frame, op, unknown
from nvdsl.sim.registers import Struct
from nvdsl.sim.values import LANES, element, lanes

_NAMES = {"s32": "i32"}


@op("nvvm.mma.sync")
def _mma(d: Decoder, op: Any) -> Any:
    view = named(op)
    operands = [list(group) for group in (view.operandA, view.operandB, view.operandC)]
    m, n, k = matrix_shape(op)
    implied = "f64" if str(operands[0][0].type) == "f64" else "f16"
    a, b = (word(op, f"multiplicand{one}PtxType") or implied for one in "AB")
    layouts = word(op, "layoutA"), word(op, "layoutB")
    if n != 8 or layouts != ("row", "col") or a in ("s4", "u4", "b1") or m == 8 and a == "f16":
        raise unknown(op, f"m{m}n{n}k{k} of {a}, {'.'.join(layouts)}")
    if word(op, "intOverflowBehavior") == "satfinite":
        raise unknown(op, "sums that don't wrap")
    sums = element(operands[2][0].type).name
    return step(d, op, mma.Mma(m, k, a, b, sums), operands)


_TEXT = re.compile(r"mma\.sync\.aligned\.m(\d+)n8k(\d+)\.row\.col\.(\w+)\.(\w+)\.(\w+)\.\w+ ")


def inline(d: Decoder, op: Any, text: str) -> Any:
    """Of an llvm.inline_asm with that text."""
    match = _TEXT.match(text)
    if match is None:
        raise unknown(op, "an mma.sync that is written in another way")
    m, k = int(match[1]), int(match[2])
    one = mma.Mma(m, k, match[4], match[5], _NAMES.get(match[3], match[3]))
    values = list(op.operands)
    sums = m // 4
    of_a = (len(values) - sums) * m // (m + 8)
    return step(d, op, one, [values[:of_a], values[of_a : len(values) - sums], values[len(values) - sums :]])


def step(d: Decoder, op: Any, one: mma.Mma, operands: list[list[Any]]) -> Any:
    """What a warp executes: registers to registers."""
    slots = [[d.slot(value) for value in group] for group in operands]
    kinds = [element(group[0].type) for group in operands]
    packed = one.d == "f16"
    r = d.result(op)

    def run(v: Frame) -> None:
        a, b, c = (_registers([v[s] for s in group], e) for group, e in zip(slots, kinds, strict=True))
        if packed:  # two values in a register
            c = np.moveaxis(c, -1, 1).reshape(-1, LANES)
        else:
            c = c[..., 0]
        found = mma.product(_words(a), _words(b), c, one, v[0].machine.options.exact)
        v[r] = Struct(np.ascontiguousarray(found.reshape(-1, 2, LANES)) if packed else found)

    return run


def _registers(values: list[Any], e: Any) -> Any:
    """[registers, lanes, elements of a vector]."""
    vectors = [x if np.ndim(x) == 2 else lanes(x, e)[None] for x in values]
    out = np.array([np.broadcast_to(x, (len(x), LANES)) for x in vectors], e.dtype)
    return np.ascontiguousarray(np.moveaxis(out, 1, -1))


def _words(registers: Any) -> Any:
    """The same as 32-bit words, or f64."""
    return registers[..., 0] if registers.shape[-1] == 1 else registers.view(np.int32)[..., 0]
