"""What a product by wgmma is made of: the tiles of a ring, the parts of warpgroups, and whether they fit."""

from __future__ import annotations

from typing import Any

from nvdsl.hopper import arch
from nvdsl.ir.walk import defining
from nvdsl.mlir import ir
from nvdsl.ops import wgmma as ops
from nvdsl.schedule.persistent import TILE_LOOP, tile_loop
from nvdsl.schedule.rewrite import is_shared
from nvdsl.schedule.ring_tiles import Tile, constant_of
from nvdsl.schedule.shared import into_shared
from nvdsl.schedule.warps import trips
from nvdsl.schedule.work import Work
from nvdsl.values.dtypes import bf16, f16, f32, tf32

REGISTERS = {2: (40, 232), 3: (32, 160)}
"""By how many warpgroups multiply: registers of a thread that loads by TMA, and of one that multiplies. All have the
same with others, and where threads load."""

_OTHERS = 24
"""Registers of a thread that multiplies, beside its sums, at least."""

_OPERANDS, _SUMS = {"f16": f16, "bf16": bf16, "f32": tf32}, {"f16": f16, "f32": f32}


class Plan:
    """Of the product in ``work``. Refuses what wgmma or the ring does not take."""

    def __init__(self, work: Work, stages: int, warpgroups: int) -> None:
        self.work, self.stages, self.warpgroups = work, stages, warpgroups
        self.threads = (warpgroups + 1) * arch.WARPGROUP_SIZE
        self.product = work.one("linalg.matmul", made_by="tile_blocks(), bufferize() and stage() before")
        self._check_ring()
        self._check_product()

    @property
    def bytes(self) -> int:
        return max(tile.end for tile in self.tiles)

    @property
    def by_tma(self) -> bool:
        """Whether one thread loads all: else each thread of its warpgroup copies a part, and arrives."""
        return all(tile.by_tma for tile in self.tiles)

    @property
    def registers(self) -> tuple[int, int]:
        """Of a thread that loads, and of one that multiplies."""
        same = arch.launch_registers(self.threads)
        return REGISTERS.get(self.warpgroups, (same, same)) if self.by_tma else (same, same)

    def _check_ring(self) -> None:
        work, product = self.work, self.product
        if len(product.results) or not all(is_shared(v) for v in list(product.operands)[:2]):
            work.refuse("operands that are not in shared memory", "wgmma reads tiles there", "stage() before")
        copies = {defining(op.operands[1]): op for op in into_shared(work) if _is_copy(op)}
        if self.stages < 2 or self.warpgroups < 1 or self.threads > arch.MAX_THREADS_PER_BLOCK:
            work.refuse(f"{self.stages} stages for {self.warpgroups} warpgroups",
                        "a ring has two slots or more, and a block at most 1,024 threads", "wgmma(4, 2)")  # fmt: skip
        maps = [str(one) for one in ir.ArrayAttr(product.attributes["indexing_maps"])]
        axes = int("(d2, d0)" in maps[0]), int("(d2, d1)" in maps[1])
        start, self.tiles = 0, []
        for operand, axis in zip(list(product.operands)[:2], axes, strict=True):
            if defining(operand) not in copies:
                work.refuse("a tile that is not copied whole, of one array", "TMA or a warpgroup fills tiles",
                            "stage() before, and no pad()")  # fmt: skip
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
        if a.element != b.element:
            work.refuse(f"a product of {a.element} with {b.element}", "both operands are of one type", "another end")
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
        for rows, most in ((self.rows, self.registers[1]), (ops.M, arch.launch_registers(self.threads))):
            registers = rows * self.n * self.sums.bytes // 4 // arch.WARPGROUP_SIZE
            if registers + _OTHERS > most:  # of all, and of one instruction, which ptxas holds against the launch's
                work.refuse(f"sums of {rows} x {self.n} in a warpgroup: {registers} registers of a thread",
                            f"it has {most} in a block of {self.threads} threads, and needs {_OTHERS} for other things",
                            "a smaller tile, or another number of warpgroups")  # fmt: skip
        fills = work.find("linalg.fill")
        if any(constant_of(one.operands[0]) != 0 for one in fills) or len(fills) > 1:
            work.refuse("a sum that starts with another number", "registers start with 0, or with C", "fill C with 0")
        self.adds = not fills
        self.tile_loop = tile_loop(work)
        self.loop = _k_loop(self.product)
        turns = 1 if self.loop is None else trips(self.loop)
        assert turns is not None
        self.turns = turns


def _is_copy(op: Any) -> bool:
    """Whether an operation copies elements to the same places, changed or not."""
    if op.name == "linalg.copy":
        return True
    maps = list(ir.ArrayAttr(op.attributes["indexing_maps"]))
    return len(maps) == 2 and maps[0] == maps[1]


def _k_loop(product: Any) -> Any:
    """The loop over K, if there is more than one turn."""
    parent = product.operation.parent
    return parent.operation if parent.name == "scf.for" and TILE_LOOP not in parent.attributes else None
