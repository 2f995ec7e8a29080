"""A step that ends in Hopper's own instructions: a ring of tiles filled by TMA, and wgmma."""

from __future__ import annotations

from nvdsl.mlir import ir
from nvdsl.mlir.dialects import arith
from nvdsl.schedule.elementwise import finish_stores, pull_out
from nvdsl.schedule.finish import set_launch
from nvdsl.schedule.persistent import launch_blocks
from nvdsl.schedule.registers import fold_views
from nvdsl.schedule.step import step
from nvdsl.schedule.wgmma_kernel import Kernel
from nvdsl.schedule.wgmma_plan import Plan
from nvdsl.schedule.work import Work


@step
def wgmma(work: Work, stages: int = 4, warpgroups: int = 2) -> None:
    """Makes a launch in which one thread loads tiles by TMA into a ring of ``stages`` slots with mbarriers, and
    ``warpgroups`` warpgroups multiply by wgmma, each a part of the tile's rows. Instead of all steps behind stage().

    TMA takes arrays whose rows are multiples of 16 bytes. Tiles of others are copied by a warpgroup, by element.
    """
    threads = Plan(work, stages, warpgroups).threads
    pull_out(work)
    launch = (work.find("gpu.launch") or [launch_blocks(work)])[0]
    with ir.InsertionPoint(launch), launch.location:
        launch.operands[3] = arith.constant(ir.IndexType.get(), threads)
    kernel = Kernel(work, stages, warpgroups)  # of the operations that are there now
    kernel.build(launch)
    set_launch(launch, kernel.bytes)
    fold_views(work)
    finish_stores(work)
    work.run("lower-affine", "canonicalize", "cse")
