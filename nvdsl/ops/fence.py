"""Fences: what orders one thread's accesses before another's, across proxies and scopes.

PTX ISA, "Memory Consistency Model", "membar/fence" and "Async proxy". Ordinary loads and stores (and
stmatrix) go through the generic proxy; TMA and wgmma read and write shared memory through the async
proxy.
"""

from __future__ import annotations

from nvdsl.errors import trace_error
from nvdsl.mlir.dialects import nvvm


def fence_mbarrier_init() -> None:
    """Make this thread's mbarrier inits visible to the cluster (``fence.mbarrier_init.release.cluster``).

    A barrier of the block or cluster must follow before other threads use the mbarriers.
    """
    nvvm.fence_mbarrier_init()


def fence_proxy_async(space: str | None = "shared::cta") -> None:
    """Order this thread's earlier generic accesses before later async-proxy accesses (``fence.proxy.async``).

    ``space`` is ``"shared::cta"``, ``"shared::cluster"``, ``"global"`` or None for all. Each thread that
    wrote shared memory with ordinary stores executes it before the barrier after which a TMA store
    or a wgmma reads that memory.
    """
    kinds = {
        "shared::cta": (nvvm.ProxyKind.async_shared, nvvm.SharedSpace.shared_cta),
        "shared::cluster": (nvvm.ProxyKind.async_shared, nvvm.SharedSpace.shared_cluster),
        "global": (nvvm.ProxyKind.async_global, None),
        None: (nvvm.ProxyKind.async_, None),
    }
    if space not in kinds:
        raise trace_error(f"fence_proxy_async({space!r})", rule=f"the space is one of {list(kinds)}")
    kind, shared = kinds[space]
    nvvm.fence_proxy(kind=kind, space=shared)


def fence_proxy_alias() -> None:
    """Order accesses to one location through different virtual addresses (``fence.proxy.alias``)."""
    nvvm.fence_proxy(kind=nvvm.ProxyKind.alias)


def threadfence(scope: str = "gpu") -> None:
    """Order this thread's memory accesses at ``scope``: ``"cta"``, ``"gpu"`` or ``"sys"`` (``membar``)."""
    scopes = {"cta": "CTA", "gpu": "GPU", "sys": "SYS"}
    if scope not in scopes:
        raise trace_error(f"threadfence({scope!r})", rule=f"the scope is one of {list(scopes)}")
    nvvm.memory_barrier(getattr(nvvm.MemScopeKind, scopes[scope]))


def fence_sc_cluster() -> None:
    """Sequentially consistent fence of the cluster (``fence.sc.cluster``)."""
    nvvm.fence_sc_cluster()

