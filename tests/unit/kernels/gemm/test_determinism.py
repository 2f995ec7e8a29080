"""Blocks that share a tile add their sums in a fixed order: the same bits whenever copies arrive and warps run."""

from __future__ import annotations

import numpy as np
import pytest

import nvdsl as nv
from nvdsl.kernels import Config
from tests.exhaustive import exhaustive

CONFIGS = {
    "stream-K": Config(64, 64, stages=3, schedule="streamk"),
    "split-K": Config(64, 64, stages=2, schedule="splitk", split=4, consumers=1, store_buffers=1),
    "split-K by many clusters": Config(
        64, 64, stages=2, schedule="splitk", split=2, consumers=1, store_buffers=1, parts=3
    ),
}
SCHEDULES = [
    {"DELIVERY": "eager"}, {"ORDER": "reverse"}, *({"DELIVERY": "random", "ORDER": "random", "SEED": s} for s in "012"),
]  # fmt: skip


@pytest.mark.parametrize("schedules", [SCHEDULES[1:3], pytest.param(SCHEDULES, marks=exhaustive)], ids=["some", "all"])
@pytest.mark.parametrize("name", CONFIGS)
def test_sums_of_several_blocks_have_the_same_bits_in_every_order(name, schedules, monkeypatch):
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal(shape).astype(np.float16) for shape in ((72, 1024), (1024, 40)))

    def product(config, schedule):
        with monkeypatch.context() as environment:
            for option, value in schedule.items():
                environment.setenv(f"NVDSL_SIM_{option}", value)
            return nv.matmul(a, b, out_dtype=nv.f32, config=config, target="sim").view(np.int32)

    first = product(CONFIGS[name], {})
    for schedule in schedules:
        np.testing.assert_array_equal(product(CONFIGS[name], schedule), first)
    one_block = product(Config(64, 64, stages=2, consumers=1), {})
    assert (one_block != first).any()  # bits that tell in which order was added
