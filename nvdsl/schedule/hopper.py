"""A step that ends in Hopper's own instructions: a ring of tiles filled by TMA, and wgmma."""

from __future__ import annotations

from typing import Any

from nvdsl.hopper import arch
from nvdsl.ir.walk import defining
from nvdsl.mlir import ir
from nvdsl.mlir.dialects import arith, gpu, llvm, memref, nvgpu, nvvm, scf, vector
from nvdsl.mlir.dialects.transform import gpu as transform_gpu
from nvdsl.ops import ptx
from nvdsl.ops import wgmma as ops
from nvdsl.ops.fence import fence_proxy_async
from nvdsl.schedule.elementwise import finish_stores, pull_out
from nvdsl.schedule.finish import set_launch
from nvdsl.schedule.registers import fold_views
from nvdsl.schedule.ring_tiles import Tile, advance, constant_of, equal, loop_around, number
from nvdsl.schedule.shared import is_shared
from nvdsl.schedule.step import step
from nvdsl.schedule.warps import trips
from nvdsl.schedule.work import Work
from nvdsl.values.dtypes import bf16, f16, f32, tf32
from nvdsl.values.traced import Value

REGISTERS = {2: (24, 240), 3: (32, 160)}
"""By how many warpgroups multiply: registers of a thread that loads, and of one that multiplies."""

_OPERANDS, _SUMS = {"f16": f16, "bf16": bf16, "f32": tf32}, {"f16": f16, "f32": f32}


