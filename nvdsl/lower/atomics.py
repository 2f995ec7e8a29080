"""Atomics of the llvm dialect as PTX: ``atom`` for an LLVM that drops orders and scopes, ``red`` under a predicate.

LLVM 22 and older write ``atom`` without .sem and .scope, which is relaxed at the scope of the GPU (PTX ISA, atom); for
compare-and-swap alone they write both.
"""

from __future__ import annotations

import functools
from typing import Any

from nvdsl.errors import LowerError
from nvdsl.ir.location import where
from nvdsl.ir.operands import integer, string
from nvdsl.ir.walk import find
from nvdsl.lower.prepare import Kernels, functions, new
from nvdsl.mlir import DEFAULT_PROVIDER, ir, passmanager, provider
from nvdsl.mlir.dialects import llvm
from nvdsl.ops.memory import SCOPES

SPACES = {"!llvm.ptr<1>": "global", "!llvm.ptr<3>": "shared", "!llvm.ptr<7>": "shared::cluster"}
REGISTERS = {"f16": "h", "bf16": "h", "i16": "h", "f32": "f", "i32": "r", "f64": "d", "i64": "l"}
"""Constraints of inline PTX."""

_RELAXED = 2  # of LLVM's AtomicOrdering
_ORDERS = {_RELAXED: "relaxed", 4: "acquire", 5: "release", 6: "acq_rel"}
_SCOPES = {name: ptx for ptx, name in SCOPES.items()} | {"": "sys"}
_OPERATIONS = {  # kind of LLVM's AtomicBinOp -> op, PTX's types by LLVM's
    "add": ("add", {"i32": "u32", "i64": "u64"}),
    "fadd": ("add", {"f32": "f32", "f64": "f64", "f16": "noftz.f16", "bf16": "noftz.bf16"}),
    "max": ("max", {"i32": "s32", "i64": "s64"}),
    "min": ("min", {"i32": "s32", "i64": "s64"}),
    "umax": ("max", {"i32": "u32", "i64": "u64"}),
    "umin": ("min", {"i32": "u32", "i64": "u64"}),
    "_and": ("and", {"i32": "b32", "i64": "b64"}),
    "_or": ("or", {"i32": "b32", "i64": "b64"}),
    "_xor": ("xor", {"i32": "b32", "i64": "b64"}),
    "uinc_wrap": ("inc", {"i32": "u32"}),
    "udec_wrap": ("dec", {"i32": "u32"}),
    "xchg": ("exch", {"i32": "b32", "i64": "b64", "f32": "b32", "f64": "b64"}),
}


def constraint(value: Any) -> str:
    """Of an operand of inline PTX."""
    return {**REGISTERS, "i1": "b", "!llvm.ptr<3>": "r"}.get(str(value.type), "l")


def reduction(op: Any) -> tuple[str, list[Any]] | None:
    """An ``llvm.atomicrmw`` without a result as ``red``, and its operands; None where PTX has none."""
    what = _words(op)
    if what is None or any(True for _ in op.results[0].uses):
        return None
    order, scope, space, kind, type = what
    if order not in ("relaxed", "release") or kind == "exch":
        return None
    return f"red.{order}.{scope}.{space}.{kind}.{type} [$0], $1;", list(op.operands)


def write_orders(device: Any, kernels: Kernels, _: Any) -> None:
    """Write an ``llvm.atomicrmw`` that is more than relaxed at the GPU's scope as inline PTX, if the LLVM in use would
    drop that. Raises LowerError for one that PTX has no single instruction for."""
    for function, _kernel in functions(device, kernels):
        for op in list(find(function, "llvm.atomicrmw")):
            if _is_ordered(op) and not _orders_are_written():
                _write(op)


def _write(op: Any) -> None:
    what = _words(op)
    if what is None:
        raise LowerError(
            "the NVPTX backend of the LLVM in use drops the order and the scope of llvm.atomicrmw",
            where=where(op),
            rule="LLVM 22 and older write atom without .sem and .scope, which is relaxed at the scope of the GPU (PTX "
            "ISA, atom)",
            fix="leave NVDSL_MLIR unset for bindings of LLVM 23; or use llvm.cmpxchg, or "
            'syncscope("device") monotonic between two llvm.fence',
        )
    order, scope, space, kind, type = what
    result = op.results[0]
    constraints = [f"={constraint(result)}", *map(constraint, op.operands), "~{memory}"]
    with ir.InsertionPoint(op), op.location:
        old = new(
            "llvm.inline_asm",
            result.type,
            *op.operands,
            asm_string=ir.StringAttr.get(f"atom.{order}.{scope}.{space}.{kind}.{type} $0, [$1], $2;"),
            constraints=ir.StringAttr.get(",".join(constraints)),
            has_side_effects=ir.UnitAttr.get(),
            asm_dialect=ir.IntegerAttr.get(ir.IntegerType.get_signless(64), 0),
        )
    result.replace_all_uses_with(old)
    op.erase()


def _words(op: Any) -> tuple[str, str, str, str, str] | None:
    """Order, scope, space, operation and type as PTX names them."""
    pointer, value = op.operands
    kind, types = _OPERATIONS.get(llvm.AtomicBinOp(integer(op, "bin_op")).name, ("", {}))
    order, scope = _ORDERS.get(integer(op, "ordering")), _SCOPES.get(string(op, "syncscope"))
    space, type = SPACES.get(str(pointer.type)), types.get(str(value.type))
    if order is None or scope is None or space is None or type is None:
        return None
    return order, scope, space, kind, type


def _is_ordered(op: Any) -> bool:
    return string(op, "syncscope") != "device" or integer(op, "ordering") > _RELAXED


def _orders_are_written() -> bool:
    """Whether the backend writes the order of an ``llvm.atomicrmw``. A context has to be current."""
    return provider == DEFAULT_PROVIDER or _llvm_writes_orders()


@functools.cache
def _llvm_writes_orders() -> bool:
    """The same, as LLVM itself shows: bindings don't say of which one they are. It takes 5 ms."""
    with ir.Location.unknown():
        module = ir.Module.parse("""gpu.module @m [#nvvm.target<chip = "sm_90a", features = "+ptx86">] {
            llvm.func @k(%p: !llvm.ptr<1>, %x: i32) attributes {gpu.kernel, nvvm.kernel} {
              %old = llvm.atomicrmw add %p, %x acq_rel : !llvm.ptr<1>, i32
              llvm.store %old, %p : i32, !llvm.ptr<1>
              llvm.return
            }
          }""")
        passmanager.PassManager.parse("builtin.module(gpu-module-to-binary{format=isa})").run(module.operation)
        return "acq_rel" in str(module)
