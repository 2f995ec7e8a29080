"""What a traced kernel asks of an SM, before anything is compiled: the arch model that prunes configurations.

It refuses only what can't be fast or can't run at all. Rules of the hardware that `nvdsl.verify` knows (shared memory,
setmaxnreg) are not repeated here.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from typing import Any

from nvdsl.errors.records import dataclass
from nvdsl.hopper import arch
from nvdsl.ir.operands import integer, launch_sizes, launch_smem
from nvdsl.ir.walk import constant, find


@dataclass(frozen=True)
class Footprint:
    """One launch. ``blocks``: of the grid, None where the host computes it. ``carried``: 32-bit registers of a thread
    that a loop carries (accumulators above all). ``registers``: the most a thread of it can have."""

    blocks: int | None
    threads: int
    smem_bytes: int
    carried: int
    registers: int

    def problem(self) -> str | None:
        """Why such a kernel is not worth compiling."""
        if self.threads > arch.MAX_THREADS_PER_BLOCK:
            return f"{self.threads} threads, a block has at most {arch.MAX_THREADS_PER_BLOCK}"
        if self.carried > self.registers:
            return f"must spill: a loop carries {self.carried} registers a thread, which has {self.registers}"
        return None

    def resident(self) -> int:
        """Blocks of it that fit on one SM, by threads and shared memory."""
        smem = self.smem_bytes + arch.RESERVED_SMEM_PER_BLOCK
        by_threads = arch.MAX_THREADS_PER_SM // self.threads
        return max(1, min(by_threads, arch.SMEM_PER_SM // smem, arch.MAX_BLOCKS_PER_SM))

    def fill(self, sms: int) -> float:
        """The share of the SMs' time that has a block to work on, if all blocks take equally long; 1 if unknown."""
        if not self.blocks:
            return 1.0
        return self.blocks / (math.ceil(self.blocks / sms) * sms)


def footprints(module: Any) -> list[Footprint]:
    """Of each launch of a traced module, in program order."""
    with module.context:
        return [_footprint(launch) for launch in find(module, "gpu.launch")]


def fill(prints: list[Footprint], sms: int) -> float:
    """Of the launch that fills the GPU best: small ones before or after it don't decide."""
    return max((p.fill(sms) for p in prints), default=1.0)


def _footprint(launch: Any) -> Footprint:
    grid, block, _ = launch_sizes(launch)
    sizes = [constant(size) for size in grid]
    blocks = None if None in sizes else math.prod(sizes)  # type: ignore[arg-type]
    threads = math.prod(constant(size) or 1 for size in block)
    smem, carried = launch_smem(launch) or 0, max(_carried(launch), default=0)
    return Footprint(blocks, threads, smem, carried, _registers(launch, threads))


def _registers(launch: Any, threads: int) -> int:
    """Of one thread: its share of the SM's, or what setmaxnreg raises it to."""
    share = arch.REGISTERS_PER_SM // max(threads, 1) // 8 * 8
    raised = [integer(op, "regCount") for op in find(launch, "nvvm.setmaxregister")]
    return min(max([share, *raised]), arch.MAX_REGISTERS_PER_THREAD)


def _carried(launch: Any) -> Iterator[int]:
    for loop in find(launch, "scf.for", "scf.while"):
        yield sum(_words(str(result.type)) for result in loop.results)


_BITS = re.compile(r"(?:[fiu]|bf|tf)(\d+)")


def _words(ty: str) -> int:
    """32-bit registers of a value: ``f32`` is 1, ``vector<4xf16>`` is 2, a struct is its fields."""
    if ty.startswith("!llvm.struct<"):
        return sum(_words(field.strip(" ()<>")) for field in ty[len("!llvm.struct<") :].split(","))
    if ty.startswith("vector<"):
        *dims, element = ty[len("vector<") : -1].split("x")
        return -(-math.prod(map(int, dims)) * _bits(element) // 32)
    return -(-_bits(ty) // 32)


def _bits(ty: str) -> int:
    found = _BITS.search(ty)
    return int(found[1]) if found else 32
