"""Places that surely wrap around: sums and products of block and thread ids, executed by all threads, that are no i32
in the last of them. No simulation is large enough to come there."""

from __future__ import annotations

from typing import Any

from nvdsl.errors import VerifyError
from nvdsl.ir.indices import SIGNS, Found, is_of_i32, is_place
from nvdsl.ir.linear import linear
from nvdsl.ir.location import where
from nvdsl.ir.ranges import largest
from nvdsl.ir.walk import defining, identity
from nvdsl.verify.program import Kernel, Program

_IDS = ("gpu.block_id", "gpu.thread_id")
_MOST = (1 << 31) - 1


def check(program: Program) -> None:
    places: Found = {}
    for kernel in program.kernels:
        for op, most in _beyond(kernel):
            if is_of_i32(op) and is_place(op, places):
                raise VerifyError(
                    f"a sum or product of ids is {most:,} in the last thread, beyond i32",
                    where=where(op),
                    rule="arithmetic of i32 wraps around, and this becomes an index, or is compared with one",
                    fix=f"compute in 64 bits, nv.i64(nv.block_id.x) {SIGNS[op.name]} y, or index an axis by each id: "
                    "x[row, col]",
                )


def _beyond(kernel: Kernel) -> Any:
    """(op, the largest number) of those that surely wrap around, with what is made of block ids."""
    todo, seen = [node.op.results[0] for node in kernel.find("gpu.block_id")], set()
    launch = kernel.launch.op
    while todo:
        for use in todo.pop(0).uses:
            op = use.owner.operation
            if op.name not in (*SIGNS, "arith.index_cast") or identity(op.results[0]) in seen or op.parent != launch:
                continue
            seen.add(identity(op.results[0]))
            todo.append(op.results[0])
            most = _attained(op.results[0]) if str(op.results[0].type) == "i32" else None
            if most is not None and most > _MOST:
                yield op, most


def _attained(value: Any) -> int | None:
    """The largest number that ``value`` is in some thread; None where that is not known."""
    known = linear(value)
    total = known.constant
    for term, count in known.terms.values():
        op = defining(term)
        most = largest(term) if count > 0 and op is not None and op.name in _IDS else None
        if most is None:
            return None
        total += count * most
    return total
