"""The kernel of a product by wgmma: one thread that loads, and warpgroups that multiply."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from nvdsl.hopper import arch
from nvdsl.mlir import ir
from nvdsl.mlir.dialects import arith, gpu, llvm, memref, nvgpu, nvvm, scf, vector
from nvdsl.ops import ptx
from nvdsl.ops import wgmma as ops
from nvdsl.ops.fence import fence_proxy_async
from nvdsl.ops.warp import shuffle_xor
from nvdsl.schedule.persistent import TILE_LOOP
from nvdsl.schedule.rewrite import clone, key
from nvdsl.schedule.ring_tiles import advance, equal, number, offsets, total
from nvdsl.schedule.shared import into_shared
from nvdsl.schedule.wgmma_plan import Plan
from nvdsl.values.dtypes import f16
from nvdsl.values.traced import Value


class Kernel(Plan):
    """A plan, and what it becomes in a launch."""

    def build(self, launch: Any) -> None:
        work = self.work
        with ir.InsertionPoint(launch), launch.location:
            for tile in self.tiles:
                if tile.by_tma:
                    tile.make_map()
        inside = [*([] if self.loop else [*into_shared(work), *work.find("gpu.barrier")]), *work.find("linalg.fill")]
        first = self.tile_loop or self.loop or self.product
        old = [first, *([] if self.tile_loop else inside)]
        with ir.InsertionPoint(first), first.location:
            self.block = gpu.dynamic_shared_memory(ir.Type.parse("memref<?xi8, #gpu.address_space<workgroup>>"))
            group = ir.Type.parse(
                f"!nvgpu.mbarrier.group<memorySpace = #gpu.address_space<workgroup>, num_barriers = {self.stages}>"
            )
            self.full, self.empty = (nvgpu.MBarrierCreateOp(group).result for _ in range(2))
            thread = gpu.thread_id(gpu.Dimension.x)
            self._init(thread)
            warpgroup = arith.divui(thread, number(arch.WARPGROUP_SIZE))
            loads = scf.IfOp(equal(warpgroup, self.warpgroups), has_else=True)
            less, more = self.registers
            with ir.InsertionPoint(loads.then_block):
                if less < more:
                    nvvm.setmaxregister(less, nvvm.SetMaxRegisterAction.decrease)
                self._load_all(arith.subi(thread, number(self.warpgroups * arch.WARPGROUP_SIZE)))
                scf.YieldOp([])
            with ir.InsertionPoint(loads.else_block):
                if less < more:
                    nvvm.setmaxregister(more, nvvm.SetMaxRegisterAction.increase)
                self._compute_all(thread, warpgroup)
                scf.YieldOp([])
        for op in old:
            op.erase()
        for op in [*work.find("memref.dealloc"), *work.find("memref.alloc")]:
            op.erase()

    @contextmanager
    def _tiles(self) -> Iterator[tuple[Any, dict[int, Any]]]:
        """What a role does for each of the block's tiles: the turns before this one, and what stands for values of
        the loop over tiles that there was. Without one there is one tile."""
        if self.tile_loop is None:
            yield number(0), {}
            return
        body = self.tile_loop.regions[0].blocks[0]
        loop = scf.ForOp(*list(self.tile_loop.operands)[:3], [number(0)])
        loop.operation.attributes[TILE_LOOP] = ir.UnitAttr.get()
        with ir.InsertionPoint(loop.body):
            values = {key(body.arguments[0]): loop.induction_variable}
            yield loop.inner_iter_args[0], clone([one.operation for one in body.operations if _is_index(one)], values)
            scf.YieldOp([arith.addi(loop.inner_iter_args[0], number(self.turns))])

    def _init(self, thread: Any) -> None:
        first = scf.IfOp(equal(thread, 0))
        with ir.InsertionPoint(first.then_block):
            for slot in range(self.stages):
                nvgpu.MBarrierInitOp(self.full, number(1 if self.by_tma else arch.WARPGROUP_SIZE), number(slot))
                nvgpu.MBarrierInitOp(self.empty, number(4 * self.warpgroups), number(slot))
            scf.YieldOp([])
        gpu.barrier()

    def _slot(self, turn: Any) -> tuple[Any, Any, Any]:
        """The slot of a turn, its parity, and the other one."""
        word, bit = ir.IntegerType.get_signless(32), ir.IntegerType.get_signless(1)
        count, stages = arith.index_cast(word, turn), arith.constant(word, self.stages)
        slot = arith.index_cast(ir.IndexType.get(), arith.remui(count, stages))
        odd = arith.trunci(bit, arith.divui(count, stages))
        return slot, odd, arith.xori(odd, arith.constant(bit, 1))

    def _load_all(self, thread: Any) -> None:
        """``thread``: of the warpgroup that loads."""
        if not self.by_tma:
            self._load_turns(thread)
            return
        one = scf.IfOp(equal(thread, 0))
        with ir.InsertionPoint(one.then_block):
            self._load_turns(thread)
            scf.YieldOp([])

    def _load_turns(self, thread: Any) -> None:
        with self._tiles() as (before, values):
            turns = scf.ForOp(number(0), number(self.turns), number(1))
            with ir.InsertionPoint(turns.body):
                turn = turns.induction_variable
                slot, _, other = self._slot(arith.addi(before, turn))
                nvgpu.MBarrierTryWaitParityOp(self.empty, other, number(10_000_000), slot)
                if self.loop is not None:
                    lower, _, width = list(self.loop.operands)[:3]
                    variable = self.loop.regions[0].blocks[0].arguments[0]
                    values = {**values, key(variable): arith.addi(lower, arith.muli(turn, width))}
                if self.by_tma:
                    self._load(slot, values)
                else:
                    self._copy(slot, values, thread)
                scf.YieldOp([])

    def _load(self, slot: Any, values: dict[int, Any]) -> None:
        tiles = [tile for tile in self.tiles if tile.by_tma]
        nvgpu.MBarrierArriveExpectTxOp(self.full, number(sum(tile.size for tile in tiles)), slot)
        for tile in tiles:
            tile.load(self.block, self.full, slot, values)

    def _copy(self, slot: Any, values: dict[int, Any], thread: Any) -> None:
        """What TMA does not take; the first thread loads the rest and arrives with its bytes."""
        for tile in self.tiles:
            if not tile.by_tma:
                tile.copy(self.block, slot, values, thread, arch.WARPGROUP_SIZE)
        fence_proxy_async()  # before wgmma reads what threads have written
        first = scf.IfOp(equal(thread, 0), has_else=True)
        with ir.InsertionPoint(first.then_block):
            self._load(slot, values)
            scf.YieldOp([])
        with ir.InsertionPoint(first.else_block):
            self._arrive(self.full, slot)
            scf.YieldOp([])

    def _arrive(self, barriers: Any, slot: Any) -> None:
        ir.Operation.create("nvgpu.mbarrier.arrive", [ir.Type.parse("!nvgpu.mbarrier.token")], [barriers, slot])

    def _compute_all(self, thread: Any, warpgroup: Any) -> None:
        """Multiply and store."""
        i32 = ir.IntegerType.get_signless(32)
        address = Value(arith.index_cast(i32, memref.extract_aligned_pointer_as_index(self.block)))
        first_row = arith.muli(warpgroup, number(self.tiles[0].operand.mn_offset(self.rows)))
        leads = equal(arith.remui(thread, number(arch.WARP_SIZE)), 0)
        with self._tiles() as (before, values):
            sums = self._multiply_all(before, address, first_row, leads)
            if self.tile_loop is not None:  # the last slot of a tile, before the loads of the next need it
                self._release(leads, arith.addi(before, number(self.turns - 1)))
            self._store(sums, values, warpgroup, thread)

    def _release(self, leads: Any, turn: Any) -> None:
        arrive = scf.IfOp(leads)
        with ir.InsertionPoint(arrive.then_block):
            self._arrive(self.empty, self._slot(turn)[0])
            scf.YieldOp([])

    def _multiply_all(self, before: Any, address: Value, first_row: Any, leads: Any) -> list[Any]:
        """The sums of a tile: a struct of registers for each 64 rows of a warpgroup."""
        fields = list(llvm.StructType(ops.accumulator_type(self.n, self.sums)).body)
        zero = arith.constant(fields[0], 0.0 if fields[0] == ir.F32Type.get() else 0)
        zeros = [ptx.touch(ptx.pack([zero] * len(fields))) for _ in range(self.rows // ops.M)]
        turns = scf.ForOp(number(0), number(self.turns), number(1), zeros)
        with ir.InsertionPoint(turns.body):
            turn = turns.induction_variable
            here = arith.addi(before, turn)
            slot, odd, _ = self._slot(here)
            nvgpu.MBarrierTryWaitParityOp(self.full, odd, number(10_000_000), slot)
            sums = self._multiply(list(turns.inner_iter_args), address, slot, first_row)
            ops.wgmma_commit()
            ops.wgmma_wait(1)
            # the wgmmas of the turn before are over: its slot is free
            over = arith.andi(leads, arith.cmpi(arith.CmpIPredicate.ne, turn, number(0)))
            self._release(over, arith.subi(here, number(1)))
            scf.YieldOp(sums)
        ops.wgmma_wait(0)
        return [ptx.touch(one) for one in turns.results]

    def _multiply(self, sums: list[Any], address: Value, slot: Any, first_row: Any) -> list[Any]:
        a, b = self.tiles
        left, right = a.descriptor(address, slot, first_row), b.descriptor(address, slot)
        types: dict[str, Any] = {"a_dtype": self.dtype, "b_dtype": self.dtype, "d_dtype": self.sums}
        majors: dict[str, Any] = {"a_major": a.major, "b_major": b.major}
        ops.wgmma_fence()
        for part in range(self.k * a.itemsize // arch.WGMMA_K_BYTES):
            of_b = advance(right, b.operand.k_offset(part))
            for i, before in enumerate(sums):
                of_a = advance(left, a.operand.k_offset(part) + a.operand.mn_offset(i * ops.M))
                sums[i] = ops.mma_async(before, of_a, of_b, n=self.n, **types, **majors)
        return sums

    def _store(self, sums: list[Any], values: dict[int, Any], warpgroup: Any, thread: Any) -> None:
        c, places = offsets(self.product.operands[2])
        *batch, top, left = (total(terms, values) for terms in places)
        lane = arith.remui(thread, number(arch.WARP_SIZE))
        warp = arith.remui(arith.divui(thread, number(arch.WARP_SIZE)), number(4))
        row = arith.addi(arith.muli(warpgroup, number(self.rows)), arith.muli(warp, number(16)))
        row = arith.addi(top, arith.addi(row, arith.divui(lane, number(4))))
        for i, registers in enumerate(map(ptx.unpack, sums)):
            for half in range(2):
                at = arith.addi(row, number(64 * i + 8 * half))
                for column, part in self._parts(registers, half, arith.remui(lane, number(4))):
                    here = [*batch, at, arith.addi(left, column)]
                    if self.adds:
                        part = arith.addf(part, vector.load(part.type, c, here))
                    vector.store(part, c, here)

    def _parts(self, registers: list[Any], half: int, lane: Any) -> Iterator[tuple[Any, Any]]:
        """Of a row, what a lane of four stores: the column, and neighbours. Of 8 columns each has two (PTX ISA,
        register fragments of wgmma's D). Of 16 two lanes exchange two, so that each has four: there are half as many
        stores, and those of f16 write whole sectors, too."""
        width = 1 if self.sums is f16 else 2  # registers of two neighbours
        groups = [registers[2 * width * j + width * half :][:width] for j in range(self.n // 8)]
        odd = arith.remui(lane, number(2))
        is_odd = equal(odd, 1)
        column = arith.addi(arith.muli(odd, number(8)), arith.muli(arith.divui(lane, number(2)), number(4)))
        for j in range(len(groups) // 2):
            low, high = [], []
            for even, other in zip(*groups[2 * j : 2 * j + 2], strict=True):
                kept, sent = arith.select(is_odd, other, even), arith.select(is_odd, even, other)
                got = shuffle_xor(Value(sent), 1)
                low.append(arith.select(is_odd, got, kept))
                high.append(arith.select(is_odd, kept, got))
            yield arith.addi(column, number(16 * j)), self._vector([*low, *high])
        if len(groups) % 2:
            yield arith.addi(arith.muli(lane, number(2)), number(self.n - 8)), self._vector(groups[-1])

    def _vector(self, registers: list[Any]) -> Any:
        """The elements in registers, of which one holds two halves."""
        whole = vector.from_elements(ir.VectorType.get([len(registers)], registers[0].type), registers)
        halves = ir.VectorType.get([2 * len(registers)], f16.ir)
        return vector.bitcast(halves, whole) if self.sums is f16 else whole


def _is_index(one: Any) -> bool:
    """Whether an operation of the loop over tiles says where a tile is."""
    return one.operation.name.startswith(("arith.", "affine.", "memref.subview"))
