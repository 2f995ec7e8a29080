"""From linalg to tensor cores by a list of steps (docs/schedules.md).

    from nvdsl import schedule as sc

    gemm = sc.compile(sc.matmul(1024, 1024, 1024), sc.wmma_steps())
    gemm(a, b, c)

A `Payload` says what is computed, in linalg: `matmul` makes one, `payload` takes MLIR's text. A schedule is a list of
steps; each is a transform of MLIR's or a rewrite of nvdsl's, and says in its docstring what it changes in the IR. A
step that does not fit raises ScheduleError, which names it. `step` makes one of a function.
"""

from nvdsl.schedule.asynchronous import copy_async
from nvdsl.schedule.blocks import bufferize, launch, tile_blocks
from nvdsl.schedule.compiled import Scheduled, compile
from nvdsl.schedule.finish import finish
from nvdsl.schedule.fused import fma
from nvdsl.schedule.hopper import wgmma
from nvdsl.schedule.latency import hide_latency
from nvdsl.schedule.lists import fma_steps, mma_steps, simt_steps, wgmma_steps, wmma_steps
from nvdsl.schedule.masking import mask
from nvdsl.schedule.matrices import mma_sync, wmma
from nvdsl.schedule.payload import Payload, matmul, payload
from nvdsl.schedule.persistent import persistent
from nvdsl.schedule.prefetch import prefetch
from nvdsl.schedule.registers import hoist_sums
from nvdsl.schedule.shared import copies, merge_barriers, pad, stage
from nvdsl.schedule.step import Step, step
from nvdsl.schedule.swizzling import swizzle
from nvdsl.schedule.tuning import tune
from nvdsl.schedule.warps import permute, spread, tile_fragments, tile_threads, tile_warps, unroll, vectorize
from nvdsl.schedule.work import Work

__all__ = [
    "Payload", "Scheduled", "Step", "Work", "bufferize", "compile", "copies", "copy_async", "finish", "fma",
    "fma_steps", "hide_latency", "hoist_sums", "launch", "mask", "matmul", "merge_barriers", "mma_steps", "mma_sync",
    "pad", "payload", "permute", "persistent", "prefetch", "simt_steps", "spread", "stage", "step", "swizzle",
    "tile_blocks", "tile_fragments", "tile_threads", "tile_warps", "tune", "unroll", "vectorize", "wgmma",
    "wgmma_steps", "wmma", "wmma_steps",
]  # fmt: skip
