"""The softmax over one tile of keys after the other: what a consumer warpgroup does in a step of its main loop."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import nvdsl as nv
from nvdsl.kernels.attention.config import LARGE, Config
from nvdsl.kernels.attention.load import Loads
from nvdsl.kernels.attention.scores import Rows, Scores
from nvdsl.kernels.attention.turned import operand, saturated


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
    """The steps of consumer ``me``. ``tile_q``: its rows of Q. Made in the kernel."""

    def __init__(self, config: Config, loads: Loads, scores: Scores, turns: nv.Turns | None, me: Any) -> None:
        self._config, self._loads, self._scores, self._turns, self._me = config, loads, scores, turns, me

    def _products(self, sums: Sums, tile_q: Any) -> tuple[Any, Any]:
        """Issue the scores of a tile of keys, and then the product of the weights before; wait for the scores."""
        loads, turns = self._loads, self._turns
        loads.k_ring.wait(sums.ks)
        if turns is not None:
            turns.wait(self._me)
        s = nv.accumulator(64, self._config.tile_n)
        s += tile_q @ loads.K[sums.ks.stage].T
        acc = sums.acc
        acc += sums.p @ loads.values(sums.vs.stage)
        if turns is not None:
            turns.pass_on(self._me)
        nv.wgmma_wait(1)
        return s, acc

    def first(self, tile_q: Any, ks: Any, vs: Any, rows: Rows, key: Any) -> Sums:
        """The first tile of keys, from ``key`` on, of which some may not be seen."""
        loads = self._loads
        loads.k_ring.wait(ks)
        s = nv.accumulator(64, self._config.tile_n)
        s += tile_q @ loads.K[ks.stage].T
        nv.wgmma_wait(0)
        loads.k_ring.release(ks, nv.lane_id() == 0)
        s = self._scores.of(s, rows, key, True)
        m = s.max(axis=1)
        weights = self._weights(s, nv.where(m == -math.inf, 0.0, m))
        acc = nv.accumulator(64, self._config.sizes[1])
        return Sums(acc, self._rounded(weights), m, weights.sum(axis=1, partial=True), ks.next(), vs)

    def step(self, sums: Sums, tile_q: Any, rows: Rows, key: Any, masked: bool) -> Sums:
        """A tile of keys, of which the first one is ``key``. ``masked``: some are not to be seen."""
        loads, scores, config, lane = self._loads, self._scores, self._config, nv.lane_id()
        m, factor = sums.m, scores.factor
        s, acc = self._products(sums, tile_q)
        loads.k_ring.release(sums.ks, lane == 0)
        s = scores.of(s, rows, key, masked)
        grown = nv.maximum(m, s.max(axis=1))
        needed = nv.vote_any((grown - m) * factor > config.rescale_at)
        grown = nv.where(needed, grown, m)
        base = nv.where(grown == -math.inf, 0.0, grown) if masked or scores.told else grown
        scaled = self._scaled(m, base)
        weights = self._weights(s, base)
        total = sums.total * scaled + weights.sum(axis=1, partial=True)
        nv.sched_barrier(total)
        self._values(sums)
        if needed:
            acc = acc * scaled[:, None]
        return Sums(acc, self._rounded(weights), grown, total, sums.ks.next(), sums.vs.next())

    def lazy_step(self, sums: Sums, tile_q: Any, rows: Rows, key: Any) -> Sums:
        """A tile of keys that are all seen: the maxima of before are subtracted, unless sums grow large."""
        loads, scores, me, m = self._loads, self._scores, self._me, sums.m
        s, acc = self._products(sums, tile_q)
        s = scores.of(s, rows, key, False)
        weights = self._weights(s, m)  # -infinity gives infinite weights, which are large
        part = weights.sum(axis=1, partial=True)
        nv.sched_barrier(part)
        if self._config.itemsize == 2:
            large = nv.named_barrier_any(1 + me, 128, ~(sum(part.of_this_thread()) < LARGE))
            self._values(sums)
            p = self._rounded(weights)
        else:  # their registers are those of the product that is waited for
            self._values(sums)
            p = self._rounded(weights)
            large = nv.named_barrier_any(1 + me, 128, saturated(p))
        total = sums.total + part
        if nv.vote_any(large):  # ptxas knows then that a warp's lanes go the same way
            s = nv.accumulator(64, self._config.tile_n)
            s += tile_q @ loads.K[sums.ks.stage].T
            nv.wgmma_wait(0)
            s = scores.of(s, rows, key, False)
            grown = nv.maximum(m, s.max(axis=1))
            base = nv.where(grown == -math.inf, 0.0, grown)
            scaled = self._scaled(m, base)
            weights = self._weights(s, base)
            p, total = self._rounded(weights), sums.total * scaled + weights.sum(axis=1, partial=True)
            acc, m = acc * scaled[:, None], grown
        loads.k_ring.release(sums.ks, nv.lane_id() == 0)
        return Sums(acc, p, m, total, sums.ks.next(), sums.vs.next())

    def _weights(self, s: Any, base: Any) -> Any:
        """Of scores, from which ``base`` is subtracted."""
        factor, lift = self._scores.factor, self._config.lift
        if self._scores.told:  # a mask may be of the least of all numbers: its product would be rounded by more than 1
            powers = (s - base[:, None]) * factor + lift
        else:
            powers = s * factor - (base * factor - lift)[:, None]
        return nv.math.exp2_approx(powers)

    def _scaled(self, m: Any, base: Any) -> Any:
        """What sums are multiplied with from which ``m`` was subtracted, and ``base`` is now."""
        factor = self._scores.factor
        return nv.math.exp2_approx((m - base) * factor if self._scores.told else m * factor - base * factor)

    def _rounded(self, weights: Any) -> Any:
        """As an operand."""
        return weights.to(self._loads.dtype) if self._config.itemsize == 2 else operand(weights, self._loads.dtype)

    def _values(self, sums: Sums) -> None:
        """Wait for the next values, which keeps the exponentials before it, and for the product of the last ones."""
        v_ring = self._loads.v_ring
        v_ring.wait(sums.vs.next())
        nv.wgmma_wait(0)
        v_ring.release(sums.vs, nv.lane_id() == 0)