@step
def wgmma(work: Work, stages: int = 4, warpgroups: int = 2) -> None:
    """Makes a launch in which one thread loads tiles by TMA into a ring of ``stages`` slots with mbarriers, and
    ``warpgroups`` warpgroups multiply by wgmma, each a part of the tile's rows. Instead of all steps behind stage().

    TMA takes arrays whose rows are multiples of 16 bytes. Tiles of others are copied by a warpgroup, by element.
    """
    pull_out(work)
    _launch(work, _Plan(work, stages, warpgroups).threads)
    plan = _Plan(work, stages, warpgroups)  # of the operations that are there now
    plan.build()
    set_launch(work.one("gpu.launch", made_by=""), plan.bytes)
    fold_views(work)
    finish_stores(work)
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
        self.product = work.one("linalg.matmul", made_by="tile_blocks(), bufferize() and stage() before")
        self._check_ring()
        self._check_product()

    @property
    def bytes(self) -> int:
        return max(tile.end for tile in self.tiles)

    def _check_ring(self) -> None:
        work, product = self.work, self.product
        if len(product.results) or not all(is_shared(v) for v in list(product.operands)[:2]):
            work.refuse("operands that are not in shared memory", "wgmma reads tiles there", "stage() before")
        copies = {defining(op.operands[1]): op for op in work.find("linalg.copy")}
        if self.stages < 2 or self.warpgroups < 1 or self.threads > arch.MAX_THREADS_PER_BLOCK:
            work.refuse(f"{self.stages} stages for {self.warpgroups} warpgroups",
                        "a ring has two slots or more, and a block at most 1,024 threads", "wgmma(4, 2)")  # fmt: skip
        maps = [str(one) for one in ir.ArrayAttr(product.attributes["indexing_maps"])]
        axes = int("(d2, d0)" in maps[0]), int("(d2, d1)" in maps[1])
        start, self.tiles = 0, []
        for operand, axis in zip(list(product.operands)[:2], axes, strict=True):
            if defining(operand) not in copies:
                work.refuse("a tile that is not copied whole", "TMA fills tiles",
                            "stage() before, no pad(), and nothing before the product")  # fmt: skip
            self.tiles.append(Tile(work, copies[defining(operand)], axis, start, self.stages))
            start = self.tiles[-1].end
        if self.bytes + 16 * self.stages > arch.MAX_SMEM_PER_BLOCK:
            work.refuse(f"{self.bytes:,} bytes of slots", f"a block has at most {arch.MAX_SMEM_PER_BLOCK:,}",
                        "fewer stages")  # fmt: skip

    def _check_product(self) -> None:
        work, (a, b) = self.work, self.tiles
        c = self.product.operands[2].type
        self.m, self.n = c.shape
        self.k = a.rows * a.columns // self.m
        dtype, sums = _OPERANDS.get(str(a.element)), _SUMS.get(str(c.element_type))
        if dtype is None or sums is None or sums.name not in ops.TYPES[dtype.name, dtype.name]:
            raise work.refuse(f"a product of {a.element} with {c.element_type} sums",
                        "wgmma has f16 with f16 or f32 sums, bf16 and tf32 with f32 sums", "another end")  # fmt: skip
        self.dtype, self.sums = dtype, sums
        if dtype is tf32 and (a.major, b.major) != ("k", "k"):
            work.refuse("a product of f32 whose operands do not have K along their rows",
                        "wgmma transposes 16-bit types alone (PTX ISA, wgmma.mma_async, imm-trans)",
                        "transpose_b=True, or wmma()")  # fmt: skip
        self.rows = self.m // self.warpgroups
        panels = [tile for tile in self.tiles if tile.columns % tile.panel or tile.rows > 256]
        if self.rows * self.warpgroups != self.m or self.rows % 64 or self.n % 8 or self.n > 256 or panels:
            work.refuse(f"a tile of {self.m} x {self.n} x {self.k} for {self.warpgroups} warpgroups",
                        "each has 64 rows or a multiple, at most 256 columns, and a row of a tile of A or B is a "
                        f"multiple of 128 bytes: {a.panel} elements", "tile_blocks(128, 128, 64) for 2")  # fmt: skip
        fills = work.find("linalg.fill")
        if any(constant_of(one.operands[0]) != 0 for one in fills) or len(fills) > 1:
            work.refuse("a sum that starts with another number", "registers start with 0, or with C", "fill C with 0")
        self.adds = not fills
        self.loop = loop_around(self.product)
        turns = 1 if self.loop is None else trips(self.loop)
        assert turns is not None
        self.turns = turns

    # --- the kernel

    def build(self) -> None:
        work = self.work
        launch = work.one("gpu.launch", made_by="")
        with ir.InsertionPoint(launch), launch.location:
            for tile in self.tiles:
                if tile.by_tma:
                    tile.make_map()
        first = self.loop or self.product
        old = [first, *([] if self.loop else work.find("linalg.copy", "gpu.barrier")), *work.find("linalg.fill")]
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
            less, more = REGISTERS.get(self.warpgroups, (0, 0)) if self.by_tma else (0, 0)
            with ir.InsertionPoint(loads.then_block):
                if less:
                    nvvm.setmaxregister(less, nvvm.SetMaxRegisterAction.decrease)
                self._load_all(arith.subi(thread, number(self.warpgroups * arch.WARPGROUP_SIZE)))
                scf.YieldOp([])
            with ir.InsertionPoint(loads.else_block):
                if more:
                    nvvm.setmaxregister(more, nvvm.SetMaxRegisterAction.increase)
                self._store(self._multiply_all(thread, warpgroup), warpgroup, thread)
                scf.YieldOp([])
        for op in [*old, *work.find("memref.dealloc"), *work.find("memref.alloc")]:
            op.erase()

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
        slot, around = arith.remui(turn, number(self.stages)), arith.divui(turn, number(self.stages))
        bit = ir.IntegerType.get_signless(1)
        odd = arith.trunci(bit, arith.index_cast(ir.IntegerType.get_signless(32), around))
        return slot, odd, arith.xori(odd, arith.constant(bit, 1))

    @property
    def by_tma(self) -> bool:
        """Whether one thread loads all: else each thread of its warpgroup copies a part, and arrives."""
        return all(tile.by_tma for tile in self.tiles)

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
        turns = scf.ForOp(number(0), number(self.turns), number(1))
        with ir.InsertionPoint(turns.body):
            turn = turns.induction_variable
            slot, _, before = self._slot(turn)
            nvgpu.MBarrierTryWaitParityOp(self.empty, before, number(10_000_000), slot)
            variable = at = None
            if self.loop is not None:
                lower, _, width = list(self.loop.operands)[:3]
                variable, at = self.loop.regions[0].blocks[0].arguments[0], arith.addi(lower, arith.muli(turn, width))
            if self.by_tma:
                self._load(slot, variable, at)
            else:
                self._copy(slot, variable, at, thread)
            scf.YieldOp([])

    def _load(self, slot: Any, variable: Any, at: Any) -> None:
        tiles = [tile for tile in self.tiles if tile.by_tma]
        nvgpu.MBarrierArriveExpectTxOp(self.full, number(sum(tile.size for tile in tiles)), slot)
        for tile in tiles:
            tile.load(self.block, self.full, slot, variable, at)

    def _copy(self, slot: Any, variable: Any, at: Any, thread: Any) -> None:
        """What TMA does not take; the first thread loads the rest and arrives with its bytes."""
        for tile in self.tiles:
            if not tile.by_tma:
                tile.copy(self.block, slot, variable, at, thread, arch.WARPGROUP_SIZE)
        fence_proxy_async()  # before wgmma reads what threads have written
        first = scf.IfOp(equal(thread, 0), has_else=True)
        with ir.InsertionPoint(first.then_block):
            self._load(slot, variable, at)
            scf.YieldOp([])
        with ir.InsertionPoint(first.else_block):
            self._arrive(self.full, slot)
            scf.YieldOp([])

    def _arrive(self, barriers: Any, slot: Any) -> None:
        ir.Operation.create("nvgpu.mbarrier.arrive", [ir.Type.parse("!nvgpu.mbarrier.token")], [barriers, slot])

    def _multiply_all(self, thread: Any, warpgroup: Any) -> list[Any]:
        """The sums: a struct of registers for each 64 rows of a warpgroup."""
        a, b = self.tiles
        i32 = ir.IntegerType.get_signless(32)
        address = Value(arith.index_cast(i32, memref.extract_aligned_pointer_as_index(self.block)))
        first_row = arith.muli(warpgroup, number(a.operand.mn_offset(self.rows)))
        leads = equal(arith.remui(thread, number(arch.WARP_SIZE)), 0)
        fields = list(llvm.StructType(ops.accumulator_type(self.n, self.sums)).body)
        zero = arith.constant(fields[0], 0.0 if fields[0] == ir.F32Type.get() else 0)
        zeros = [ptx.touch(ptx.pack([zero] * len(fields))) for _ in range(self.rows // ops.M)]
        turns = scf.ForOp(number(0), number(self.turns), number(1), zeros)
        with ir.InsertionPoint(turns.body):
            turn = turns.induction_variable
            slot, odd, _ = self._slot(turn)
            nvgpu.MBarrierTryWaitParityOp(self.full, odd, number(10_000_000), slot)
            sums = self._multiply(list(turns.inner_iter_args), address, slot, first_row)
            ops.wgmma_commit()
            ops.wgmma_wait(1)
            # the wgmmas of the turn before are over: its slot is free
            over = arith.andi(leads, arith.cmpi(arith.CmpIPredicate.ne, turn, number(0)))
            arrive = scf.IfOp(over)
            with ir.InsertionPoint(arrive.then_block):
                self._arrive(self.empty, arith.remui(arith.subi(turn, number(1)), number(self.stages)))
                scf.YieldOp([])
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
            for i, total in enumerate(sums):
                of_a = advance(left, a.operand.k_offset(part) + a.operand.mn_offset(i * ops.M))
                sums[i] = ops.mma_async(total, of_a, of_b, n=self.n, **types, **majors)
        return sums

    def _store(self, sums: list[Any], warpgroup: Any, thread: Any) -> None:
        """Two neighbouring columns at once (PTX ISA, register fragments of wgmma's D)."""
        c = self.product.operands[2]
        pair = ir.VectorType.get([2], self.sums.ir)
        lane = arith.remui(thread, number(arch.WARP_SIZE))
        warp = arith.remui(arith.divui(thread, number(arch.WARP_SIZE)), number(4))
        row = arith.addi(arith.muli(warpgroup, number(self.rows)), arith.muli(warp, number(16)))
        row = arith.addi(row, arith.divui(lane, number(4)))
        column = arith.muli(arith.remui(lane, number(4)), number(2))
        for i, registers in enumerate(map(ptx.unpack, sums)):
            for half in range(2):
                here = arith.addi(row, number(64 * i + 8 * half))
                for j in range(self.n // 8):
                    there = arith.addi(column, number(8 * j))
                    if self.sums is f16:
                        both = llvm.bitcast(pair, registers[2 * j + half])
                    else:
                        at = 4 * j + 2 * half
                        both = vector.from_elements(pair, registers[at : at + 2])
                    if self.adds:
                        both = arith.addf(both, vector.load(pair, c, [here, there]))
                    vector.store(both, c, [here, there])
