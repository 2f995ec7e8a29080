"""A step that ends in Hopper's own instructions: a ring of tiles filled by TMA, and wgmma."""

from __future__ import annotations

import math
from typing import Any

from nvdsl.hopper import arch
from nvdsl.mlir import ir
from nvdsl.mlir.dialects import arith, gpu, llvm, memref, nvgpu, nvvm, scf, vector
from nvdsl.mlir.dialects.transform import gpu as transform_gpu
from nvdsl.schedule.finish import set_launch
from nvdsl.schedule.rewrite import clone, key
from nvdsl.schedule.ring_tiles import Tile, chain, constant_of, equal, loop_around, number, offsets
from nvdsl.schedule.shared import is_shared
from nvdsl.schedule.step import step
from nvdsl.schedule.warps import trips
from nvdsl.schedule.work import Work

PANEL = 64
"""Columns of a box: 128 bytes, the width of the swizzle."""

REGISTERS = {2: (24, 240), 3: (32, 160)}
"""By how many warpgroups multiply: registers of a thread that loads, and of one that multiplies."""


@step
def wgmma(work: Work, stages: int = 4, warpgroups: int = 2) -> None:
    """Makes a launch in which one thread loads tiles by TMA into a ring of ``stages`` slots with mbarriers, and
    ``warpgroups`` warpgroups multiply by wgmma, each a part of the tile's rows. Instead of all steps behind stage()."""
    _launch(work, _Plan(work, stages, warpgroups).threads)
    plan = _Plan(work, stages, warpgroups)  # of the operations that are there now
    plan.build()
    set_launch(work.one("gpu.launch", made_by=""), plan.bytes)
    work.run("lower-affine", "canonicalize", "cse")


def _launch(work: Work, threads: int) -> None:
    """Blocks become a launch."""
    forall = work.one("scf.forall", made_by="tile_blocks() before, and no tile_warps()")
    mark = work.mark(forall)
    with work.transform() as script:
        transform_gpu.MapForallToBlocks(script.match("scf.forall", marked=mark), generate_gpu_launch=True)
    launch = work.one("gpu.launch", made_by="")
    with ir.InsertionPoint(launch), launch.location:
        launch.operands[3] = arith.constant(ir.IndexType.get(), threads)


