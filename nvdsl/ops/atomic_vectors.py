"""Atomics of neighbouring elements in one instruction.

PTX ISA, ``atom``: ``.f16x2``, ``.bf16x2``, ``.vec_16_bit``, ``.vec_32_bit``.
"""

from __future__ import annotations

from collections.abc import Sequence

from nvdsl.errors import trace_error
from nvdsl.mlir import ir
from nvdsl.mlir.dialects import llvm, vector
from nvdsl.ops import ptx
from nvdsl.ops.atomics import address_space, check_order, scope_of
from nvdsl.ops.pointer import GLOBAL, SHARED, SHARED_CLUSTER
from nvdsl.values import arith, dtypes
from nvdsl.values.dtypes import DType
from nvdsl.values.traced import Value, stored, wrap
from nvdsl.values.typing import Number, Pointer

_SPACES = {GLOBAL: "global", SHARED: "shared", SHARED_CLUSTER: "shared::cluster"}


def atomic_vector(
    kind: str,
    pointer: Pointer,
    values: Sequence[Number],
    dtype: DType,
    *,
    order: str = "relaxed",
    scope: str | None = None,
) -> list[Value]:
    """`atomic` of neighbouring elements from ``pointer`` on, in one instruction; each element is a step of its own.

    In global memory 2 or 4 f32 (add), and 2, 4 or 8 f16 or bf16 (add, min, max); in shared memory 2 f16 or bf16 (add).
    ``pointer`` is aligned to the vector's bytes. (PTX ISA, ``atom``, ``.vec_32_bit``, ``.vec_16_bit``, ``.f16x2``.)
    Returns what was there before.
    """
    count, space = len(values), address_space(pointer)
    check_order(f"atomic_{kind}", order)
    start = f"atom.{order}.{scope_of(f'atomic_{kind}', scope, pointer)}.{_SPACES[space]}.{kind}"
    is_half = dtype in (dtypes.f16, dtypes.bf16)
    _check(kind, count, dtype, is_half, space == GLOBAL)
    given = [stored(x, dtype) for x in values]
    letter = "r" if space == SHARED else "l"
    if is_half and kind == "add" and count == 2:
        pair = ir.VectorType.get([2], dtype.ir)
        text = f"{start}.noftz.{dtype.name}x2 $0, [$1], $2;"
        operands = [pointer, vector.from_elements(pair, given)]
        both = ptx.emit("atom", text, ["=r", letter, "r", "~{memory}"], operands, pair)
        return [wrap(arith.extract(both, dtype.ir, [i]), dtype) for i in range(2)]
    classes = [ptx.register_constraint(dtype.ir)] * count
    into, of = (", ".join(f"${first + i}" for i in range(count)) for first in (0, count + 1))
    text = f"{start}{'.noftz' if is_half else ''}.v{count}.{dtype.name} {{{into}}}, [${count}], {{{of}}};"
    constraints = [*(f"={c}" for c in classes), letter, *classes, "~{memory}"]
    struct = llvm.StructType.get_literal([dtype.ir] * count)
    return [wrap(x, dtype) for x in ptx.unpack(ptx.emit("atom", text, constraints, [pointer, *given], struct))]


def _check(kind: str, count: int, dtype: DType, is_half: bool, in_global: bool) -> None:
    fits = is_half and kind == "add" and count == 2
    if in_global and is_half:
        fits = kind in ("add", "min", "max") and count in (2, 4, 8)
    elif in_global:
        fits = dtype is dtypes.f32 and kind == "add" and count in (2, 4)
    if not fits:
        raise trace_error(
            f"atomic_{kind} of {count} {dtype.name} in {'global' if in_global else 'shared'} memory",
            rule="in global memory one instruction adds 2 or 4 f32, or adds 2, 4 or 8 f16 or bf16, or takes their "
            "minimum or maximum; in shared memory it adds 2 f16 or bf16 (PTX ISA, atom)",
            fix="take the elements one by one",
        )
