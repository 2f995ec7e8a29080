"""A call of everything that emits ops: for each public name, a small piece of a kernel.

`EXAMPLES` maps "module.name" to one; `arena` calls it, and it returns the values that it made.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import nvdsl as nv
from nvdsl.mlir import ir
from nvdsl.mlir.dialects import llvm, vector
from nvdsl.ops import tma
from nvdsl.values import traced


@dataclass
class Example:
    """``runs``: the simulator runs it to its end; others leave something behind, and are only decoded."""

    call: Callable[[Any], Any]
    runs: bool


EXAMPLES: dict[str, Example] = {}


def example(*names: str, runs: bool = True) -> Any:
    def register(call: Callable[[Any], Any]) -> Callable[[Any], Any]:
        for name in names:
            assert name not in EXAMPLES, name
            EXAMPLES[name] = Example(call, runs)
        return call

    return register


class Arena:
    """What examples work with: a block's thread ``t``, arrays, tiles, mbarriers (of one arrival), tensor maps."""

    def __init__(self, x: Any, halves: Any, counter: Any, maps: Any) -> None:
        self.x, self.halves, self.counter, (self.a_tma, self.raw) = x, halves, counter, maps
        self.t = nv.thread_id.x
        self.f, self.i = x[self.t] + 0.5, self.t + 1
        self.A, self.B = (nv.smem((64, 64), nv.f16, swizzle=128) for _ in range(2))
        self.line = nv.smem((512,), nv.f16)
        self.bars = nv.Mbarriers(2, arrivals=1)
        self.first = self.t == 0

    def product(self, dtype: Any = nv.f32, n: int = 64) -> Any:
        """A finished accumulator of zeros."""
        self.fill()
        acc = nv.accumulator(64, n, dtype)
        acc += self.A @ self.B
        nv.wgmma_wait(0)
        return acc

    def fill(self) -> None:
        for i in nv.range(32):
            for tile in (self.A, self.B):
                tile[2 * i + self.t // 64, self.t % 64] = 0.0
        nv.fence_proxy_async()
        nv.sync_threads()


@nv.jit
def arena(x, out, halves, counter, *, call, blocks):
    a_tma = nv.TMA(halves, tile=(64, 64), swizzle=128)
    raw = tma.TMA([64, 64], halves.type)
    raw.create_descriptor(halves)

    @nv.kernel(grid=blocks, block=128, cluster=blocks)
    def kernel():
        found = call(Arena(x, halves, counter, (a_tma, raw)))
        for value in found if isinstance(found, (list, tuple)) else [] if found is None else [found]:
            # What is stored can't be taken for dead.
            out[nv.block_id.x * 128 + nv.thread_id.x] = first_element(value)

    kernel()


def first_element(value):
    value = traced.as_value(value)
    while value.shape:
        value = value[(0,) * len(value.shape)]
    return nv.f32(value)


def pair(x, dtype):
    """A vector of ``x`` and its double."""
    return traced.wrap(vector.from_elements(ir.VectorType.get([2], dtype.ir), [dtype(x), dtype(x * 2.0)]), dtype)


def address(pointer):
    """A pointer as an i32."""
    return llvm.ptrtoint(ir.IntegerType.get_signless(32), pointer)


from tests.sim.examples import atomics, instructions, numbers, tiles  # noqa: E402, F401  (fill EXAMPLES)
