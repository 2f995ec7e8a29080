"""What can be chosen for a GEMM kernel, and which choices the hardware can run."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import nvdsl as nv
from nvdsl.errors.records import dataclass
from nvdsl.hopper import arch

SCHEDULES = ("cooperative", "pingpong", "streamk", "splitk")
SPLITS = {"splitk": (1, 2, 4, 8)}
"""Parts of K, by the schedule; one part in all others."""
REGISTERS = {1: (40, 240), 2: (40, 232), 3: (32, 160)}
"""Registers a thread of the producer and of each consumer warpgroup, by the number of consumers (setmaxnreg)."""
MANY_SUMS, REGISTERS_BESIDE = 200, (24, 240)
"""The same of two consumers whose threads hold more sums."""

SPARE_REGISTERS = 32
"""What a consumer's thread needs beside its accumulators: addresses, descriptors, ring state, packed results."""
BESIDE_ONE = 26
"""What a thread needs beside the accumulators of one wgmma, of the registers that it is launched with: ptxas takes no
more into account for a single instruction (C7602)."""
WITHOUT_TMA, WITHOUT_TMA_BESIDE, WITHOUT_TMA_TURNED = {"streamk": 48}, 88, 64
"""What a consumer's thread needs beside its accumulators to store a result that TMA can't, by the schedule, 40 if
nothing is said; beside an epilogue (ptxas spilled a few registers of scales of rows with 40, and of the largest
epilogue with 64); and the transpose of a result of 32 bits (with 52)."""
OF_A = 4
"""Registers of A of one wgmma, where it comes from registers."""


