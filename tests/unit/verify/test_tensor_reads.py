"""Accumulators that are read, as tensors, while a wgmma may be in flight: the verifier and the simulator find it."""

import numpy as np
import pytest

import nvdsl as nv
from nvdsl import sim, verify
from nvdsl.errors import SimError, VerifyError
from tests.sim.simulate import traced

READS = {
    "arithmetic": lambda s, tile: (s * 2.0).store(tile),
    "a product that is added to": lambda s, tile: (s * 2.0 + 1.0).store(tile),
    "a reduction": lambda s, tile: nv.fragment(tile) + s.max(axis=1).to(nv.f16)[:, None],
    "a conversion": lambda s, tile: s.to(nv.f16).store(tile),
    "a part": lambda s, tile: s[:, 0:8].store(tile.cols(0, 8)),
    "a store": lambda s, tile: s.store(tile),
    "a choice": lambda s, tile: nv.where(s.rows >= s.cols, s, 0.0).store(tile),
}


@nv.jit
def early(out: nv.Array, *, read, waits: bool) -> None:
    @nv.kernel(grid=1, block=128)
    def kernel() -> None:
        A, tile = nv.smem((64, 64), nv.f16, swizzle=128), nv.smem((64, 64), nv.f16, swizzle=16)
        for i in range(32):
            A[nv.thread_id.x // 64 + 2 * i, nv.thread_id.x % 64] = 1.0
            tile[nv.thread_id.x // 64 + 2 * i, nv.thread_id.x % 64] = 1.0
        nv.fence_proxy_async()
        nv.sync_threads()
        s, acc = nv.accumulator(64, 64), nv.accumulator(64, 64)
        s += A @ A
        acc += A @ A
        nv.wgmma_wait(1 if waits else 2)
        READS[read](s, tile)
        nv.wgmma_wait(0)
        acc.store(out, (0, 0))

    kernel()


def program(read, waits):
    return traced(early, np.zeros((64, 64), np.float32), read=read, waits=waits)


@pytest.mark.parametrize("read", READS)
def test_a_read_in_flight_is_found(read):
    with pytest.raises(VerifyError, match="may be in flight"):
        verify.check(program(read, False).module)
    with pytest.raises(SimError, match="in flight|wgmma_wait"):
        program(read, False).run(sim.Options())


@pytest.mark.parametrize("read", READS)
def test_the_other_accumulator_may_be_in_flight(read):
    verify.check(program(read, True).module)
    program(read, True).run(sim.Options())


@nv.jit
def used_again(out: nv.Array, *, waits: bool) -> None:
    """The fragment of a product in flight, computed with."""

    @nv.kernel(grid=1, block=128)
    def kernel() -> None:
        V = nv.smem((64, 64), nv.bf16, swizzle=128)
        for i in range(32):
            V[nv.thread_id.x // 64 + 2 * i, nv.thread_id.x % 64] = 1.0
        nv.fence_proxy_async()
        nv.sync_threads()
        p = nv.accumulator(64, 64).to(nv.bf16)
        acc = nv.accumulator(64, 64)
        acc += p @ V
        if waits:
            nv.wgmma_wait(0)
        (p.to(nv.f32) + 1.0).store(out, (0, 0))
        nv.wgmma_wait(0)
        acc.store(out, (0, 0))

    kernel()


def test_a_fragment_in_flight_is_found():
    out = np.zeros((64, 64), np.float32)
    with pytest.raises(VerifyError, match="register of A is read"):
        verify.check(traced(used_again, out, waits=False).module)
    with pytest.raises(SimError, match="registers of A"):
        traced(used_again, out, waits=False).run(sim.Options())
    verify.check(traced(used_again, out, waits=True).module)
    traced(used_again, out, waits=True).run(sim.Options())
