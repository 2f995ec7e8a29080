"""What an integer expression is in every thread of a cluster (or of one block), where the module determines it.

A value is a Python int where all threads have the same, an array with one element for each thread where they
differ, and None where it isn't known. Threads are numbered block by block, x fastest in each.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from nvdsl.hopper.arch import WARP_SIZE
from nvdsl.ir.operands import constant_value, integers, launch_sizes, named, word
from nvdsl.ir.walk import constant, defining, identity, yielded
from nvdsl.mlir import ir
from nvdsl.verify.evaluate import compute, fit

Known = Any  # int | np.ndarray | None
_AXES = ("x", "y", "z")


class Threads:
    """``block``, ``cluster``: threads of a block and blocks of a cluster along x, y, z."""

    def __init__(self, block: tuple[int, int, int], cluster: tuple[int, int, int]) -> None:
        self.per_block, self.blocks = int(np.prod(block)), int(np.prod(cluster))
        self.count = self.per_block * self.blocks
        lanes = np.arange(self.count)
        self.thread, self.rank = lanes % self.per_block, lanes // self.per_block
        ids: dict[str, Known] = {}
        for axis, (name, size, blocks) in enumerate(zip(_AXES, block, cluster, strict=True)):
            ids[f"thread {name}"] = self.thread // int(np.prod(block[:axis])) % size
            ids[f"block {name}"] = self.rank // int(np.prod(cluster[:axis])) % blocks
            ids[f"threads {name}"], ids[f"blocks {name}"] = size, blocks
        self._ids = {name: _plain(x) for name, x in ids.items()}
        self._memory: dict[tuple[int, bool], Known] = {}
        self.loops: dict[int, Any] = {}  # of `rounds`, by the loop's variable

    def of(self, value: Any, first: bool = False) -> Known:
        """``value`` in each thread; with ``first`` in the first round of every loop around it."""
        key = (identity(value), first)
        if key not in self._memory:
            self._memory[key] = None  # a loop-carried value that depends on itself
            self._memory[key] = self._find(value, first)
        return self._memory[key]

    def array(self, value: Known) -> Any:
        """The same with one element for each thread."""
        return value if isinstance(value, np.ndarray) else np.full(self.count, value)

    def truth(self, value: Any) -> tuple[Any, Any]:
        """Threads where the condition ``value`` may hold, and where it may not: both, where it isn't known."""
        known = self.of(value)
        if known is not None:
            holds = self.array(known) != 0
            return holds, ~holds
        op = defining(value)
        name = op.name if op is not None else ""
        if name in ("arith.andi", "arith.ori"):
            (t0, f0), (t1, f1) = (self.truth(x) for x in op.operands)  # type: ignore[union-attr]
            return (t0 & t1, f0 | f1) if name == "arith.andi" else (t0 | t1, f0 & f1)
        if name == "arith.xori" and np.all(self.of(op.operands[1]) == 1):  # type: ignore[union-attr]
            return self.truth(op.operands[0])[::-1]  # type: ignore[union-attr]
        if name in ("arith.select", "scf.if"):  # what `and` and `or` are traced to
            branches = list(op.operands)[1:] if name == "arith.select" else _yielded(op, value)  # type: ignore[union-attr]
            taken, not_taken = self.truth(op.operands[0])  # type: ignore[union-attr]
            (t0, f0), (t1, f1) = map(self.truth, branches)
            return taken & t0 | not_taken & t1, taken & f0 | not_taken & f1
        return np.ones(self.count, bool), np.ones(self.count, bool)

    def never(self, condition: Any) -> bool:
        """Whether ``condition`` is known to hold in no thread."""
        return not self.truth(condition)[0].any()

    def _find(self, value: Any, first: bool) -> Known:
        op = defining(value)
        if op is None:
            return self._argument(value, first)
        name = op.name
        if name == "arith.constant":
            known = constant_value(op)
            return None if known is None else fit(known, value)
        if name.startswith("arith."):
            return self._arithmetic(op, value, first)
        if name == "scf.if":
            condition = self.of(op.operands[0], first)
            if condition is None:
                return None
            return _choose(condition, *(self.of(x, first) for x in _yielded(op, value)))
        if name == "nvvm.shfl.sync":
            return self._shuffle(op, first)
        return self._special(op, name, first)

    def _arithmetic(self, op: Any, value: Any, first: bool) -> Known:
        operands = [self.of(operand, first) for operand in op.operands]
        if op.name == "arith.select" and operands[0] is not None:
            return _choose(*operands)
        if any(x is None for x in operands):
            return None
        result = compute(op, operands)
        return None if result is None else _plain(fit(result, value))

    def _shuffle(self, op: Any, first: bool) -> Known:
        value, lane = self.of(named(op).val, first), self.of(named(op).offset, first)
        if word(op, "kind") != "idx" or not isinstance(lane, int):
            return None
        if not isinstance(value, np.ndarray):
            return value
        source = np.arange(self.count) // WARP_SIZE * WARP_SIZE + lane % WARP_SIZE
        return _plain(value[np.minimum(source, self.count - 1)])

    def _special(self, op: Any, name: str, first: bool) -> Known:
        if name in ("gpu.thread_id", "gpu.block_dim", "gpu.cluster_block_id", "gpu.cluster_dim_blocks"):
            axis = word(op, "dimension")
            what = {"gpu.thread_id": "thread", "gpu.block_dim": "threads", "gpu.cluster_block_id": "block"}
            return self._ids[f"{what.get(name, 'blocks')} {axis}"]
        if name == "nvvm.read.ptx.sreg.cluster.ctarank":
            return _plain(self.rank)
        if name == "nvvm.elect.sync":  # one lane of each warp: which one doesn't matter
            return _plain((self.thread % WARP_SIZE == 0).astype(np.int64))
        if name in ("gpu.lane_id", "nvvm.read.ptx.sreg.laneid"):
            return _plain(self.thread % WARP_SIZE)
        return self._address(op, name, first)

    def _address(self, op: Any, name: str, first: bool) -> Known:
        """Addresses of shared memory count from where the block's dynamic memory begins."""
        if name == "memref.extract_aligned_pointer_as_index":
            source = defining(op.operands[0])
            if source is not None and source.name == "memref.view":
                return self.of(named(source).byte_shift, first)
            return 0 if source is not None and source.name == "gpu.dynamic_shared_memory" else None
        if name in ("llvm.inttoptr", "llvm.ptrtoint", "llvm.addrspacecast"):
            return self.of(op.operands[0], first)
        if name == "llvm.getelementptr" and str(op.attributes["elem_type"]) == "i8":
            base, offset = self.of(op.operands[0], first), integers(op, "rawConstantIndices")[0]
            step = self.of(op.operands[1], first) if len(op.operands) > 1 else offset
            return None if base is None or step is None else _plain(base + step)
        return None

    def _argument(self, value: Any, first: bool) -> Known:
        block = value.owner
        op, number = block.owner.operation, ir.BlockArgument(value).arg_number
        if op.name == "gpu.launch":
            names = [f"thread {a}" for a in _AXES], [f"threads {a}" for a in _AXES]
            at = {3: names[0], 9: names[1]}.get(number // 3 * 3)
            return self._ids[at[number % 3]] if at else None
        if op.name != "scf.for":
            return None
        if first:
            return self.of(op.operands[0 if number == 0 else 2 + number], True)
        return self._single_trip(op, number)

    def _single_trip(self, op: Any, number: int) -> Known:
        """A loop of one round has a known variable."""
        low, high, step = (self.of(op.operands[i]) for i in range(3))
        if number or not all(isinstance(x, int) for x in (low, high, step)) or not low < high <= low + step:
            return None
        return low


def _yielded(op: Any, value: Any) -> list[Any]:
    """What the two branches of an scf.if give for its result ``value``."""
    number = ir.OpResult(value).result_number
    return [yielded(region)[number] for region in op.regions]


def _choose(condition: Known, first: Known, second: Known) -> Known:
    if isinstance(condition, np.ndarray):
        return None if first is None or second is None else _plain(np.where(condition != 0, first, second))
    return first if condition else second


def _plain(x: Any) -> Known:
    """One int where all threads have the same."""
    if isinstance(x, np.ndarray) and len(x) and (x == x[0]).all():
        return int(x[0])
    return x


def of_launch(launch: Any) -> Threads | None:
    """The threads of a ``gpu.launch``, None where the host computes its sizes."""
    _, *sizes = launch_sizes(launch)
    block, cluster = ([constant(size) for size in one] or [1, 1, 1] for one in sizes)
    if None in block or None in cluster or len(cluster) != 3:
        return None
    return Threads(tuple(block), tuple(cluster))  # type: ignore[arg-type]


def ranges(lanes: Any) -> str:
    """Thread numbers in words: ``0-127, 256``."""
    numbers = np.flatnonzero(lanes)
    parts = np.split(numbers, np.flatnonzero(np.diff(numbers) != 1) + 1)
    shown = [str(p[0]) if len(p) == 1 else f"{p[0]}-{p[-1]}" for p in parts[:4]]
    return ", ".join(shown) + (", ..." if len(parts) > 4 else "")
