"""scf ops while their regions are being filled.

The result types of scf.if and scf.while are known only after their regions were traced. So the ops start out
without results, in their place; when all is known, the final op takes over their blocks.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Self

from nvdsl.mlir import ir
from nvdsl.values import arith

# Ops that may run where Python would not have evaluated them: no effect, no undefined behaviour, no poison.
# Not among them: division (by zero), shifts (by too much), float to integer conversion (out of range).
_HARMLESS = frozenset(
    f"arith.{name}"
    for name in """constant addi subi muli andi ori xori cmpi cmpf select minsi minui maxsi maxui
    extsi extui trunci index_cast index_castui addf subf mulf divf negf minnumf maxnumf minimumf maximumf
    extf truncf sitofp uitofp bitcast""".split()
) | frozenset(
    f"gpu.{name}"
    for name in """thread_id block_id block_dim grid_dim global_id lane_id subgroup_id num_subgroups
    subgroup_size cluster_id cluster_dim cluster_block_id cluster_dim_blocks""".split()
)


class Construct:
    """An op that is being built: the insertion point is in one of its blocks until the next is filled.

    As a context manager it takes the op back when an exception passes, so that who catches it finds the
    insertion point and the function's ops as they were: see `discard`.
    """

    traced = True

    def __init__(self) -> None:
        self.op: Any = None
        self._point: Any = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: Any, error: Any, traceback: Any) -> None:
        self.close()
        if kind is not None and self.op is not None:
            discard(self.op)

    def fill(self, block: Any) -> None:
        """What is traced from now on goes to the end of ``block``."""
        self.close()
        self._point = ir.InsertionPoint(block)
        self._point.__enter__()

    def close(self) -> None:
        """What is traced from now on goes where it went before this op."""
        if self._point is not None:
            point, self._point = self._point, None
            point.__exit__(None, None, None)

    def finish(self, name: str, operands: Sequence[Any], types: Sequence[Any], blocks: Sequence[Any]) -> Any:
        """Put the final op in the place of ``self.op``, one block a region (None: an empty region)."""
        self.close()
        old, self.op = self.op, None
        new = ir.Operation.create(
            name,
            results=types,
            operands=operands,
            regions=len(blocks),
            loc=old.location,
            ip=ir.InsertionPoint(old),
        )
        for region, block in zip(new.regions, blocks, strict=True):
            if block is not None:
                block.append_to(region)
        old.erase()
        return new


_DISCARDED = "nvdsl.discarded"
_module: ContextVar[Any] = ContextVar("nvdsl_traced_module")


@contextmanager
def discarding(module: Any) -> Iterator[None]:
    """Where a module is traced: it takes what is discarded, until the trace ends without an error."""
    token = _module.set(module)
    try:
        yield
    finally:
        _module.reset(token)
    for op in reversed(list(module.body.operations)):  # the innermost first: it uses what the others made
        if _DISCARDED in op.operation.attributes:
            op.operation.erase()


def discard(op: Any) -> None:
    """Take an op out of its function, but not out of its module: the program may have kept values that were made in
    it, and MLIR would read freed memory where another trace uses one."""
    op.operation.attributes[_DISCARDED] = ir.UnitAttr.get()
    op.move_after(_module.get().body.operations[0])  # in no time: a recursion without end discards thousands


def add_block(op: Any, region: int, types: Sequence[Any]) -> Any:
    """The block of a region, with arguments at the op's place in the source."""
    return op.regions[region].blocks.append(*types, arg_locs=[op.location] * len(types))


def add_yield(block: Any, values: Sequence[Any]) -> None:
    ir.Operation.create("scf.yield", operands=list(values), ip=ir.InsertionPoint(block))


def move_out(block: Any, op: Any) -> None:
    """Move the ops of ``block`` before ``op``, which holds it."""
    for inner in list(block.operations):
        inner.operation.move_before(op)


class Branching(Construct):
    """An scf.if on ``condition`` (i1)."""

    def __init__(self, condition: Any) -> None:
        super().__init__()
        self.condition = condition
        self.op = ir.Operation.create("scf.if", operands=[condition], regions=2)
        self.blocks = [region.blocks.append() for region in self.op.regions]

    def before_op(self) -> Any:
        """The insertion point before the op: what is built there is seen by both branches."""
        return ir.InsertionPoint(self.op)

    def join(self, pairs: Sequence[tuple[Any, Any]]) -> list[Any]:
        """Finish. The results are, pair by pair, the first value if the condition holds, else the second."""
        then, other = self.blocks
        if not pairs and not len(other.operations):
            other = None
        add_yield(then, [a for a, _ in pairs])
        if other is not None:
            add_yield(other, [b for _, b in pairs])
        types = [a.type for a, _ in pairs]
        return list(self.finish("scf.if", [self.condition], types, [then, other]).results)

    def select(self, pairs: Sequence[tuple[Any, Any]]) -> list[Any]:
        """As ``join``, but without a branch where all that the branches do may as well be done always."""
        if any(inner.operation.name not in _HARMLESS for block in self.blocks for inner in block.operations):
            return self.join(pairs)
        self.close()
        op, self.op = self.op, None
        for block in self.blocks:
            move_out(block, op)
        op.erase()
        return [arith.select(self.condition, a, b) for a, b in pairs]
