"""A factor of 32-bit elements that lies with M contiguous, as the A of tensor cores that take K contiguous only.

wgmma transposes operands of 16 bits in shared memory, and no others (PTX ISA, wgmma.mma_async, imm-trans). But it also
takes A from registers, and a thread may read these from anywhere: so tiles come by TMA as they lie, and each thread
of a consumer reads its elements of them one by one. 16 loads for 64 rows and 128 bytes of K take as long as wgmma
takes for some 40 columns, and the other consumers multiply meanwhile. A copy that is turned takes as long as reading
and writing the whole operand, each call.
"""

from __future__ import annotations

from typing import Any

import nvdsl as nv
from nvdsl.hopper.arch import WARP_SIZE
from nvdsl.kernels.blocks.mainloop import Mainloop
from nvdsl.kernels.blocks.tma_operand import TmaOperand
from nvdsl.lang.packing import words_of

STEP = 8
"""Elements of K of one wgmma: 32 bytes."""


class TurnedOperand(TmaOperand):
    """The tiles of A, (k, mn) in memory, that threads read into registers."""

    def a(self, stage: Any, first: Any, rows: int) -> Any:
        """Rows ``first .. first + 63`` of the tile, ``64 x k``."""
        tile, thread = self.stack[stage], nv.warpgroup_thread()
        warp, lane = thread // WARP_SIZE, thread % WARP_SIZE
        row, k = first + warp * 16 + lane // 4, lane % 4

        def of_step(step: int) -> list[Any]:
            places = [(step + k + right, row + down) for right in (0, 4) for down in (0, 8)]
            return words_of([tile[place] for place in places], self.dtype)

        return nv.Fragment(rows, self.k, self.dtype, [[of_step(step) for step in range(0, self.k, STEP)]])


class TurnedMainloop(Mainloop):
    """`Mainloop` with A in registers. The products of a slice are waited for before the next one's are issued: other
    warpgroups multiply meanwhile, and the registers of A are free again."""

    def __init__(self, *operands: Any, in_flight: int = 0, **options: Any) -> None:
        super().__init__(*operands, in_flight=0, **options)

    def release(self, slot: nv.PipelineState, predicate: nv.Bool = True) -> None:
        nv.sync_warp()  # all lanes have read A
        super().release(slot, predicate)
