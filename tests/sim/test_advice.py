"""What a race report says to write instead is right for the blocks of a cluster, and says whose memory it is."""

import numpy as np

import nvdsl as nv
from nvdsl.mlir.dialects import llvm
from nvdsl.ops.pointer import byte_offset
from tests.sim.simulate import traced, verdict_of


@nv.jit
def handed_over(x, out, *, meet):
    @nv.kernel(grid=2, block=32, cluster=2)
    def kernel():
        s = nv.smem((1, 32), nv.f32)
        t, rank = nv.thread_id.x, nv.cluster_rank()
        nv.cluster_sync()
        llvm.store(x[rank, t], byte_offset(nv.mapa(s.pointer(), 1 - rank), t * 4), alignment=4)
        if meet == "cluster":
            nv.cluster_sync()
        else:
            nv.sync_threads()
        out[rank, t] = s[0, t]
        nv.cluster_sync()

    kernel()


def verdict(**switches):
    x, out = np.arange(64, dtype=np.float32).reshape(2, 32), np.zeros((2, 32), np.float32)
    return verdict_of(traced(handed_over, x, out, **switches))


def test_blocks_of_a_cluster_meet_at_its_barrier():
    assert verdict(meet="cluster") is None
    error = verdict(meet="block")
    assert error.kind in ("raw", "war", "uninitialized")
    assert "nv.cluster_sync()" in error.fix
    assert "block 0's shared memory" in str(error) or "block 1's shared memory" in str(error)
