"""llvm: structs of registers, intrinsics, nvdsl's inline PTX. Arithmetic is in `arith`, pointers in `llvm_memory`."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from typing import Any

import numpy as np

from nvdsl.mlir import ir
from nvdsl.sim.decode import Decoder, Frame, identity, maker, op, unknown
from nvdsl.sim.dialects.arith import binary, fma, unary
from nvdsl.sim.dialects.math import FUNCTIONS, rounded
from nvdsl.sim.report import error
from nvdsl.sim.values import element
from nvdsl.sim.wgmma import Accumulator, Kind, Struct, read_warp_registers, state
from nvdsl.trace.location import where


@op("llvm.mlir.undef", "llvm.mlir.poison", "llvm.mlir.zero", "llvm.mlir.none", "ub.poison")
def _undefined(d: Decoder, op: Any) -> Any:
    """A struct is made anew each time, since insertvalue may write into it; registers are None until written."""
    type = str(op.results[0].type)
    if not type.startswith("!llvm.struct"):
        value = None
        if op.name == "llvm.mlir.zero" or not type.startswith(("!", "vector")):
            value = element(op.results[0].type).dtype.type(0) if element(type).is_float else 0
        d.define(op.results[0], value)
        return None
    r = d.result(op)
    make = _maker(op.results[0].type)

    def step(v: Frame) -> None:
        v[r] = make()

    return step


def _maker(type: Any) -> Any:
    if not str(type).startswith("!llvm.struct"):
        return lambda: None
    from nvdsl.mlir.dialects import llvm

    parts = [_maker(part) for part in llvm.StructType(type).body]
    return lambda: Struct([part() for part in parts])


@op("llvm.insertvalue")
def _insertvalue(d: Decoder, op: Any) -> Any:
    """In place where the struct has no other use."""
    target, value = d.operands(op)
    r = d.result(op)
    path = list(ir.DenseI64ArrayAttr(op.attributes["position"]))
    source = maker(op.operands[0])
    owned = (
        source is not None
        and len(path) == 1
        and source.name in ("llvm.insertvalue", "llvm.mlir.undef", "llvm.mlir.poison")
        and len(list(source.results[0].uses)) == 1
        and source.block == op.block
    )
    last, at = path[-1], where(op)

    def step(v: Frame) -> None:
        s = v[target]
        if not owned:
            s = v[r] = _copied(s, len(path), at)
            for i in path[:-1]:
                s[i] = s = read_warp_registers(s[i], at) if s[i].__class__ is Accumulator else s[i]
        else:
            v[r] = s
        s[last] = v[value]
        mma = v[0].mma
        s.stamp = mma.fences if mma is not None else 0

    return step


def _copied(s: Any, depth: int, at: Any) -> Any:
    s = read_warp_registers(s, at)
    if depth == 1:
        return Struct(s, s.stamp)
    return Struct([_copied(x, depth - 1, at) if isinstance(x, list) else x for x in s], s.stamp)


@op("llvm.extractvalue")
def _extractvalue(d: Decoder, op: Any) -> Any:
    if _only_touched(d, op):
        d.define(op.results[0])
        return None
    (a,) = d.operands(op)
    r = d.result(op)
    at = where(op)
    path = list(ir.DenseI64ArrayAttr(op.attributes["position"]))
    if len(path) == 1:
        i = path[0]

        def step(v: Frame) -> None:
            s = v[a]
            v[r] = s.registers(at)[i] if s.__class__ is Accumulator else s[i]

        return step

    def deep(v: Frame) -> None:
        s = v[a]
        for i in path:
            s = s.registers(at)[i] if s.__class__ is Accumulator else s[i]
        v[r] = s

    return deep


def _is_asm(op: Any) -> bool:
    return op.name == "llvm.inline_asm"


def _only_touched(d: Decoder, op: Any) -> bool:
    """Whether a register is taken out of a struct only to go through inline PTX that takes the whole struct."""
    users = [use.owner.operation for use in op.results[0].uses]
    return bool(users) and all(_is_asm(user) and _whole_struct(d, user) is not None for user in users)


def _whole_struct(d: Decoder, asm: Any) -> Any:
    """The struct of which an inline_asm's tied operands, its last ones, are all the registers in order."""
    if not len(asm.results):
        return None
    key = identity(asm.results[0])
    if key not in d.structs:
        d.structs[key] = _find_struct(asm)
    return d.structs[key]


def _find_struct(asm: Any) -> Any:
    tied = re.findall(r"(?:^|,)(\d+)(?=,|$)", ir.StringAttr(asm.attributes["constraints"]).value)
    operands = list(asm.operands)
    if not tied or len(tied) > len(operands):
        return None
    source = None
    for i, value in enumerate(operands[len(operands) - len(tied) :]):
        owner = maker(value)
        if owner is None or owner.name != "llvm.extractvalue":
            return None
        if list(ir.DenseI64ArrayAttr(owner.attributes["position"])) != [i]:
            return None
        if source is not None and identity(owner.operands[0]) != identity(source):
            return None
        source = owner.operands[0]
    return source


