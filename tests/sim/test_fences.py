"""fence.proxy.async by space: that of the own block says nothing of another's memory."""

import pytest

import nvdsl as nv
from nvdsl.mlir.dialects import llvm
from nvdsl.ops.pointer import byte_offset
from tests.sim.simulate import SCHEDULES, traced, verdict_of, zeros


@nv.jit
def handed_to_peer(out, *, space, by, peer):
    """Each block fills the tile of the other (or its own), which its block then stores by TMA."""
    out_tma = nv.TMA(out, tile=(16, 64))

    @nv.kernel(grid=2, block=64, cluster=2)
    def body():
        tile = nv.smem((16, 64), nv.f32)
        t, rank = nv.thread_id.x, nv.cluster_rank()
        nv.cluster_sync()
        target = nv.mapa(tile.pointer(), (rank + 1) % 2 if peer else rank)
        for i in nv.range(16):
            llvm.store(nv.f32(i), byte_offset(target, (nv.index(i) * 64 + nv.index(t)) * 4), alignment=4)
        if by == "writer":
            nv.fence_proxy_async(space)
        nv.cluster_sync()
        if by == "reader":
            nv.fence_proxy_async(space)
        nv.sync_threads()
        if t == 0:
            out_tma.store(tile, (rank * 16, 0))  # STORE
            nv.bulk_commit_group()
            nv.bulk_wait_group(0)
        nv.cluster_sync()

    body()


@pytest.mark.parametrize(
    ("space", "by", "peer", "right"),
    [
        ("shared::cta", "writer", False, True),
        ("shared::cta", "writer", True, False),
        ("shared::cta", "reader", True, True),
        ("shared::cluster", "writer", True, True),
        (None, "writer", True, True),
        ("global", "writer", True, False),
        (None, "nobody", False, False),
    ],
)
def test_whose_memory_a_fence_speaks_of(space, by, peer, right):
    out = zeros(32, 64)
    program = traced(handed_to_peer, out, space=space, by=by, peer=peer)
    for options in SCHEDULES[:6]:
        out[...] = 0
        error = verdict_of(program, options)
        if right:
            assert error is None, error
            assert (out[:, 5] == [*range(16), *range(16)]).all()
        else:
            assert error is not None and error.kind == "proxy-fence", error
