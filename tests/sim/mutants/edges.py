"""The right line: which lines a report of a mutant may name.

A report is right when it names the line of the op that was changed, or the line of an op of the same *edge*: the ops
that the changed one synchronizes. Mechanically, in the correct kernel:

- of an mbarrier: all ops on the same group of barriers; what touches the bytes that copies bring on it; and the
  accesses right after a wait for it and right before an arrival on it;
- of a barrier: the accesses (and mbarrier ops) right after and right before it, and other barriers of the same number;
- of a wgmma's fence, commit or wait: the wgmmas, what reads their accumulators, what touches their operands' bytes;
- of a copy or a tensor map: what touches the bytes it writes or reads, and the edge of the barrier it completes on;
- of a cp.async, its commit or its wait: all of these, and what touches the bytes that they write;
- of any of these, and of an index: where sums are used that wgmmas make of these bytes;
- of a fence.proxy or a bulk group: the accesses around it and what touches their bytes;
- of an atomic access that acquires or releases: all of these, the loops that ask for them, the accesses around them and
  around the barriers next to them, and additions, which come in turn;
- of a sync_warp, a shuffle or a memory barrier: the accesses around it; of a branch that one thread takes: all that
  is in it, with their edges; of griddepcontrol: the accesses of all launches; of an index: what touches the same bytes;
- of a number that is computed: the edges of the ops that use it.

"Right after" reaches to the next op that waits, round a loop's end once; "right before" to the one before. (Around a
sync_warp that is one at which the warp's lanes meet again.) Which bytes a line touches is taken from a run of the
correct kernel.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from nvdsl.ir.operands import string
from nvdsl.ir.walk import walk
from nvdsl.mlir import ir
from tests.sim.mutants.module import carried, is_wgmma_asm, line_of, segments
from tests.sim.mutants.orders import address
from tests.sim.mutants.touched import Line
from tests.sim.mutants.values import ordering

_ACQUIRES = (
    "nvgpu.mbarrier.try_wait.parity", "gpu.barrier", "nvvm.barrier", "nvvm.wgmma.wait.group.sync.aligned",
    "nvvm.cp.async.bulk.wait_group", "nvvm.cp.async.wait.group", "nvvm.cluster.wait", "nvvm.mbarrier.test.wait",
    "nvvm.mbarrier.try_wait",
)  # fmt: skip
_MEETINGS = ("gpu.barrier", "nvvm.barrier", "nvvm.bar.warp.sync")
_RELEASES = (
    "nvgpu.mbarrier.arrive", "nvgpu.mbarrier.arrive.expect_tx", "nvvm.mbarrier.arrive",
    "nvvm.mbarrier.arrive.expect_tx", "nvvm.cluster.arrive", "nvvm.barrier.arrive",
)  # fmt: skip
_ATOMICS = ("llvm.load", "llvm.store", "llvm.atomicrmw", "llvm.cmpxchg")
_ORDERS = ("nvvm.bar.warp.sync", "nvvm.shfl.sync", "nvvm.vote.sync")
_ORDINARY = ("memref.load", "memref.store", "vector.load", "vector.store", *_ATOMICS, "nvvm.setmaxregister")
_ADDRESS = {
    "memref.load": 0, "vector.load": 0, "llvm.load": 0, "nvvm.ldmatrix": 0, "nvvm.stmatrix": 0,
    "nvgpu.device_async_copy": 0, "memref.store": 1, "vector.store": 1, "llvm.store": 1,
}  # fmt: skip
"""Accesses whose address is computed, and the first operand that belongs to it."""
_PROXY = ("nvvm.fence.proxy",)
_BULK = (
    "nvgpu.tma.async.store", "nvvm.cp.async.bulk.tensor.global.shared.cta", "nvvm.cp.async.bulk.tensor.reduce",
    "nvvm.cp.async.bulk.global.shared.cta",
)  # fmt: skip
_BULK_SYNC = ("nvvm.cp.async.bulk.commit.group", "nvvm.cp.async.bulk.wait_group")
_WGMMA_SYNC = ("nvvm.wgmma.fence.aligned", "nvvm.wgmma.commit.group.sync.aligned", "nvvm.wgmma.wait.group.sync.aligned")
_WGMMA = ("nvvm.wgmma.mma_async", "nvgpu.warpgroup.mma", "nvgpu.warpgroup.mma.store")
_COPIES = ("nvgpu.device_async_copy", "nvvm.cp.async.commit.group", "nvvm.cp.async.wait.group")
_SYNC = (*_ACQUIRES, *_RELEASES, *_PROXY, *_ORDERS, *_BULK_SYNC, *_WGMMA_SYNC)
_STOPS = (*_ACQUIRES, "nvvm.wgmma.fence.aligned")


class Edges:
    """The edges of a correct kernel. ``touched``: see `touched.recorded`."""

    def __init__(self, module: Any, touched: dict[Line, int]) -> None:
        self.ops = walk(module.operation)
        self._touched = touched
        self._groups: dict[int, set[int]] = {}  # of each op, by number: the groups of mbarriers that it uses
        self._number = {_key(op): i for i, op in enumerate(self.ops)}
        self._known: dict[int, frozenset[Line]] = {}
        for i, op in enumerate(self.ops):
            if op.name == "nvgpu.mbarrier.create":
                for user in self._users(op.results[0], pointers=True):
                    self._groups.setdefault(self._number[_key(user)], set()).add(i)
        self._accumulators = self._reads_of_wgmma()

    def lines(self, number: int) -> frozenset[Line]:
        """The right lines for a change of op ``number``."""
        if number not in self._known:
            self._known[number] = frozenset()  # while it is asked for: a loop's values go round
            self._known[number] = frozenset(line for line in self._edge(self.ops[number], number) if line)
        return self._known[number]

    def _edge(self, op: Any, number: int) -> set[Line | None]:
        found = {line_of(op)}
        if number in self._groups:
            return found | self._of_barriers(self._groups[number], op)
        if op.name in _WGMMA_SYNC or op.name in _WGMMA:
            return found | self._of_wgmma()
        if op.name in _COPIES:
            lines = {line_of(one) for one in self.ops if one.name in _COPIES}
            return found | lines | self._with_sums(self._overlapping(lines))
        if op.name in _BULK or op.name in _BULK_SYNC:
            return found | self._of_bulk()
        if op.name == "nvvm.memory.barrier" or (op.name in _ATOMICS and ordering(op)):
            return found | self._of_atomics()
        if op.name == "nvvm.griddepcontrol":  # the accesses of both launches
            return found | {line_of(one) for one in self.ops if one.name in (*_ORDINARY, *_BULK)}
        if op.name == "scf.if":  # by one thread or by all
            inner = [one for one in walk(op) if one != op and (self._counts(one) or one.name in _SYNC)]
            return found.union(*({line_of(one)} | self.lines(self._number[_key(one)]) for one in inner))
        if op.name == "nvvm.elect.sync":
            return found.union(*(self.lines(self._number[_key(user)]) for user in self._users(op.results[0], False)))
        if "nvdsl.bounds" in op.attributes:
            for one in filter(None, (address(op, i) for i in range(len(op.operands)))):
                found |= self.lines(self._number[_key(one[0])]) | self._with(one[0])
            return found | self._with_sums(self._overlapping(found))
        if op.name in _ADDRESS:
            return found | self._with_sums(self._overlapping(found))
        if op.name in (*_ACQUIRES, *_RELEASES, *_PROXY, *_ORDERS) or "fence" in op.name:
            found |= self._around(op) | self._same(op) | self._initialized_before(op)
            atomics = [one for one in self.ops if one.name in _ATOMICS and ordering(one)]
            if found & {line_of(one) for one in atomics}:  # what the barrier collects, a release tells other blocks
                found |= self._of_atomics()
            return found
        if op.name == "nvvm.setmaxregister":
            return found | {line_of(one) for one in self.ops if one.name in ("nvvm.setmaxregister", "gpu.launch")}
        values = list(op.regions[0].blocks[0].arguments)[1:] if op.name == "scf.for" else list(op.results)
        for user in (u for value in values for u in self._sinks(value)):
            found |= self.lines(self._number[_key(user)])
        return found | self._overlapping(found)

    def _of_barriers(self, groups: set[int], op: Any) -> set[Line | None]:
        found: set[Line | None] = set()
        for i, used in self._groups.items():
            one = self.ops[i]
            if not used & groups:
                continue
            found.add(line_of(one))
            if one.name in _ACQUIRES or one.name in _RELEASES:
                found |= self._around(one)
            if "async" in one.name:
                found |= self._overlapping({line_of(one)})
        return found

    def _of_wgmma(self) -> set[Line | None]:
        lines = {line_of(op) for op in self.ops if op.name in (*_WGMMA, *_WGMMA_SYNC) or is_wgmma_asm(op)}
        return lines | self._accumulators | self._overlapping(lines)

    def _of_atomics(self) -> set[Line | None]:
        """Loads that acquire and stores that release, and the accesses around them and the barriers next to them; and
        what adds in turn."""
        found: set[Line | None] = set()
        for one in self.ops:
            if one.name == "nvvm.cp.async.bulk.tensor.reduce" or string(one, "nvdsl.ptx") == "atom":
                found.add(line_of(one))
            if one.name == "nvvm.memory.barrier" or (one.name in _ATOMICS and ordering(one)):
                found |= self._around(one) | {line_of(one)}
                around = one.parent.operation
                if around.name == "scf.while":  # it asks again and again: where a deadlock is
                    found.add(line_of(around))
        barriers = [one for one in self.ops if one.name in ("nvvm.barrier", "gpu.barrier") and line_of(one) in found]
        return found.union(*(self._around(one) for one in barriers))

    def _of_bulk(self) -> set[Line | None]:
        """Stores out of shared memory, and what touches the bytes that they read."""
        lines = {line_of(op) for op in self.ops if op.name in _BULK or op.name in _BULK_SYNC}
        return lines | self._overlapping({line_of(op) for op in self.ops if op.name in _BULK})

    def _initialized_before(self, op: Any) -> set[Line | None]:
        """All uses of the mbarriers whose init ``op`` is the first barrier after."""
        block = [o.operation for o in op.block.operations]
        groups: set[int] = set()
        for one in reversed(block[: next(i for i, o in enumerate(block) if o == op)]):
            if one.name in _ACQUIRES:
                break
            for inner in walk(one):
                if inner.name in ("nvgpu.mbarrier.init", "nvvm.mbarrier.init"):
                    groups |= self._groups.get(self._number[_key(inner)], set())
        return self._of_barriers(groups, op) if groups else set()

    def _same(self, op: Any) -> set[Line | None]:
        """Barriers of the same number, cluster barriers."""
        names = ("nvvm.cluster.arrive", "nvvm.cluster.wait") if "cluster" in op.name else (op.name,)
        found: set[Line | None] = set()
        if op.name in ("nvvm.barrier", "nvvm.barrier.arrive", "nvvm.cluster.arrive", "nvvm.cluster.wait"):
            names = (*names, "nvvm.barrier", "nvvm.barrier.arrive") if "cluster" not in op.name else names
            for one in self.ops:
                if one.name in names or ("cluster" in op.name and _is_remote(one)):
                    found.add(line_of(one))
        return found | (self._overlapping(self._around(op)) if op.name in _PROXY else set())

    def _overlapping(self, lines: set[Any]) -> set[Line | None]:
        """Lines that touch bytes that one of ``lines`` does."""
        mask = 0
        for line in lines:
            mask |= self._touched.get(line, 0)
        return {line for line, other in self._touched.items() if other & mask}

    def _with_sums(self, lines: set[Line | None]) -> set[Line | None]:
        """Lines that touch some bytes; where wgmmas are among them, those that read what these make of them, too."""
        multiplies = any(line_of(op) in lines for op in self.ops if op.name in _WGMMA or is_wgmma_asm(op))
        return lines | self._reads_of_wgmma(stored=True) if multiplies else lines

    def _around(self, op: Any) -> set[Line | None]:
        found: set[Line | None] = set()
        ends = _MEETINGS if op.name == "nvvm.bar.warp.sync" else _ACQUIRES
        if op.name not in _RELEASES:
            self._follow(op, found, ends, forward=True)
        if op.name not in _ACQUIRES or "barrier" in op.name.partition(".")[2][:7]:
            self._follow(op, found, ends, forward=False)
        return found

    def _follow(self, op: Any, found: set[Line | None], ends: tuple[str, ...], forward: bool) -> None:
        """Lines of the ops that count from ``op`` on, out of its regions, up to one of ``ends``."""
        turns = 0
        while op.name not in ("gpu.launch", "func.func", "builtin.module"):
            block = [o.operation for o in op.block.operations]
            at = next(i for i, o in enumerate(block) if o == op)
            rest = block[at + 1 :] if forward else block[:at][::-1]
            if self._scan(rest, found, ends, forward):
                return
            parent = op.parent.operation
            if parent.name in ("scf.for", "scf.while") and turns < 2:
                turns += 1
                again = block[: at + 1] if forward else block[at:][::-1]
                self._scan(again, found, ends, forward)
            op = parent

    def _scan(self, ops: list[Any], found: set[Line | None], ends: tuple[str, ...], forward: bool) -> bool:
        """Whether one of ``ends`` ended it, on all ways."""
        for op in ops:
            if op.regions and len(op.regions) and op.name.startswith("scf."):
                ended = []
                for region in op.regions:
                    for block in region.blocks:
                        inner = [o.operation for o in block.operations]
                        ended.append(self._scan(inner if forward else inner[::-1], found, ends, forward))
                if len(ended) > 1 and all(ended):
                    return True
                continue
            if self._counts(op):
                found.add(line_of(op))
            if op.name in ends:
                return True
        return False

    def _counts(self, op: Any) -> bool:
        line = line_of(op)
        return (
            op.name in _STOPS or op.name in _WGMMA or op.name in _ORDINARY or line in self._touched
            or self._number[_key(op)] in self._groups
        )  # fmt: skip

    def _users(self, value: Any, pointers: bool) -> Iterator[Any]:
        """The ops that use a barrier, through pointers to it."""
        for use in value.uses:
            op = use.owner.operation
            yield op
            if pointers and op.results and op.name in _POINTERS:
                for result in op.results:
                    yield from self._users(result, pointers)

    def _sinks(self, value: Any) -> list[Any]:
        """The ops that synchronize or access memory with what is computed from a value."""
        seen, found, todo = set(), [], [value]
        while todo:
            for use in todo.pop().uses:
                op = use.owner.operation
                if (_key(op), use.operand_number) in seen:
                    continue
                seen.add((_key(op), use.operand_number))
                if op.name in ("scf.yield", "scf.for", "scf.while", "scf.condition"):
                    todo += carried(op, use.operand_number)
                elif op.name == "scf.if":
                    found += [o for o in walk(op) if self._number[_key(o)] in self._groups]
                elif (
                    self._number[_key(op)] in self._groups or op.name in _WGMMA or is_wgmma_asm(op)
                    or op.name in _BULK or "nvdsl.bounds" in op.attributes
                    or use.operand_number >= _ADDRESS.get(op.name, 99)
                ):  # fmt: skip
                    found.append(op)
                elif op.name not in _ENDS:
                    todo += list(op.results)
        return found

    def _with(self, op: Any) -> set[Line | None]:
        """Lines of all that is computed from an op's results, to where they are stored or used as addresses."""
        seen, todo = {_key(op): op}, [op]
        while todo:
            for result in todo.pop().results:
                for user in (use.owner.operation for use in result.uses):
                    if _key(user) not in seen and not user.regions:
                        seen[_key(user)] = user
                        todo.append(user)
        return {line_of(one) for one in seen.values()}

    def _reads_of_wgmma(self, stored: bool = False) -> set[Line | None]:
        """Lines that read accumulators. ``stored``: and of what is computed from them, to where it is stored."""
        found: set[Line | None] = set()
        seen: set[tuple[int, int]] = set()
        todo = [r for op in self.ops if op.name in _WGMMA or is_wgmma_asm(op) for r in op.results]
        while todo:
            value = todo.pop()
            for use in value.uses:
                op = use.owner.operation
                if (_key(op), use.operand_number) in seen:
                    continue
                seen.add((_key(op), use.operand_number))
                found.add(line_of(op))
                if op.name in ("scf.yield", "scf.for", "scf.while", "scf.condition"):
                    todo += carried(op, use.operand_number)
                elif stored or op.name in ("llvm.inline_asm", "llvm.extractvalue", "llvm.insertvalue"):
                    todo += list(op.results)
        return found


_POINTERS = (
    "nvgpu.mbarrier.get", "llvm.inttoptr", "nvvm.mapa", "llvm.addrspacecast", "arith.index_cast", "arith.trunci",
)  # fmt: skip
_ENDS = ("memref.load", "vector.load", "llvm.load")


def _key(op: Any) -> int:
    return ir.Operation.__hash__(op) if isinstance(op, ir.Operation) else hash(op.operation)


def _is_remote(op: Any) -> bool:
    """Whether it reaches into another block of the cluster."""
    multicast = op.name == "nvgpu.tma.async.load" and bool(segments(op)[5])
    return multicast or op.name == "nvvm.mapa"
