"""Which thread of a warpgroup holds which element of an accumulator: each writes its number where its elements are."""

import numpy as np

import nvdsl as nv
from nvdsl.layout import wgmma_accumulator


@nv.jit
def owners(thread, register):
    @nv.kernel(grid=1, block=128)
    def kernel():
        acc = nv.accumulator(64, 16, nv.f32)
        for i, (row, column, _) in enumerate(acc.elements()):
            thread[row, column] = nv.thread_id.x
            register[row, column] = i

    kernel()


thread, register = np.zeros((64, 16), np.int32), np.zeros((64, 16), np.int32)
owners(thread, register)
for row in (0, 1, 8, 16):
    held = [f"T{thread[row, column]}d{register[row, column]}" for column in range(10)]
    print(f"row {row:2}:", *held, "...")

layout = wgmma_accumulator(16)  # (thread, register) -> (row, column)
agree = all(tuple(layout(int(thread[i, j]), int(register[i, j]))) == (i, j) for i, j in np.ndindex(64, 16))
print("nvdsl.layout says the same:", agree)