@op("llvm.inline_asm")
def _inline_asm(d: Decoder, op: Any) -> Any:
    text = ir.StringAttr(op.attributes["asm_string"]).value
    name = ir.StringAttr(op.attributes["nvdsl.ptx"]).value if "nvdsl.ptx" in op.attributes else ""
    if not text.strip():
        return _touch(d, op)
    if name == "wgmma":
        return _wgmma(d, op, text)
    if name == "tanh.approx":
        return unary(d, op, rounded(np.tanh))
    raise unknown(op, f"inline PTX: {text[:60]}")


def _touch(d: Decoder, op: Any) -> Any:
    """No instruction: the same registers."""
    source = _whole_struct(d, op)
    if source is not None:
        d.alias(op.results[0], source)
        return None
    slots = d.operands(op)
    if not len(op.results):
        return None
    r = d.result(op)

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
    operands: list[Any] = [d.find(x) for x in op.operands]
    count = 4 if in_registers else 1
    a_slots, b_slot, scale = operands[:count], operands[count], operands[count + 1]
    source = _whole_struct(d, op)
    whole = d.slot(source) if source is not None else None
    rest_slots = operands[count + 2 :]
    r = d.result(op)

    def step(v: Frame) -> None:
        w = v[0]
        before = v[whole] if whole is not None else Struct([v[s] for s in rest_slots], state(w).fences)
        if not one_value(v[scale], w, kind.at, "scale-d"):
            before = None
        b = one_value(v[b_slot], w, kind.at, "the descriptor of B")
        if in_registers:
            a: Any = [v[s] for s in a_slots]
        else:
            a = one_value(v[a_slots[0]], w, kind.at, "the descriptor of A") & _U64
        v[r] = state(w).issue(kind, a, b & _U64, before)

    return step


_U64 = (1 << 64) - 1


def one_value(x: Any, w: Any, at: Any, what: str) -> Any:
    """A value that all lanes must agree on."""
    if x.__class__ is not np.ndarray:
        return x
    active = x if w.active is None else x[w.active]
    if (active != active[0]).any():
        raise error("not-uniform", f"{what} differs between the lanes of {w.name}", at,
                    "operands of a warp's instruction are the same in all its lanes")  # fmt: skip
    return active[0].item()


# --- intrinsics

_INTRINSICS: dict[str, Callable[[Any], Any]] = {
    "llvm.sqrt": np.sqrt, "llvm.fabs": np.abs, "llvm.floor": np.floor, "llvm.ceil": np.ceil, "llvm.trunc": np.trunc,
    "llvm.roundeven": np.rint, "llvm.rint": np.rint, "llvm.nearbyint": np.rint, "llvm.round": FUNCTIONS["round"],
    "llvm.tanh": np.tanh, "llvm.exp2": np.exp2, "llvm.exp": np.exp, "llvm.log2": np.log2, "llvm.log": np.log,
    "llvm.sin": np.sin, "llvm.cos": np.cos, "llvm.nvvm.rsqrt.approx.f": lambda x: 1 / np.sqrt(x),
    "llvm.nvvm.rsqrt.approx.ftz.f": lambda x: 1 / np.sqrt(x), "llvm.nvvm.sqrt.approx.ftz.f": np.sqrt,
    "llvm.nvvm.sqrt.approx.f": np.sqrt,
}  # fmt: skip


@op("llvm.call_intrinsic")
def _call_intrinsic(d: Decoder, op: Any) -> Any:
    name = ir.StringAttr(op.attributes["intrin"]).value
    short = name if name in _INTRINSICS else re.sub(r"\.v?\d*[fi]?\d+$", "", name)
    if short in _INTRINSICS:
        return unary(d, op, rounded(_INTRINSICS[short]))
    if short == "llvm.fma":
        a, b, c = d.operands(op)
        r = d.result(op)

        def step(v: Frame) -> None:
            v[r] = fma(v[a], v[b], v[c])

        return step
    if short in ("llvm.copysign", "llvm.minnum", "llvm.maxnum", "llvm.pow"):
        f = {"llvm.copysign": np.copysign, "llvm.minnum": np.fmin, "llvm.maxnum": np.fmax, "llvm.pow": np.power}[short]
        return binary(d, op, f)
    raise unknown(op, f"the intrinsic {name}")


for _name, _f in (("fabs", np.abs), ("sqrt", np.sqrt), ("exp2", np.exp2), ("floor", np.floor), ("ceil", np.ceil),
                  ("trunc", np.trunc), ("roundeven", np.rint), ("rint", np.rint)):  # fmt: skip
    op(f"llvm.intr.{_name}")(functools.partial(unary, f=rounded(_f)))


@op("llvm.freeze")
def _freeze(d: Decoder, op: Any) -> None:
    d.alias(op.results[0], op.operands[0])