class _Plan:
    def __init__(self, work: Work, stages: int, warpgroups: int) -> None:
        self.work, self.stages, self.warpgroups = work, stages, warpgroups
        self.threads = (warpgroups + 1) * arch.WARPGROUP_SIZE
        product = work.one("linalg.matmul", made_by="tile_blocks(), bufferize() and stage() before")
        self._check(product)

    @property
    def bytes(self) -> int:
        return max(tile.end for tile in self.tiles)

    def _check(self, product: Any) -> None:
        work = self.work
        if len(product.results) or not all(is_shared(v) for v in list(product.operands)[:2]):
            work.refuse("operands that are not in shared memory", "wgmma reads tiles there", "stage() before")
        copies = {key(op.operands[1]): op for op in work.find("linalg.copy")}
        if self.stages < 2 or self.warpgroups < 1 or self.threads > arch.MAX_THREADS_PER_BLOCK:
            work.refuse(f"{self.stages} stages for {self.warpgroups} warpgroups",
                        "a ring has two slots or more, and a block at most 1,024 threads", "wgmma(4, 2)")  # fmt: skip
        start, self.tiles = 0, []
        for operand in list(product.operands)[:2]:
            if key(operand) not in copies:
                work.refuse("a tile that is not copied whole", "TMA fills tiles", "stage() before, and no pad()")
            self.tiles.append(Tile(copies[key(operand)], start, self.stages))
            start = self.tiles[-1].end
        element = self.tiles[0].buffer.type.element_type
        sums = product.operands[2].type
        if not isinstance(element, ir.F16Type | ir.BF16Type) or not isinstance(sums.element_type, ir.F32Type):
            work.refuse(f"a product of {element} with {sums.element_type} sums",
                        "nvgpu.warpgroup.mma takes f16 and bf16 with f32 sums", "mma_sync() or wmma()")  # fmt: skip
        self.m, self.n = sums.shape
        self.k = math.prod(self.tiles[0].buffer.type.shape) // self.m
        rows = self.m // self.warpgroups
        maps = [str(one) for one in ir.ArrayAttr(product.attributes["indexing_maps"])]
        if "(d0, d2)" not in maps[0] or "(d2, d1)" not in maps[1]:
            work.refuse("a transposed operand", "nvgpu.warpgroup.mma takes A and B row by row", "mma_sync() or wmma()")
        if rows * self.warpgroups != self.m or rows % 64 or self.n % 8 or self.n > 256 or self.k != PANEL:
            work.refuse(f"a tile of {self.m} x {self.n} x {self.k} for {self.warpgroups} warpgroups",
                        "each has 64 rows or a multiple, at most 256 columns, and k is 64: 128 bytes",
                        "tile_blocks(128, 128, 64) for 2")  # fmt: skip
        if self.tiles[1].columns % PANEL:
            work.refuse(f"a tile of B of {self.tiles[1].columns} columns", "boxes are 64 columns wide", "a multiple")
        fills, generics = work.find("linalg.fill"), work.find("linalg.generic")
        if any(constant_of(one.operands[0]) != 0 for one in fills) or len(generics) > 1 or len(fills) > 1:
            work.refuse("a sum that starts with another number", "registers start with 0, or with C", "fill C with 0")
        self.adds, self.behind = not fills, generics[0] if generics else None
        for tile in self.tiles:
            if any(v.type.rank != 2 for v in chain(tile.source)):
                work.refuse("a batch of products", "the tensor maps are of matrices", "mma_sync() or wmma()")
        if self.bytes + 16 * self.stages > arch.MAX_SMEM_PER_BLOCK:
            work.refuse(f"{self.bytes:,} bytes of slots", f"a block has at most {arch.MAX_SMEM_PER_BLOCK:,}",
                        "fewer stages")  # fmt: skip
        loop = loop_around(product)
        if loop is None:
            work.refuse("one step of K", "the ring is for a loop", "tile_blocks() with a smaller k")
        turns = trips(loop)
        assert turns is not None
        self.turns = turns

    # --- the kernel

    def build(self) -> None:
        work = self.work
        product = work.one("linalg.matmul", made_by="")
        loop = loop_around(product)
        launch = work.one("gpu.launch", made_by="")
        c = product.operands[2]
        lower, _, width = list(loop.operands)[:3]
        with ir.InsertionPoint(launch), launch.location:
            for tile in self.tiles:
                self._make_map(tile)
        with ir.InsertionPoint(self.behind or loop), loop.location:
            self.block = gpu.dynamic_shared_memory(ir.Type.parse("memref<?xi8, #gpu.address_space<workgroup>>"))
            group = ir.Type.parse(
                f"!nvgpu.mbarrier.group<memorySpace = #gpu.address_space<workgroup>, num_barriers = {self.stages}>"
            )
            self.full, self.empty = (nvgpu.MBarrierCreateOp(group).result for _ in range(2))
            thread = gpu.thread_id(gpu.Dimension.x)
            first = scf.IfOp(equal(thread, 0))
            with ir.InsertionPoint(first.then_block):
                for slot in range(self.stages):
                    nvgpu.MBarrierInitOp(self.full, number(1), number(slot))
                    nvgpu.MBarrierInitOp(self.empty, number(4 * self.warpgroups), number(slot))
                scf.YieldOp([])
            gpu.barrier()
            warpgroup = arith.divui(thread, number(arch.WARPGROUP_SIZE))
            loads = scf.IfOp(equal(warpgroup, self.warpgroups), has_else=True)
            less, more = REGISTERS.get(self.warpgroups, (0, 0))
            with ir.InsertionPoint(loads.then_block):
                if less:
                    nvvm.setmaxregister(less, nvvm.SetMaxRegisterAction.decrease)
                one = scf.IfOp(equal(thread, self.warpgroups * arch.WARPGROUP_SIZE))
                with ir.InsertionPoint(one.then_block):
                    self._load_all(loop, lower, width)
                    scf.YieldOp([])
                scf.YieldOp([])
            with ir.InsertionPoint(loads.else_block):
                if more:
                    nvvm.setmaxregister(more, nvvm.SetMaxRegisterAction.increase)
                self._multiply_all(thread, warpgroup, c)
                scf.YieldOp([])
        loop.erase()
        for op in work.find("linalg.fill", "linalg.generic", "memref.dealloc"):
            op.erase()
        for op in work.find("memref.alloc"):
            op.erase()

    def _make_map(self, tile: Tile) -> None:
        root, _ = offsets(tile.source)
        element = tile.buffer.type.element_type
        text = (
            f"!nvgpu.tensormap.descriptor<tensor = memref<{tile.rows}x{PANEL}x{element}, 3>, swizzle = swizzle_128b, "
            "l2promo = l2promo_256b, oob = zero, interleave = none>"
        )
        anything = memref.cast(ir.Type.parse(f"memref<*x{element}>"), root)
        box = [number(tile.rows), number(PANEL)]
        tile.map = nvgpu.TmaCreateDescriptorOp(ir.Type.parse(text), anything, box).result

    def _slot(self, turn: Any) -> tuple[Any, Any, Any]:
        """The slot of a turn, its parity, and the other one."""
        slot, around = arith.remui(turn, number(self.stages)), arith.divui(turn, number(self.stages))
        bit = ir.IntegerType.get_signless(1)
        odd = arith.trunci(bit, arith.index_cast(ir.IntegerType.get_signless(32), around))
        return slot, odd, arith.xori(odd, arith.constant(bit, 1))

    def _load_all(self, loop: Any, lower: Any, width: Any) -> None:
        turns = scf.ForOp(number(0), number(self.turns), number(1))
        with ir.InsertionPoint(turns.body):
            turn = turns.induction_variable
            slot, _, before = self._slot(turn)
            nvgpu.MBarrierTryWaitParityOp(self.empty, before, number(10_000_000), slot)
            nvgpu.MBarrierArriveExpectTxOp(self.full, number(sum(tile.size for tile in self.tiles)), slot)
            at = arith.addi(lower, arith.muli(turn, width))
            for tile in self.tiles:
                _, sums = offsets(tile.source)
                row, column = (self._sum(terms, loop, at) for terms in sums)
                for panel in range(tile.columns // PANEL):
                    view = self._view(tile, slot, panel * tile.rows * PANEL * 2, tile.rows, PANEL)
                    place = [arith.addi(column, number(panel * PANEL)), row]
                    nvgpu.TmaAsyncLoadOp(view, self.full, tile.map, place, slot)
            scf.YieldOp([])

    def _sum(self, terms: list[Any], loop: Any, at: Any) -> Any:
        variable = key(loop.regions[0].blocks[0].arguments[0])
        total = number(0)
        for term in terms:
            value = number(term) if isinstance(term, int) else at if key(term) == variable else term
            total = arith.addi(total, value)
        return total

    def _view(self, tile: Tile, slot: Any, more: Any, rows: int, columns: int) -> Any:
        byte = arith.addi(arith.muli(slot, number(tile.size)), number(tile.start))
        byte = arith.addi(byte, number(more) if isinstance(more, int) else more)
        element = tile.buffer.type.element_type
        type = ir.Type.parse(f"memref<{rows}x{columns}x{element}, #gpu.address_space<workgroup>>")
        return memref.view(type, self.block, byte, [])

    def _multiply_all(self, thread: Any, warpgroup: Any, c: Any) -> None:
        a, b = self.tiles
        rows = self.m // self.warpgroups
        first_row = arith.muli(warpgroup, number(rows * PANEL * 2))
        kind = ir.Type.parse(f"!nvgpu.warpgroup.accumulator<fragmented = vector<{rows}x{self.n}xf32>>")
        leads = equal(arith.remui(thread, number(arch.WARP_SIZE)), 0)
        zeros = nvgpu.WarpgroupMmaInitAccumulatorOp(kind).result
        turns = scf.ForOp(number(0), number(self.turns), number(1), [zeros])
        with ir.InsertionPoint(turns.body):
            slot, odd, _ = self._slot(turns.induction_variable)
            nvgpu.MBarrierTryWaitParityOp(self.full, odd, number(10_000_000), slot)
            sides = []
            for tile, more, height in ((a, first_row, rows), (b, 0, b.rows)):
                view = self._view(tile, slot, more, height, tile.columns)
                text = f"!nvgpu.warpgroup.descriptor<tensor = {view.type}>"
                sides.append(nvgpu.WarpgroupGenerateDescriptorOp(ir.Type.parse(text), view, tile.map).result)
            made = nvgpu.WarpgroupMmaOp(
                kind, *sides, turns.inner_iter_args[0], waitGroup=1, transposeB=True
            ).result
            turn = turns.induction_variable  # the wgmmas of the turn before are over: its slot is free
            over = arith.andi(leads, arith.cmpi(arith.CmpIPredicate.ne, turn, number(0)))
            arrive = scf.IfOp(over)
            with ir.InsertionPoint(arrive.then_block):
                token = ir.Type.parse("!nvgpu.mbarrier.token")
                before = arith.remui(arith.subi(turn, number(1)), number(self.stages))
                ir.Operation.create("nvgpu.mbarrier.arrive", [token], [self.empty, before])
                scf.YieldOp([])
            scf.YieldOp([made])
        nvvm.wgmma_wait_group_sync_aligned(0)
        self._store(turns.results[0], c, arith.muli(warpgroup, number(rows)), rows, thread)

    def _store(self, sums: Any, c: Any, first: Any, rows: int, thread: Any) -> None:
        """Two neighbouring columns at once (PTX ISA, register fragments of wgmma's D). nvgpu's own store counts warps
        from the first of the block, not of the warpgroup."""
        registers = f"struct<({', '.join(['f32'] * (self.n // 2))})>"
        types = ", ".join([registers] * (rows // 64))
        struct = ir.Operation.create(
            "builtin.unrealized_conversion_cast", [ir.Type.parse(f"!llvm.struct<({types})>")], [sums]
        ).result
        f32, lane = ir.F32Type.get(), arith.remui(thread, number(arch.WARP_SIZE))
        warp = arith.remui(arith.divui(thread, number(arch.WARP_SIZE)), number(4))
        row = arith.addi(arith.addi(first, arith.muli(warp, number(16))), arith.divui(lane, number(4)))
        column = arith.muli(arith.remui(lane, number(4)), number(2))
        for i in range(rows // 64):
            for half in range(2):
                here = arith.addi(row, number(64 * i + 8 * half))
                for j in range(self.n // 8):
                    pair = [
                        llvm.extractvalue(f32, struct, ir.DenseI64ArrayAttr.get([i, 4 * j + 2 * half + k]))
                        for k in range(2)
                    ]
                    there = arith.addi(column, number(8 * j))
                    pair = [self._finish(x, c, here, there if k == 0 else arith.addi(there, number(1)))
                            for k, x in enumerate(pair)]  # fmt: skip
                    both = vector.from_elements(ir.VectorType.get([2], f32), pair)
                    vector.store(both, c, [here, there])

    def _finish(self, x: Any, c: Any, row: Any, column: Any) -> Any:
        """What becomes of an element of the product."""
        if self.adds:
            x = arith.addf(x, memref.load(c, [row, column]))
        if self.behind is None:
            return x
        maps = [ir.AffineMapAttr(one).value for one in ir.ArrayAttr(self.behind.attributes["indexing_maps"])]
        body = self.behind.regions[0].blocks[0]
        *ops, end = [op.operation for op in body.operations]
        values = {key(body.arguments[len(maps) - 1]): x}
        for argument, array, where in zip(body.arguments, list(self.behind.operands)[:-1], maps, strict=False):
            place = [(row, column)[ir.AffineDimExpr(one).position] for one in where.results]
            values[key(argument)] = memref.load(array, place)
        values = clone(ops, values)
        return values.get(key(end.operands[0]), end.operands[0])
