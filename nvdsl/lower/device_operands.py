"""Debug mode: divisors and steps of loops that are known only when the kernel runs. A division by 0 goes on with any
number, a loop with a step of 0 goes on for ever; both stop the kernel here, as they do in the simulator."""

from __future__ import annotations

from typing import Any

from nvdsl.ir.arith import DIVISIONS, INTEGERS, PREDICATES
from nvdsl.ir.location import where
from nvdsl.ir.walk import constant, walk
from nvdsl.lower import debug_ptx
from nvdsl.lower.device_log import Site
from nvdsl.lower.kernels import Kernel
from nvdsl.lower.prepare import Kernels, functions, new
from nvdsl.lower.watchdog import add_site, to_i32, to_i64
from nvdsl.mlir import ir

LOOPS = ("scf.for",)


def check_operands(device: Any, kernels: Kernels, _: Any) -> None:
    """A division by 0, or of the smallest number by -1, stops the kernel; so does a loop whose step is not above 0."""
    for function, kernel in functions(device, kernels):
        for op in walk(function):
            with ir.InsertionPoint(op), op.location:
                if op.name in DIVISIONS and _is_integer(op.operands[1].type):
                    _check_division(op, kernel)
                elif op.name in LOOPS and constant(op.operands[2]) is None:
                    step = op.operands[2]
                    site = Site("loop-step", where(op), of=str(step.type))
                    _require(_compare("sgt", step, 0), kernel, site, step)


def _check_division(op: Any, kernel: Kernel) -> None:
    dividend, divisor = op.operands
    known = constant(divisor)
    holds = None if known else _compare("ne", divisor, 0)
    if INTEGERS[op.name].signed and known in (None, -1):
        least = -(1 << (64 if isinstance(divisor.type, ir.IndexType) else divisor.type.width) - 1)
        fits = _compare("ne", dividend, least)
        if known is None:
            fits = new("arith.ori", fits.type, fits, _compare("ne", divisor, -1))
        holds = fits if holds is None else new("arith.andi", fits.type, holds, fits)
    if holds is not None:
        _require(holds, kernel, Site("division", where(op), op.name, str(divisor.type)), dividend, divisor)


def _is_integer(type: Any) -> bool:
    return isinstance(type, ir.IndexType) or isinstance(type, ir.IntegerType) and type.width > 1


def _compare(predicate: str, value: Any, number: int) -> Any:
    chosen = ir.IntegerAttr.get(ir.IntegerType.get_signless(64), PREDICATES.index(predicate))
    compared = new("arith.constant", value.type, value=ir.IntegerAttr.get(value.type, number))
    return new("arith.cmpi", ir.IntegerType.get_signless(1), value, compared, predicate=chosen)


def _require(holds: Any, kernel: Kernel, site: Site, *values: Any) -> None:
    debug_ptx.emit(debug_ptx.require(add_site(kernel, site), len(values)), to_i32(holds), *map(to_i64, values))
