"""A traced module as the checks see it: each kernel's ops that matter, in order, found in one walk.

Most ops of a kernel are arithmetic that no rule asks about; what a rule needs of it is followed back from the ops that
matter (`Threads`, `Expressions`).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import Any

from nvdsl.ir.arith import DIVISIONS, SHIFTS
from nvdsl.verify import threads

_REGIONS = frozenset(
    ("scf.if", "scf.for", "scf.while", "scf.index_switch", "scf.parallel", "scf.forall", "scf.execute_region",
     "gpu.launch", "func.func", "gpu.module", "gpu.func", "memref.alloca_scope")
)  # fmt: skip
_BRANCHING = ("scf.if", "scf.index_switch")
_UNIMPORTANT = (
    "arith.", "llvm.insertvalue", "llvm.mlir", "llvm.getelementptr", "llvm.inttoptr", "math.",
    "memref.load", "memref.cast", "vector.from_elements", "gpu.thread_id", "gpu.block_id", "gpu.dynamic_shared_memory",
    "memref.extract_aligned",
)  # fmt: skip

_ASKED = frozenset((*DIVISIONS, *SHIFTS, "gpu.block_id"))

_RUN = "llvm.extractvalue"  # a struct's fields are taken one after the other: the first stands for all


class Node:
    """An op: ``order`` in the text of the module, the ``parent`` node whose ``region`` holds it."""

    __slots__ = ("_branches", "end", "name", "op", "order", "parent", "region")

    def __init__(self, op: Any, name: str, order: int, parent: Node | None, region: int) -> None:
        self.op, self.name, self.order, self.parent, self.region = op, name, order, parent, region
        self.end = order
        self._branches: dict[int, int] | None = None

    def ancestors(self) -> Iterator[tuple[Node, int]]:
        """(enclosing node, the number of its region that holds this one), innermost first, up to the launch."""
        node = self
        while node.parent is not None and node.name != "gpu.launch":
            yield node.parent, node.region
            node = node.parent

    @property
    def branches(self) -> dict[int, int]:
        """The region that this is in of each `if` around it, by the if's order."""
        if self._branches is None:
            self._branches = {p.order: region for p, region in self.ancestors() if p.name in _BRANCHING}
        return self._branches


class Program:
    """``kernels``: one for each gpu.launch. ``named[name]``: the nodes of the ops called that, host's and kernels'."""

    def __init__(self, module: Any) -> None:
        self.named: dict[str, list[Node]] = defaultdict(list)
        self.kernels: list[Kernel] = []
        self.contexts: dict[Kernel, Any] = {}  # see context.contexts
        self._order = 0
        self._skip: dict[str, bool] = {}
        self._visit(module.operation, None, None)

    def _visit(self, op: Any, parent: Node | None, kernel: Kernel | None) -> None:
        skip = self._skip
        for number, region in enumerate(op.regions):
            for block in region.blocks:
                source = 0
                for child in block.operations:
                    child = child.operation
                    name = child.name
                    self._order += 1
                    unimportant = skip.get(name)
                    if unimportant is None:
                        unimportant = skip[name] = name.startswith(_UNIMPORTANT) and name not in _ASKED
                    last, source = source, hash(child.operands[0]) if name == _RUN else 0
                    repeated = last == source != 0
                    if not unimportant and not repeated:
                        self._add(Node(child, name, self._order, parent, number), kernel)

    def _add(self, node: Node, kernel: Kernel | None) -> None:
        if node.name == "gpu.launch":
            kernel = Kernel(node)
            self.kernels.append(kernel)
        self.named[node.name].append(node)
        if kernel is not None:
            kernel.add(node)
        if node.name in _REGIONS:
            self._visit(node.op, node, kernel)
            node.end = self._order


class Kernel:
    """One gpu.launch. ``nodes`` in program order; ``threads`` is None where the host computes the block's size."""

    def __init__(self, launch: Node) -> None:
        self.launch = launch
        self.nodes: list[Node] = []
        self.named: dict[str, list[Node]] = defaultdict(list)
        self.threads = threads.of_launch(launch.op)
        self._by_op: dict[int, Node] = {}

    def add(self, node: Node) -> None:
        self.nodes.append(node)
        self.named[node.name].append(node)

    def find(self, *names: str) -> list[Node]:
        """The nodes called one of ``names``, in program order."""
        found = [node for name in names for node in self.named.get(name, ())]
        return sorted(found, key=lambda n: n.order) if len(names) > 1 else found

    def node(self, op: Any) -> Node | None:
        """The node of an op of this kernel, None for one that no rule asks about."""
        if not self._by_op:
            self._by_op = {hash(n.op): n for n in self.nodes}
        return self._by_op.get(hash(op.operation))


def exclusive(a: Node, b: Node) -> bool:
    """Whether the two are in different branches of one ``if``."""
    branches = b.branches
    return any(branches.get(order, region) != region for order, region in a.branches.items())


def between(nodes: list[Node], first: Node, last: Node) -> list[Node]:
    """Those of ``nodes`` that may run after ``first`` and before ``last``, which comes later in the text."""
    inside = (n for n in nodes if first.order < n.order < last.order)
    return [n for n in inside if not exclusive(n, first) and not exclusive(n, last)]
