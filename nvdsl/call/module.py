"""Making the ir.Module of a host function: traced, then verified, in one MLIR context of the process."""

from __future__ import annotations

import collections
from collections.abc import Callable
from typing import Any

from nvdsl.call.specialize import HostArguments
from nvdsl.errors import TraceError
from nvdsl.ir import location
from nvdsl.ir.walk import walk
from nvdsl.mlir import ir, threads
from nvdsl.mlir.dialects import (
    arith,
    builtin,  # noqa: F401  (else MLIR imports it in the first trace: a Ctrl-C in the middle could not be made good)
    func,
)
from nvdsl.trace import limits
from nvdsl.trace.explain import explain
from nvdsl.trace.regions import discarding
from nvdsl.trace.watch import located

# A value that outlives its module is a dangling pointer inside MLIR, and using one ends the process. Whoever keeps
# a traced value too long (in a global list, say) shall get an error: so the latest modules stay alive.
_latest: collections.deque[Any] = collections.deque(maxlen=256)


class Traced:
    """A traced ``module`` that MLIR finds valid, and whose sizes fit, unless all is checked ``later``. `verified` does
    the rest of Hopper's rules."""

    def __init__(self, module: Any, later: bool = False) -> None:
        self.module = module
        self._others: Callable[[], None] | None = (lambda: _begin(module)()) if later else _begin(module)

    def verified(self) -> Any:
        """The module, checked the first time. Raises VerifyError with the user's line."""
        others, self._others = self._others, None
        if others is not None:
            with threads.mlir, context(), ir.Location.unknown():
                others()
        return self.module


def trace_function(name: str, specs: list[Any], body: Callable[[list[Any]], None], later: bool = False) -> Traced:
    """A module with ``func.func @name`` whose arguments have ``specs`` and whose body ``body`` traces. ``later``: see
    `Traced`."""
    with threads.mlir:
        try:
            return located(lambda: _traced(name, specs, body, later))
        except RecursionError as error:
            raise limits.recursion(error) or error from None
        except (TypeError, AttributeError, LookupError, ValueError, ArithmeticError, ir.MLIRError) as error:
            if (explained := explain(error)) is None:
                raise
            raise explained.with_traceback(error.__traceback__) from error


def _traced(name: str, specs: list[Any], body: Callable[[list[Any]], None], later: bool) -> Traced:
    with context(), location.tracebacks(), ir.Location.unknown():
        # Without the caller's line: a module does not depend on where it is called from, nor does its cubin.
        nowhere = ir.Location.unknown()
        module = ir.Module.create(nowhere)
        _latest.append(module)
        arguments = HostArguments(specs)
        with discarding(module), ir.InsertionPoint(module.body):
            function = func.FuncOp(name, (arguments.types, []), loc=nowhere)
            arguments.describe(function)
            with ir.InsertionPoint(function.add_entry_block()):
                body(arguments.values(function.arguments))
                func.ReturnOp([], loc=nowhere)
        return Traced(module, later)


def verify_module(module: Any) -> None:
    """MLIR's own verifier, then Hopper's rules. Raises VerifyError or TraceError with the user's line."""
    Traced(module).verified()


def _begin(module: Any) -> Callable[[], None]:
    """MLIR's own verifier, then those of Hopper's rules that are about sizes. What is returned checks the others."""
    from nvdsl import verify

    try:
        module.operation.verify()
    except ir.MLIRError as error:
        verify.tensor_maps.check(verify.Program(module))  # says more about a box that nvgpu refuses, too
        explained = _explain(error, module)
        _leave_other_modules(module)
        raise explained from None
    return verify.begin(module)


def _explain(error: Any, module: Any) -> TraceError:
    first = error.error_diagnostics[0]
    where = location.where(ir.Location.from_attr(first.location.attr))  # a diagnostic's own has no subclass
    message = first.message
    if "outside the region" in message:
        return TraceError(
            f"a traced value is used in a trace that did not make it ({message})",
            where=where,
            rule="a traced value lives as long as the trace of the call that made it",
            fix="don't keep traced values in globals or objects between calls; make them anew in the function",
        )
    if "dominate" in message and (names := _of_another_kernel(module)):
        return TraceError(
            f"a traced value of the kernel `{names[0]}` is used in the kernel `{names[1]}`",
            where=where,
            rule="a value lives in the threads of one launch; kernels hand data on in global memory",
            fix="make it anew in this kernel, or store it to an array: nv.empty(shape, dtype) in the host function",
        )
    if "dominate" in message:
        return TraceError(
            f"a traced value is used outside of the `if` or loop that made it ({message})",
            where=where,
            rule="a value made under traced control flow leaves it only through a variable that is assigned there",
            fix="assign it to a local variable that has a value before the `if` or loop",
        )
    return TraceError(f"the traced module is not valid: {message}", where=where, rule="MLIR's verifier")


def _leave_other_modules(module: Any) -> None:
    """Let the ops use another value in place of each that another module has: freed after that one, they would end the
    process. They stay, because the program may have kept what they made."""
    own = None
    for op in walk(module):
        for number, operand in enumerate(op.operands):
            if _root(operand) != module.operation:
                if own is None:
                    i32 = ir.IntegerType.get_signless(32)
                    own = arith.ConstantOp(i32, 0, ip=ir.InsertionPoint.at_block_begin(module.body)).result
                op.operands[number] = own


def _root(value: Any) -> Any:
    op = value.owner.owner if isinstance(value.owner, ir.Block) else value.owner
    while op.parent is not None:
        op = op.parent
    return op.operation


def _of_another_kernel(module: Any) -> tuple[str, str] | None:
    """The first use of a kernel's value in another one: both kernels' names."""
    for op in walk(module):
        user = _launch(op)
        for operand in op.operands if user is not None else ():
            owner = operand.owner
            maker = _launch(owner.owner if isinstance(owner, ir.Block) else owner)
            if maker is not None and maker != user:
                return tuple(launch.attributes["function"].value for launch in (maker, user))
    return None


def _launch(op: Any) -> Any:
    """The launch that an operation stands in."""
    op = op.operation
    while op is not None and op.name != "gpu.launch":
        op = op.parent
    return op


_context: Any = None


def context() -> Any:
    """The process's MLIR context, made at the first trace and entered only while tracing or lowering."""
    global _context
    with threads.mlir:
        if _context is None:
            made = ir.Context()
            made.enable_multithreading(False)  # a child process after `os.fork` would wait for threads it doesn't have
            _context = made
        return _context
