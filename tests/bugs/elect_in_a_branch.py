"""A lane is elected where only some of the lanes are."""

import nvdsl as nv

ARRAYS = [((32,), "int32")]


@nv.jit
def kernel(out):
    @nv.kernel(grid=1, block=32)
    def body():
        t = nv.thread_id.x
        if t >= 24:
            if nv.elect():  # verifier, simulator: divergent-collective
                out[t] = 1

    body()
