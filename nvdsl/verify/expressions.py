"""When two expressions of a kernel are equal, and which are the same in all threads.

Two roles of a kernel each walk round the same ring in a loop of their own: equal structure (bounds, first values,
what is yielded) counts as equal, so that an arrival in one loop meets the wait in the other.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from nvdsl.errors.records import dataclass
from nvdsl.ir.operands import word
from nvdsl.ir.walk import defining, identity, yielded
from nvdsl.mlir import ir
from nvdsl.verify.threads import Threads


@dataclass(frozen=True, eq=False)
class Structure:
    """What an expression is made of: words, numbers, other structures. `Expressions` makes one of each, so that they
    are compared by identity: written out, an expression that uses its parts twice would double with each step."""

    parts: tuple[Any, ...]

    def __getitem__(self, number: int) -> Any:
        return self.parts[number]


_PURE = ("arith.", "gpu.block_id", "gpu.grid_dim", "gpu.cluster_id")
_ATTRIBUTE = {"arith.cmpi": "predicate", "arith.cmpf": "predicate"}
_DEEP = 60
_UNIFORM_IN_BLOCK = ("gpu.block_id", "gpu.grid_dim", "gpu.cluster_id")
_OUTSIDE = ("gpu.launch", "func.func")


class Expressions:
    """Structure and uniformity of integer values in the kernel that ``threads`` runs."""

    def __init__(self, threads: Threads) -> None:
        self.threads = threads
        self._outermost: dict[tuple[int, int], Structure] = {}
        self._structures: dict[tuple[Any, ...], Structure] = {}
        self._uniform: dict[int, bool] = {}
        self._arrays: dict[bytes, int] = {}

    def _structure(self, *parts: Any) -> Structure:
        return self._structures.setdefault(parts, Structure(parts))

    def key(self, value: Any) -> Structure:
        """Equal for values that are equal wherever they are computed in the same round of equal loops."""
        return self._key(value, {}, {}, 0)

    def constant(self, number: int) -> Structure:
        """The key of values that are this number in all threads."""
        return self._structure("is", number)

    def loop_key(self, loop: Any) -> Structure:
        """Equal for loops of as many rounds."""
        if loop.name != "scf.for":
            return self._structure("loop", hash(loop))
        return self._structure("for", *(self.key(x) for x in list(loop.operands)[:3]))

    def varies(self, value: Any) -> bool:
        """Whether ``value`` is made from a variable of a loop, so that each round may have another."""
        return "iv" in _words(self.key(value)) or "carried" in _words(self.key(value))

    def _key(self, value: Any, names: dict[int, int], done: dict[tuple[int, int], Structure], depth: int) -> Structure:
        """``names``: numbers of the loop-carried values that this expression is within. It only grows, so that with its
        length a value is known by one key: ``done``; and within none by the key of `key`."""
        at = identity(value), len(names)
        known = done if names else self._outermost
        if at not in known:
            known[at] = self._structure(*self._parts(value, names, done, depth))
        return known[at]

    def _parts(
        self, value: Any, names: dict[int, int], done: dict[tuple[int, int], Structure], depth: int
    ) -> tuple[Any, ...]:
        known = self.threads.of(value)
        if isinstance(known, np.ndarray):
            return "threads", self._arrays.setdefault(known.tobytes(), len(self._arrays))
        if known is not None:
            return "is", known
        op = defining(value)
        if depth > _DEEP:
            return "value", identity(value)
        if op is None:
            return self._argument_parts(value, names, done, depth)
        if op.name.startswith(_PURE):
            read = _ATTRIBUTE.get(op.name, "" if op.name.startswith("arith.") else "dimension")
            attribute = word(op, read) if read else ""
            operands = (self._key(x, names, done, depth + 1) for x in op.operands)
            return op.name, attribute, str(value.type), *operands
        return "value", identity(value)

    def _argument_parts(
        self, value: Any, names: dict[int, int], done: dict[tuple[int, int], Structure], depth: int
    ) -> tuple[Any, ...]:
        block = value.owner
        op, number = block.owner.operation, ir.BlockArgument(value).arg_number
        if op.name != "scf.for":
            return "value", identity(value)
        if identity(value) in names:
            return "round before", names[identity(value)]
        if number == 0:
            return "iv", self.loop_key(op)
        names[identity(value)] = len(names)
        after = yielded(block.region)[number - 1]
        first = self._key(op.operands[2 + number], names, done, depth + 1)
        return "carried", self.loop_key(op), first, self._key(after, names, done, depth + 1)

    def uniform(self, value: Any) -> bool:
        """Whether all threads of a block that compute ``value`` together have the same."""
        found = self._uniform.get(identity(value))
        if found is None:
            self._uniform[identity(value)] = True  # of a loop-carried value: unless what it is made of isn't
            found = self._uniform[identity(value)] = self._is_uniform(value)
        return found

    def _is_uniform(self, value: Any) -> bool:
        known = self.threads.of(value)
        if known is not None:
            rows = self.threads.array(known).reshape(self.threads.blocks, -1)
            return bool((rows == rows[:, :1]).all())
        op = defining(value)
        if op is None:
            return self._is_uniform_argument(value)
        name = op.name
        if name in _UNIFORM_IN_BLOCK:
            return True
        if name.startswith("arith."):
            return all(self.uniform(x) for x in op.operands)
        if name == "scf.if":
            number = ir.OpResult(value).result_number
            yields = [yielded(region)[number] for region in op.regions]
            return all(self.uniform(x) for x in (op.operands[0], *yields))
        if name == "scf.for":
            return self.uniform(op.regions[0].blocks[0].arguments[1 + ir.OpResult(value).result_number])
        return _outside(op)

    def _is_uniform_argument(self, value: Any) -> bool:
        block = value.owner
        op, number = block.owner.operation, ir.BlockArgument(value).arg_number
        if op.name in _OUTSIDE:
            return op.name == "func.func" or number // 3 != 1
        if op.name != "scf.for" or not all(self.uniform(x) for x in list(op.operands)[:3]):
            return False
        if number == 0:
            return True
        after = yielded(block.region)[number - 1]
        return self.uniform(op.operands[2 + number]) and self.uniform(after)


def _outside(op: Any) -> bool:
    """The host's values are every thread's."""
    parent = op.block.owner.operation
    while parent.name.startswith("scf."):
        parent = parent.block.owner.operation
    return bool(parent.name == "func.func")


def _words(key: Structure) -> set[str]:
    found: set[str] = set()
    seen, pending = {key}, [key]
    while pending:
        for part in pending.pop().parts:
            if isinstance(part, Structure) and part not in seen:
                seen.add(part)
                pending.append(part)
            elif isinstance(part, str):
                found.add(part)
    return found
