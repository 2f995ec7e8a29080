"""The machine code of ``nv.attention`` with any options: nothing is in local memory, no product is waited for early."""

import itertools
import random

import pytest

import nvdsl as nv
from nvdsl.kernels.attention import combine, forward
from nvdsl.kernels.attention.choose import choose
from nvdsl.kernels.attention.config import SIZES
from nvdsl.kernels.attention.scores import ScoreKind
from tests.exhaustive import exhaustive


def alibi(s, batch, head, query, key):
    return s - nv.f32(head + 1) * nv.f32(nv.abs(query - key))


SCORES = {
    "plain": ScoreKind(),
    "softcap": ScoreKind(softcap=True),
    "bias": ScoreKind(bias=True),
    "score": ScoreKind(function=alibi),
    "signed": ScoreKind(signed=True),
}
LENGTHS = {
    "decoding": (1, 8192, 64, 8), "short": (512, 512, 16, 16), "long": (4096, 4096, 16, 16),
    "longer": (8192, 8192, 16, 16),
}  # fmt: skip
"""Queries, keys, heads of q and of k."""
FOUND = (
    (256, 256, 1, (False, False), "paged", "plain", "long", 4, False),
    (64, 256, 1, (False, False), "whole", "signed", "long", 4, False),
    (256, 256, 1, (False, False), "used", "signed", "short", None, True),
    (256, 256, 1, (True, False), "whole", "signed", "short", 3, True),
    (256, 192, 2, (True, False), "packed", "plain", "short", None, True),
    (256, 256, 2, (False, True), "packed", "plain", "long", None, True),
    (256, 256, 2, (True, True), "used", "plain", "long", None, True),
    (256, 256, 2, (True, True), "keys", "softcap", "long", 3, True),
    (256, 256, 2, (True, False), "packed", "plain", "long", 3, True),
    (256, 256, 2, (True, True), "whole", "softcap", "long", 3, True),
    (256, 256, 2, (False, False), "whole", "plain", "longer", None, False),
)
"""What has failed: all but the fifth one spilled, and that one had no place for its results."""


def drawn(count):
    """Of all combinations."""
    sizes = [*((n, n) for n in SIZES[2]), (64, 256), (256, 64), (192, 128), (96, 192), (128, 64), (192, 256), (96, 64)]
    space = itertools.product(
        sizes, (2, 1), itertools.product((False, True), repeat=2), ("whole", "packed", "keys", "paged", "used"),
        SCORES, LENGTHS, (None, 3, 4), (True, False),
    )  # fmt: skip
    fits = [(*x[0], *x[1:]) for x in space if x[4] != "bias" or x[3] == "whole"]
    return random.Random(7).sample(fits, count)


@pytest.mark.parametrize(
    ("size", "value_size", "itemsize", "bounded", "sequences", "score", "lengths", "splits", "logarithms"),
    [*FOUND, *drawn(40)],
)
@exhaustive
def test_no_option_spills(size, value_size, itemsize, bounded, sequences, score, lengths, splits, logarithms):
    dtype, of_q, of_k = (
        (nv.bf16 if itemsize == 2 else nv.e4m3),
        "q_batch queries kv_heads group",
        "k_batch keys kv_heads",
    )
    queries, keys, heads, kv_heads = LENGTHS[lengths]
    config, parts = choose(
        size, value_size, 1 if splits else 16, queries, heads, kv_heads, keys, bounded=bounded[1], splits=splits,
        packed=sequences == "packed", page=64 * (sequences == "paged"), told=score in ("bias", "score", "signed"),
        sms=132, itemsize=itemsize, seen=513 if all(bounded) and lengths.startswith("long") else None, left=bounded[0],
        ragged=sequences not in ("whole",), function=score == "score",
    )  # fmt: skip

    def given(names, last, dtype=dtype):
        return nv.ShapeDtype((*names.split(), *last), dtype)

    def where(condition, names, dtype=nv.i32):
        return given(names, (), dtype) if condition else None

    kernel = combine.attention if parts > 1 else forward.attention
    compiled = (
        nv.jit(kernel.__wrapped__, strict=True)
        .compile(
            given(of_q, [size]), given(of_k, [size]), given(of_k, [value_size]), given(of_q, [value_size], nv.bf16),
            *([] if parts > 1 else [None]), where(logarithms, "parts q_batch heads queries", nv.f32),
            1.0, 0, 0, where(parts > 1, "splits") or parts, 2.0 * (score == "softcap"), 1,
            where(sequences == "packed", "starts"), where(sequences in ("packed", "keys"), "key_starts"),
            where(sequences in ("used", "paged"), "sequences"), where(sequences == "paged", "sequences pages"),
            where(score == "bias", "bias_batch bias_heads bias_queries bias_keys", nv.f32),
            *(where(itemsize == 1, f"{x}_scale_batch {x}_scale_heads", nv.f32) for x in "qkv"),
            config=config, bounded=bounded, scores=SCORES[score],
        )
    )  # fmt: skip
    assert all(x.resources.spill_stores == x.resources.stack == 0 for x in compiled.kernels.values())
