"""Scripts for the command, written where a test wants them."""

GOOD = """
import sys
import numpy as np
import nvdsl as nv

@nv.jit
def double(x):
    @nv.kernel(grid=1, block=32)
    def kernel():
        x[nv.thread_id.x] = x[nv.thread_id.x] * 2.0
    kernel()

print("arguments", sys.argv[1:])
x = np.ones(32, np.float32)
double(x)
print("sum", x.sum())
assert x.sum() == 64
"""

RACE = """
import numpy as np
import nvdsl as nv

@nv.jit
def reverse(x):
    @nv.kernel(grid=1, block=64)
    def kernel():
        tile = nv.smem((64,), nv.f32)
        i = nv.thread_id.x
        tile[i] = x[i]
        x[i] = tile[63 - i]                 # no barrier before it
    kernel()

reverse(np.arange(64, dtype=np.float32))
"""

BY_LUCK = GOOD + """
import os

sys.exit(3 if os.environ.get("NVDSL_SIM_SEED") == "1" else 0)
"""
