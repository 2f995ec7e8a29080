"""Attention's gradients on the GPU: what comes before and after each of the three kernels that compute them."""

from __future__ import annotations

import functools
from typing import Any

import nvdsl as nv
from nvdsl.kernels.attention.backward import backward
from nvdsl.kernels.attention.backward_apart import backward_apart
from nvdsl.kernels.attention.backward_wide import backward_wide
from nvdsl.kernels.attention.forward import AS_THEY_ARE, Bias
from nvdsl.kernels.attention.gradient_bias import OfBias
from nvdsl.kernels.attention.gradient_config import Config
from nvdsl.kernels.attention.gradient_frame import GradientFrame
from nvdsl.kernels.attention.gradient_load import GradientLoads
from nvdsl.kernels.attention.gradient_rows import Told, sum_rows
from nvdsl.kernels.attention.gradient_scores import Scoring
from nvdsl.kernels.attention.gradient_shares import GradientShares
from nvdsl.kernels.attention.gradient_sums import GradientSums, Parts
from nvdsl.kernels.attention.gradient_tiles import GradientTiles, Logarithms, OfKeys, OfQueries
from nvdsl.kernels.attention.scores import ScoreKind
from nvdsl.kernels.attention.sequences import KeyStarts, Starts

Shares = nv.Shaped[nv.Array, "parts", "head_parts"]


@nv.jit
def gradients(
    dout: OfQueries,
    q: OfQueries,
    k: OfKeys,
    v: OfKeys,
    out: OfQueries,
    lse: Logarithms,
    dq: OfQueries,
    dk: OfKeys,
    dv: OfKeys,
    q_starts: Starts | None,
    k_starts: KeyStarts | None,
    bias: Bias | None,
    dbias: OfBias | None,
    shares: Shares | None,
    new: int,
    scale: float,
    left: int,
    right: int,
    softcap: float,
    *operands: Any,
    config: Config,
    bounded: tuple[bool, bool] = (False, False),
    scores: ScoreKind = AS_THEY_ARE,
    ordered: bool = False,
    interleaved: bool = False,
) -> None:
    """dQ, dK and dV of ``out = softmax(scale * q k^T) v``, whose logarithms of the sums are ``lse``.

    ``bounded``: whether a row sees at most ``left`` keys before its own, and ``right`` keys behind it. For ``scores``,
    ``softcap``, ``bias``, ``dbias`` and ``operands`` see `Scoring`. ``ordered``: whether dQ is added up in the order of
    the keys, or in causal attention from the last keys to the first. ``interleaved``: of causal heads that share keys
    in the order of the keys, see `GradientTiles`. ``shares``: nobody reads it; its two extents are
    those of `GradientTiles` (extents say what memory a call needs, see `combine.attention`). ``new``: which of
    dq (1), dk (2) and dv (4) are new arrays, whose rows of no sequence become zeros.
    """
    sides = left if bounded[0] else None, right if bounded[1] else None
    scoring = Scoring(scores, scale, softcap, bias, dbias, operands, *sides)
    descending = ordered and bounded == (False, True) and not interleaved
    tiles = GradientTiles(q, k, q_starts, k_starts, config.tile_m, config.tile_n, any(bounded) or ordered, descending,
                          interleaved, None if shares is None else (shares.shape[0], shares.shape[1]))  # fmt: skip
    parts = Parts(config.tile_m, config.sizes[0], config.k_swizzle, config.slices)
    sums = GradientSums(tiles, parts, ordered)
    told = Told(q, k, scoring) if scores.told else None
    row_sums = sum_rows(dout, out, lse, tiles, config.tile_m, told, sums.clear)
    loads = GradientLoads(dout, q, k, v, row_sums, tiles, config)
    kernel = backward_wide if config.wide else backward_apart if config.apart else backward
    shared = None if shares is None else GradientShares(tiles, config)
    kernel(GradientFrame(config, tiles, scoring, loads, sums, dk, dv, ordered, shared))
    if shared is not None:
        shared.add(dk, dv, scale)
    sums.convert(dq, scale, functools.partial(tiles.clear, dq, dk, dv, new))
