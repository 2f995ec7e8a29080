"""What threads compute together: reductions, scans and broadcasts of warps, warpgroups, blocks and clusters."""

from nvdsl.lang.collectives.group import Group
from nvdsl.lang.collectives.groups import block, cluster, warp, warpgroup

__all__ = ["Group", "block", "cluster", "warp", "warpgroup"]
