"""What a host function asks of its arguments: of numbers while it is traced, of traced extents at each call."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, overload

from nvdsl.errors import require as plain
from nvdsl.errors import trace_error
from nvdsl.mlir import ir
from nvdsl.mlir.dialects import cf
from nvdsl.values import scope
from nvdsl.values.extents import multiple_of
from nvdsl.values.traced import Value

if TYPE_CHECKING:
    from nvdsl.values.typing import Bool, Int

RULE, FIX = "nvdsl.rule", "nvdsl.fix"
"""Attributes of a host function's ``cf.assert``: the parts of the error that it raises."""


@overload
def cdiv(a: int, b: int) -> int: ...
@overload
def cdiv(a: Any, b: Any) -> Any: ...
def cdiv(a: Any, b: Any) -> Any:
    """The quotient ``a / b`` of two integers, Python's or traced, rounded up."""
    return -(-a // b)


def require(condition: Bool, message: str, *, rule: str = "", fix: str = "") -> None:
    """Raise ArgumentError with the line of the call unless ``condition`` holds.

    A traced ``condition``, of named extents and other arguments, is checked at each call, whose error adds the extents'
    values. In ``nvdsl/kernels`` the line is that of who calls the kernel. Raises TraceError for a traced condition in a
    kernel.
    """
    if not isinstance(condition, ir.Value):
        plain.require(condition, message, rule=rule, fix=fix)
        return
    scope.outside("nv.require of a traced condition", "`assert` checks in a kernel, in debug mode and the simulator")
    if str(condition.type) != "i1":
        raise trace_error(
            f"nv.require of a traced {condition.type}", rule="a requirement is a condition", fix="compare it: `x != 0`"
        )
    made = cf.assert_(condition, message)
    op = made if isinstance(made, ir.OpView) else ir.InsertionPoint.current.block.operations[-1]
    op.operation.attributes[RULE], op.operation.attributes[FIX] = ir.StringAttr.get(rule), ir.StringAttr.get(fix)


def require_multiples(**extents: tuple[Int, int]) -> None:
    """``require_multiples(M=(M, 128), N=(N, 128))``: each extent is a positive multiple of its tile's.

    Raises ArgumentError with the line of the call, naming every extent that is not. Named extents are checked at each
    call.
    """
    known = {name: (extent, tile) for name, (extent, tile) in extents.items() if isinstance(extent, int)}
    plain.require_multiples(**known)
    for name, (extent, tile) in extents.items():
        if not isinstance(extent, Value):
            continue
        holds = extent > 0
        if multiple_of(extent) % tile:
            holds = holds & (extent % tile == 0)
        require(
            holds,
            f"{name} is not a multiple of {tile}",
            rule="this kernel works on whole tiles",
            fix="pad the arrays, or choose tiles that divide them",
        )
