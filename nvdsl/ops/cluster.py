"""Thread block clusters: ids, barriers, distributed shared memory, and dependent grids.

PTX ISA, "Cluster of Cooperative Thread Arrays", ``barrier.cluster``, ``mapa``, ``griddepcontrol``.
"""

from __future__ import annotations

from nvdsl.errors import trace_error
from nvdsl.mlir.dialects import gpu, nvvm
from nvdsl.ops.pointer import SHARED_CLUSTER, i32, pointer_type
from nvdsl.ops.warp import Dim3
from nvdsl.values import scope
from nvdsl.values.traced import Value
from nvdsl.values.typing import Int, Pointer

cluster_id = Dim3(gpu.ClusterIdOp, "Index of this cluster in the grid (``%clusterid``).")
cluster_block_id = Dim3(
    gpu.ClusterBlockIdOp, "Index of this block in its cluster (``%cluster_ctaid``), 0 .. dim-1."
)
cluster_dim = Dim3(gpu.ClusterDimBlocksOp, "Blocks of a cluster (``%cluster_nctaid``).")


def cluster_rank() -> Value:
    """The linear index of this block in its cluster (``%cluster_ctarank``), i32."""
    return nvvm.read_ptx_sreg_cluster_ctarank()


def cluster_arrive(*, relaxed: bool = False) -> None:
    """Arrive at the cluster's barrier without waiting (``barrier.cluster.arrive.aligned``).

    ``relaxed=True`` orders no memory. All threads of the warp execute it together.
    """
    if relaxed:
        nvvm.cluster_arrive_relaxed(aligned=True)
    else:
        nvvm.cluster_arrive(aligned=True)


def cluster_wait() -> None:
    """Wait until all threads of the cluster arrived (``barrier.cluster.wait.aligned``)."""
    nvvm.cluster_wait(aligned=True)


def cluster_sync() -> None:
    """Wait for all threads of the cluster (``barrier.cluster.arrive.aligned``, then ``barrier.cluster.wait.aligned``).

    It orders their accesses to global and to distributed shared memory.
    """
    cluster_arrive()
    cluster_wait()


def mapa(pointer: Pointer, rank: Int) -> Pointer:
    """The address in block ``rank``'s shared memory that corresponds to ``pointer`` here (``mapa``).

    ``pointer`` is ``!llvm.ptr<3>`` (shared::cta); the result is ``!llvm.ptr<7>`` (shared::cluster).
    """
    check_rank(rank)
    if not str(getattr(pointer, "type", "")).startswith("!llvm.ptr"):
        raise trace_error(
            f"mapa of {pointer!r}",
            rule="mapa takes an address in shared memory, !llvm.ptr<3> (PTX ISA, mapa)",
            fix="tile.at(rank) is the tile of another block, tile.pointer() the address of this block's",
        )
    return nvvm.mapa(pointer_type(SHARED_CLUSTER), pointer, i32(rank))


def check_rank(rank: Int) -> None:
    """Raise TraceError for a number that no block of this cluster has as its rank."""
    blocks = scope.current("mapa").cluster_size
    if isinstance(rank, int) and not 0 <= rank < blocks:
        raise trace_error(
            f"block {rank} of a cluster of {blocks}",
            rule=f"the blocks of this cluster have the ranks 0 to {blocks - 1} (PTX ISA, %cluster_ctarank)",
            fix="launch with a larger cluster=, or count modulo its size",
        )


def griddep_wait() -> None:
    """Wait until the grids this one depends on have finished (``griddepcontrol.wait``)."""
    nvvm.griddepcontrol(nvvm.GridDepActionKind.wait)


def griddep_launch_dependents() -> None:
    """Let dependent grids start (``griddepcontrol.launch_dependents``)."""
    nvvm.griddepcontrol(nvvm.GridDepActionKind.launch_dependents)
