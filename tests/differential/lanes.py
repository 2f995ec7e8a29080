"""What lanes of a warp give each other: shuffles, votes, stmatrix and ldmatrix; atomics of all threads."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

import nvdsl as nv
from nvdsl.mlir.dialects import arith, memref
from nvdsl.ops.pointer import index
from tests.differential import inputs
from tests.differential.case import Call, Case, Result, dtype


@dataclass(frozen=True)
class Shuffles(Case):
    """Shuffles of a 32-bit type by ``by`` (or by a number of each lane's own), votes and ballots."""

    kind = "shuffles"
    element: str
    by: int
    own: bool
    threads: int
    seed: int

    def call(self) -> Call:
        names = ["idx", "xor", "up", "down", "ballot", "any", "all", "lane", "warp"]

        @nv.jit
        def shuffles(x, by, out, found):
            @nv.kernel(grid=1, block=self.threads)
            def kernel():
                t = nv.thread_id.x
                value, n = x[t], by[t] if self.own else self.by
                out[0, t] = nv.shuffle(value, n)
                out[1, t] = nv.shuffle_xor(value, n)
                out[2, t] = nv.shuffle_up(value, n)
                out[3, t] = nv.shuffle_down(value, n)
                condition = value > x[self.by]
                found[0, t] = nv.ballot(condition)
                found[1, t] = nv.i32(nv.vote_any(condition))
                found[2, t] = nv.i32(nv.vote_all(value == value))
                found[3, t] = nv.lane_id()
                found[4, t] = nv.warp_id()

            kernel()

        x = inputs.mixed(self.element, self.threads, self.seed)
        by = np.random.default_rng(self.seed).integers(0, 32, self.threads, np.int32)
        out = np.zeros((4, self.threads), x.dtype)
        found = np.zeros((5, self.threads), np.int32)
        return Call(
            shuffles, [x, by, out, found], lambda: [Result(n, r) for n, r in zip(names, [*out, *found], strict=True)]
        )


@dataclass(frozen=True)
class Matrices(Case):
    """ldmatrix of ``count`` 8x8 matrices at rows in any order, then stmatrix to rows in another order."""

    kind = "matrices"
    count: int
    transpose_load: bool
    transpose_store: bool
    seed: int

    def call(self) -> Call:
        @nv.jit
        def matrices(x, order, registers, y):
            @nv.kernel(grid=1, block=32)
            def kernel():
                source, target = nv.smem(256, nv.i16), nv.smem(256, nv.i16)
                t = nv.thread_id.x
                for i in range(8):
                    source[i * 32 + t] = x[i * 32 + t]
                    target[i * 32 + t] = nv.i16(-1)
                nv.sync_threads()
                loaded = nv.ldmatrix(_row(source, order[0, t]), self.count, transpose=self.transpose_load)
                for i, register in enumerate(loaded):
                    registers[i, t] = register
                nv.stmatrix(_row(target, order[1, t]), loaded, transpose=self.transpose_store)
                nv.sync_threads()
                for i in range(8):
                    y[i * 32 + t] = target[i * 32 + t]

            kernel()

        generator = np.random.default_rng(self.seed)
        x = generator.integers(-(2**15), 2**15, 256, np.int16)
        order = np.array([generator.permutation(32) for _ in range(2)], np.int32)
        registers, y = np.zeros((4, 32), np.int32), np.zeros(256, np.int16)
        return Call(matrices, [x, order, registers, y], lambda: [Result("registers", registers), Result("y", y)])


def _row(array: Any, row: Any) -> Any:
    from nvdsl.ops.pointer import address_of

    return address_of(array, row * 16)


ATOMICS = {
    "i32": ("addi", "maxs", "mins", "maxu", "minu", "ori", "andi", "xori"),
    "i64": ("addi", "maxs", "mins"),
    "f32": ("addf",),
}


@dataclass(frozen=True)
class Atomics(Case):
    """Every thread of four blocks combines its value into one of a few elements; the order makes no difference."""

    kind = "atomics"
    element: str
    how: str
    bins: int
    seed: int

    def call(self) -> Call:
        kind = getattr(arith.AtomicRMWKind, self.how)

        @nv.jit
        def atomics(x, bins):
            @nv.kernel(grid=4, block=64)
            def kernel():
                t = nv.block_id.x * 64 + nv.thread_id.x
                memref.atomic_rmw(kind, x[t], bins, [index(t * 7 % self.bins)])

            kernel()

        x = inputs.mixed(self.element, 256, self.seed)
        if self.element == "f32":
            x = np.random.default_rng(self.seed).integers(-1000, 1000, 256).astype(np.float32)
        bins = np.full(self.bins, 5, dtype(self.element).numpy)
        return Call(atomics, [x, bins], lambda: [Result("bins", bins)])