@dataclass(frozen=True)
class Config:
    """One GEMM kernel of the family. It is frozen and hashable, and so a compile-time constant.

    ``tile_m, tile_n, tile_k``: elements of a block's tile of the result, and of K in one slot of the ring; ``stages``:
    slots. ``schedule``: "cooperative" (the consumer warpgroups share a tile: each takes ``tile_m / consumers`` rows,
    or ``tile_n / consumers`` columns)
    or "pingpong" (two consumers, each on a tile of its own, one multiplying while the other stores), or "streamk"
    (ping-pong, with tiles cut along K so that all blocks end at the same time), or "splitk" (cooperative, with
    ``split`` blocks for each tile, each with a part of K: for few tiles).
    ``parts``: where K is long, blocks or clusters that share a tile, at most. With "cooperative" each leaves its sums
    in memory for another kernel, with "splitk" for the last one of them.
    ``along``: the axis of the tile, "m" or "n", along which consumers divide it where they share it.
    ``swap_ab``: the result is computed as its transpose, ``b.T @ a.T``: ``tile_m`` and ``cluster_m`` count along its
    columns then.
    ``cluster_m, cluster_n``: blocks of a cluster along the rows and columns of the result; the ones in a column share
    B's tile, the ones in a row A's: each loads a part of it for all (multicast).
    ``group``: rows of tiles that are computed together, see `nvdsl.kernels.blocks.tile_scheduler`.
    ``in_flight``: groups of wgmma left in flight while the next slot is waited for, 0 or 1.
    ``store_buffers``: pieces (64 rows of 128 bytes) of the result that each consumer can have on the way out.
    """

    tile_m: int = 128
    tile_n: int = 256
    tile_k: int = 64
    stages: int = 4
    schedule: str = "cooperative"
    consumers: int = 2
    cluster_m: int = 1
    cluster_n: int = 1
    group: int = 8
    in_flight: int = 1
    store_buffers: int = 2
    split: int = 1
    parts: int = 1
    along: str = "m"
    swap_ab: bool = False

    def changed(self, **fields: Any) -> Config:
        """As `dataclasses.replace`, in a tenth of the time: a choice lists a thousand."""
        made = object.__new__(Config)
        vars(made).update(vars(self), **fields)
        return made

    def check_counts(self) -> None:
        """Raise ArgumentError for a size that is none: whatever else is asked computes with them."""
        counts = {k: v for k, v in vars(self).items() if k not in ("schedule", "in_flight", "along", "swap_ab")}
        for name, value in counts.items():
            nv.require(type(value) is int and value >= 1, f"Config({name}={value!r})",
                       rule=f"{name} is a whole number from 1 on", fix="leave it out")  # fmt: skip

    @property
    def threads(self) -> int:
        """Threads of a block: one producer warpgroup, and the consumers."""
        return 128 * (1 + self.consumers)

    @property
    def rows(self) -> int:
        """Rows of the result that one consumer sums."""
        return self.tile_m // self.consumers if self.shared_tile and self.along == "m" else self.tile_m

    @property
    def cols(self) -> int:
        """Columns of the result that one consumer sums."""
        return self.tile_n // self.consumers if self.shared_tile and self.along == "n" else self.tile_n

    @property
    def shared_tile(self) -> bool:
        """Whether the consumers share a tile: all of them read every slot of the ring."""
        return self.schedule in ("cooperative", "splitk")

    @property
    def rolls(self) -> bool:
        """Whether consumers come to a tile's end one half of their rows after the other, see `rolling`: with two blocks
        of 64 rows each."""
        return self.schedule == "cooperative" and self.in_flight == 1 and self.rows == 128

    @property
    def cluster(self) -> int:
        """Blocks of a cluster."""
        return self.cluster_m * self.cluster_n

    @property
    def sharers(self) -> tuple[int, int]:
        """Blocks that load a tile of A, and of B, together."""
        return self.cluster_n, self.cluster_m

    @property
    def registers(self) -> tuple[int, int]:
        """Registers of a thread of the producer and of a consumer. Split-K leaves them as they are: where sums are few,
        two blocks fit on an SM."""
        if self.schedule == "splitk":
            return (arch.launch_registers(self.threads),) * 2
        if self.consumers == 2 and self.rows * self.cols > 128 * MANY_SUMS:
            return REGISTERS_BESIDE
        return REGISTERS[self.consumers]

    def tiles(self, m: int, n: int) -> int:
        """Tiles of an ``m x n`` result (``n x m``, where operands are swapped); of a cluster's neighbouring ones, one
        counts."""
        return nv.cdiv(m, self.tile_m * self.cluster_m) * nv.cdiv(n, self.tile_n * self.cluster_n)

    def slot_bytes(self, dtype: nv.DType, b_major: str = "mn") -> int:
        """Bytes of A and B in one slot of the ring. An N-major tile of B takes whole panels of 128 bytes."""
        panel = 1 if b_major == "k" else 128 // dtype.bytes
        return (self.tile_m + nv.cdiv(self.tile_n, panel) * panel) * self.tile_k * dtype.bytes

    def smem_bytes(self, dtype: nv.DType, b_major: str = "mn") -> int:
        """Shared memory of a block, in bytes: the ring, the pieces on the way out, the barriers; with split-K also the
        sums that it is given."""
        return self.stages * self.stage_bytes(dtype, b_major) + self.beside_the_ring(self.store_buffers)

    def stage_bytes(self, dtype: nv.DType, b_major: str = "mn") -> int:
        """Shared memory of one stage: a slot of the ring and its two barriers."""
        return self.slot_bytes(dtype, b_major) + 2 * arch.MBARRIER_BYTES

    def beside_the_ring(self, store_buffers: int) -> int:
        """Shared memory of the pieces on the way out, where each consumer can have so many, and of split-K's sums."""
        return self.consumers * store_buffers * 64 * 128 + (0 if self.sums_in_ring else self.sum_bytes)

    @property
    def sum_bytes(self) -> int:
        """Of the sums (of 32 bits) that the blocks of a cluster give each other."""
        return self.tile_m * self.tile_n * 4 * (self.split - 1) // self.split

    @property
    def sums_in_ring(self) -> bool:
        """Whether these are given when no slot of the ring is used any more, in its memory. That takes a barrier of the
        cluster after the main loop, which is worth it where K is long."""
        return self.schedule == "splitk" and self.parts > 1

    def stores_wide(self, dtype: nv.DType, out_dtype: nv.DType, b_major: str = "mn") -> bool:
        """Whether a consumer with 128 rows of a result's transpose stores 64 of them in two pieces: in 16 bits, if
        these were more, and there is room beside the ring. ``b_major``: as in `problems`."""
        if not self.swap_ab or self.schedule != "cooperative" or out_dtype.bits != 16:
            return False
        if self.rows != 128 or self.cols <= 128:
            return False
        pieces = self.consumers * 2 * nv.cdiv(self.cols, 16) * 8 * 128
        return self.stages * self.stage_bytes(dtype, b_major) + pieces <= arch.MAX_SMEM_PER_BLOCK

    def accumulator_registers(self, acc_dtype: nv.DType) -> int:
        """Registers of a consumer's thread that hold sums."""
        return self.rows * self.cols * acc_dtype.bits // (128 * 32)

    def stores_without_tma(self, out_dtype: nv.DType, acc_dtype: nv.DType, epilogue: bool) -> bool:
        """Whether a consumer's thread has the registers for it."""
        needed = WITHOUT_TMA_BESIDE if epilogue else WITHOUT_TMA.get(self.schedule, 40)
        if self.swap_ab and out_dtype.bits == 32:
            needed = max(needed, WITHOUT_TMA_TURNED)
        return self.registers[1] - self.accumulator_registers(acc_dtype) >= needed

    def problems(
        self, dtype: nv.DType, out_dtype: nv.DType, acc_dtype: nv.DType, b_major: str = "mn", a_major: str = "k"
    ) -> list[str]:
        """Why the hardware or the kernels can't run it; empty where they can. ``b_major``, ``a_major``: of what is B,
        and A, to the kernel, where operands are swapped the product's A, and B."""
        return list(self._problems(dtype, out_dtype, acc_dtype, b_major, a_major))

    def fits(self, dtype: nv.DType, out_dtype: nv.DType, acc_dtype: nv.DType, b_major: str, a_major: str) -> bool:
        """Whether there are no `problems`. (A choice asks a thousand.)"""
        return next(self._problems(dtype, out_dtype, acc_dtype, b_major, a_major), None) is None

    def _problems(
        self, dtype: nv.DType, out_dtype: nv.DType, acc_dtype: nv.DType, b_major: str, a_major: str
    ) -> Iterator[str]:
        rows, cols, cluster, shared, consumers = self.rows, self.cols, self.cluster, self.shared_tile, self.consumers
        if self.schedule not in SCHEDULES:
            yield f"schedule is one of {SCHEDULES}, not {self.schedule!r}"
        if consumers not in REGISTERS:
            yield f"1 to 3 consumer warpgroups, not {self.consumers}"
        if not shared and consumers != 2:
            yield "two consumers play ping-pong"
        if cluster != 1 and self.schedule not in SCHEDULES[:2]:
            yield f"{self.schedule} works without clusters of tiles"
        if self.split not in SPLITS.get(self.schedule, (1,)):
            yield f"{self.schedule} with split {self.split}"
        if self.parts != 1 and not (self.schedule in ("cooperative", "splitk") and 1 <= self.parts <= 128):
            yield f"{self.schedule} with parts {self.parts}: 1, with cooperative and splitk to 128"
        if self.along not in ("m", "n"):
            yield f"along is 'm' or 'n', not {self.along!r}"
        if self.along != "m" and self.schedule != "cooperative":
            yield f"{self.schedule} divides tiles along m"
        if self.along != "m" and b_major != "k" and cols * dtype.bytes % 128:
            yield f"{self.cols} columns a consumer of a B with N contiguous: whole panels of 128 bytes with along 'n'"
        turned = a_major == "mn" and dtype.bits != 16  # A comes from registers
        if turned and not (shared and (rows, cluster) == (64, 1)):
            yield (
                f"{self.rows} rows a consumer of an A of {dtype.name} with M contiguous, which consumers read into "
                "registers: they share a tile, 64 rows each, and blocks load alone"
            )
        if self.swap_ab:
            if self.schedule == "streamk":
                yield f"{self.schedule} with swapped operands"
            if self.parts != 1 and self.schedule != "splitk":
                yield f"{self.schedule} with parts {self.parts} with swapped operands"
            if out_dtype.bits <= 8:
                yield f"a result of {out_dtype.name} with swapped operands"
        # Of columns: what wgmma multiplies at a time (PTX ISA, wgmma.mma_async: shapes), and TMA stores.
        unit = 16 if dtype.bits == 8 and not acc_dtype.is_float or out_dtype.bits == 8 else 8
        if cols % (unit * self.split):
            yield f"{self.cols} columns: each of {self.split} blocks stores n * {unit}"
        if rows <= 0 or rows % 64:
            yield f"{self.rows} rows a consumer: wgmma takes 64 at a time"
        if not 8 <= cols <= 256 or cols % unit:
            yield f"tile_n {self.tile_n}: {self.cols} columns a consumer, not a multiple of {unit} up to 256"
        if self.tile_m % (8 * self.cluster_n) or self.tile_n % (8 * self.cluster_m):
            yield (
                f"a tile of {self.tile_m}x{self.tile_n} in a cluster of {self.cluster_m}x{self.cluster_n}: each "
                "block loads n * 8 rows of what they share"
            )
        if self.tile_k * dtype.bytes != 128:
            yield f"tile_k {self.tile_k} of {dtype.name}: 128 bytes, the swizzle's width"
        if self.stages < 2:
            yield f"{self.stages} stages: one is filled while another is multiplied"
        if self.sums_in_ring and self.stages * max(self.tile_m, self.tile_n) * 128 < self.sum_bytes:
            yield f"{self.stages} stages: the sums of a tile, {self.sum_bytes:,} bytes, go where A or B was"
        if self.in_flight not in (0, 1):
            yield f"{self.in_flight} groups in flight: 0 or 1"
        if self.store_buffers < 1 or self.group < 1:
            yield "at least one store buffer, and one row a group"
        if cluster not in (1, 2, 4, 8):
            yield f"a cluster of {self.cluster} blocks: 1, 2, 4 or 8"
        smem = self.smem_bytes(dtype, b_major)
        if smem > arch.MAX_SMEM_PER_BLOCK:
            yield f"{smem:,} bytes of shared memory, where a block has {arch.MAX_SMEM_PER_BLOCK:,}"
        registers = self.accumulator_registers(acc_dtype) + SPARE_REGISTERS
        if consumers in REGISTERS and registers > self.registers[1]:
            yield f"{registers} registers a consumer's thread"
        launched = arch.launch_registers(self.threads)
        if cols * acc_dtype.bits // 64 + BESIDE_ONE + (OF_A if turned else 0) > launched:
            yield (
                f"{self.cols} columns a consumer of {self.threads} threads: the sums of one wgmma don't fit into "
                f"the {launched} registers that a thread is launched with"
            )

    def check(
        self, dtype: nv.DType, out_dtype: nv.DType, acc_dtype: nv.DType, b_major: str = "mn", a_major: str = "k"
    ) -> None:
        """Raise ArgumentError that names everything that is wrong."""
        problems = self.problems(dtype, out_dtype, acc_dtype, b_major, a_major)
        nv.require(
            not problems,
            f"{self} of {dtype.name}: " + "; ".join(problems),
            rule="a kernel fits into an SM's registers and shared memory, and wgmma's and TMA's shapes",
            fix="choose a smaller tile or fewer stages",
        )
