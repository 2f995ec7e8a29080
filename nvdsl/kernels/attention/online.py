"""The softmax over one tile of keys after the other: what a consumer warpgroup does in a step of its main loop."""

from __future__ import annotations

import functools
import math
import operator
from typing import Any, NamedTuple

import nvdsl as nv
from nvdsl.kernels.attention.config import Config
from nvdsl.kernels.attention.load import Loads
from nvdsl.kernels.attention.query_rows import QueryRows
from nvdsl.kernels.attention.scores import Rows, Scores
from nvdsl.kernels.attention.tiles import Steps
from nvdsl.kernels.attention.turned import operand
from nvdsl.kernels.blocks.clamped_index import opaque
from nvdsl.ops import smem


class Sums(NamedTuple):
    """What a step takes and gives. ``acc``: O so far, without the product of ``p``, the last tile's weights, and its
    values; ``m``, ``total``: maxima and sums of the rows; ``ks``, ``vs``: the next tile of K, and the last one of V."""

    acc: Any
    p: Any
    m: Any
    total: Any
    ks: Any
    vs: Any


class Online:
    """The steps of consumer ``me``. Made in the kernel."""

    def __init__(self, config: Config, loads: Loads, scores: Scores, turns: nv.Turns | None, me: Any) -> None:
        self._config, self._loads, self._scores, self._turns, self._me = config, loads, scores, turns, me

    def _products(self, sums: Sums, queries: QueryRows) -> tuple[Any, Any]:
        """Issue the scores of a tile of keys, and then the product of the weights before; wait for the scores."""
        loads, turns = self._loads, self._turns
        loads.k_ring.wait(sums.ks)
        if turns is not None:
            turns.wait(self._me)
        s = queries.scores(loads.K[sums.ks.stage])
        acc = sums.acc
        acc += sums.p @ loads.values(sums.vs.stage)
        if turns is not None:
            turns.pass_on(self._me)
        nv.wgmma_wait(1)
        return s, acc

    def first(self, queries: QueryRows, ks: Any, vs: Any, rows: Rows, key: Any) -> Sums:
        """The first tile of keys, from ``key`` on, of which some may not be seen."""
        loads = self._loads
        loads.k_ring.wait(ks)
        s = queries.scores(loads.K[ks.stage])
        nv.wgmma_wait(0)
        loads.k_ring.release(ks, nv.lane_id() == 0)
        s = self._scores.seen(self._scores.of(s, rows, key), rows, key)
        m = s.max(axis=1)
        weights = self._weights(s, nv.where(m == -math.inf, 0.0, m))
        acc = nv.accumulator(64, self._config.sizes[1])
        return Sums(acc, self._rounded(weights), m, weights.sum(axis=1, partial=True), ks.next(), vs)

    def others(self, sums: Sums, queries: QueryRows, rows: Rows, steps: Steps, bounded: tuple[bool, bool]) -> Sums:
        """All tiles of keys behind the first one. ``bounded``: see `forward.attention`."""
        config, last = self._config, steps.count - steps.masked_last
        step = self.lazy_step if config.lazy else self.step

        def masked(i: Any) -> Any:
            """Whether some queries don't see all keys of step ``i``."""
            found = i < steps.masked if bounded[1] else False
            return found | (i >= last) if bounded[0] else found

        ranges: Any = [(1, steps.count, step, masked)]
        if config.itemsize == 1 and any(bounded):  # with a loop for each kind this takes 5 % less time
            middle = nv.min(steps.masked + config.more_maxima, last) if bounded[1] else 1
            ranges = [(1, middle, self.step, lambda _: True)] if bounded[1] else []
            ranges += [(middle, last, step, lambda _: False)]
            ranges += [(last, steps.count, self.step, lambda _: True)] if bounded[0] else []
        for begin, end, take, hides in ranges:
            for i in nv.range(begin, end, unroll=False):
                sums = take(sums, queries, rows, (steps.top - i) * config.tile_n, hides(i))
        return sums

    def step(self, sums: Sums, queries: QueryRows, rows: Rows, key: Any, masked: Any) -> Sums:
        """A tile of keys, of which the first one is ``key``. ``masked``: whether some are not to be seen, False or
        traced."""
        loads, scores, config, lane = self._loads, self._scores, self._config, nv.lane_id()
        m, factor = sums.m, scores.factor
        s, acc = self._products(sums, queries)
        loads.k_ring.release(sums.ks, lane == 0)
        s = scores.of(s, rows, key, whole=True)  # the last key is in the first tile
        if masked:
            s = scores.seen(s, rows, key)
        grown = nv.maximum(m, s.max(axis=1))
        needed = nv.vote_any((grown - m) * factor > config.rescale_at)
        grown = nv.where(needed, grown, m)
        base = grown if masked is False and not scores.hides else nv.where(grown == -math.inf, 0.0, grown)
        scaled = self._scaled(m, base)
        weights = self._weights(s, base)
        total = sums.total * scaled + weights.sum(axis=1, partial=True)
        nv.sched_barrier(total)
        self._values(sums)
        if needed:
            acc = acc * scaled[:, None]
        return Sums(acc, self._rounded(weights), grown, total, sums.ks.next(), sums.vs.next())

    def lazy_step(self, sums: Sums, queries: QueryRows, rows: Any, key: Any, masked: Any) -> Sums:
        """A tile of keys, of which the first one is ``key``. The maxima of before are subtracted, unless sums grow
        large, or ``masked``, a bool or traced: some keys are not to be seen then, and rows have seen few before."""
        m, total = sums.m, sums.total
        s, acc = self._products(sums, queries)
        s = self._scores.of(s, rows, key)
        scaled = base = self._subtracted(m)  # -infinity gives infinite weights, which are large
        if masked:  # what is assigned here has registers of its own beside it, and few are free
            s = self._scores.seen(s, rows, key)
            before, m = m, nv.maximum(m, s.max(axis=1))
            seen = nv.where(m == -math.inf, 0.0, m)
            scaled, base = self._scaled(before, seen), self._subtracted(seen)
            total = total * scaled
        weights = nv.math.exp2_approx(s * self._scores.factor - base[:, None])
        part = weights.sum(axis=1, partial=True)
        nv.sched_barrier(part)
        self._values(sums)
        p, after = self._rounded(weights), total + part
        large = functools.reduce(operator.or_, [~(x < self._config.large) for x in part.of_this_thread()])
        if masked:
            acc = acc * scaled[:, None]
        elif nv.vote_any(large):
            acc, p, m, after = self._again(acc, p, m, total, queries, sums.ks, rows)
        self._loads.k_ring.release(sums.ks, nv.lane_id() == 0)
        return Sums(acc, p, m, after, sums.ks.next(), sums.vs.next())

    def _again(
        self, acc: Any, p: Any, m: Any, total: Any, queries: QueryRows, ks: Any, rows: Any
    ) -> tuple[Any, Any, Any, Any]:
        """A tile of keys once more, from new maxima. Its scores are found by mma.sync, each warp's by itself, so that
        the four need not meet in each step; and a few keys at a time, since registers are scarce."""
        some = 32 // self._config.itemsize  # of a step of the product with the values
        grown = m
        for key in nv.range(0, self._config.tile_n, some, unroll=False):
            grown = nv.maximum(grown, self._scores_of(queries, ks, rows, key, some).max(axis=1))
        base = nv.where(grown == -math.inf, 0.0, grown)
        scaled = self._scaled(m, base)
        total, words = total * scaled, _words(p)
        for key in nv.range(0, self._config.tile_n, some, unroll=False):
            weights = self._weights(self._scores_of(queries, ks, rows, key, some), base)
            total = total + weights.sum(axis=1, partial=True)
            new = _words(self._rounded(weights))
            words = [nv.select(key == i // len(new) * some, new[i % len(new)], x) for i, x in enumerate(words)]
        nv.sync_warp()  # lane 0 releases the tile for all
        steps = [words[i : i + 4] for i in range(0, len(words), 4)]
        return acc * scaled[:, None], nv.Fragment(64, self._config.tile_n, p.dtype, [steps]), grown, total

    def _scores_of(self, queries: QueryRows, ks: Any, rows: Any, key: Any, count: int) -> Any:
        """Of ``count`` keys of a tile, from number ``key`` on."""

        tile_k, width = self._loads.K[ks.stage], 32 // self._config.itemsize  # of a step along the head
        # LLVM and ptxas would keep addresses during the main loop: they don't know that this adds 0.
        lane = nv.lane_id() + (opaque(ks.stage)[0] >> 16)
        row, col = key + lane % 8 + lane // 16 * 8, lane // 8 % 2 * (width // 2)
        blocks = [nv.warp_accumulator(16, 8) for _ in range(0, count, 8)]
        for at in range(0, self._config.sizes[0], width):
            nv.sync_warp()
            a = queries.of_warp(at, lane)
            for i in range(0, len(blocks), 2):
                b = smem.ldmatrix(tile_k.pointer(tile_k.layout.offset(i * 8 + row, at + col)), 4)
                for j in range(2):
                    blocks[i + j] += a @ nv.WarpFragment("b", (width, 8), queries.dtype, b[2 * j : 2 * j + 2])
        s = nv.accumulator(64, count).with_registers([[x for block in blocks for x in block.registers()]])
        return self._scores.of(s, rows, key)

    def _weights(self, s: Any, base: Any) -> Any:
        """Of scores, from which ``base`` is subtracted."""
        factor, lift = self._scores.factor, self._config.lift
        if self._scores.told:  # a mask may be of the least of all numbers: its product would be rounded by more than 1
            powers = (s - base[:, None]) * factor + lift
        else:
            powers = s * factor - self._subtracted(base)[:, None]
        return nv.math.exp2_approx(powers)

    def _subtracted(self, base: Any) -> Any:
        """From scores in logarithms to base 2, where ``base`` is from scores."""
        return base * self._scores.factor - self._config.lift

    def _scaled(self, m: Any, base: Any) -> Any:
        """What sums are multiplied with from which ``m`` was subtracted, and ``base`` is now."""
        factor = self._scores.factor
        return nv.math.exp2_approx((m - base) * factor if self._scores.told else m * factor - base * factor)

    def _rounded(self, weights: Any) -> Any:
        """As an operand."""
        return (
            weights.to(self._loads.dtype).operand()
            if self._config.itemsize == 2
            else operand(weights, self._loads.dtype)
        )

    def _values(self, sums: Sums) -> None:
        """Wait for the next values, which keeps the exponentials before it, and for the product of the last ones."""
        v_ring = self._loads.v_ring
        v_ring.wait(sums.vs.next())
        nv.wgmma_wait(0)
        v_ring.release(sums.vs, nv.lane_id() == 0)


def _words(operand: Any) -> list[Any]:
    """The registers of 64 rows of an A operand."""
    return [word for step in operand.registers[0] for word in step]
