# RUN: not %python %s 2>&1 | FileCheck %s

"""Control flow is traced from a function's source; a function without one is an error that says so."""

import nvdsl as nv

scope = {"nv": nv}
exec(compile("def clear(x):\n    for i in nv.range(4):\n        x[i] = 0.0\n", "gone.py", "exec"), scope)


@nv.jit
def host(x):
    @nv.kernel(grid=1, block=32)
    def kernel():
        scope["clear"](x)

    kernel()


host.compile(nv.ShapeDtype((64,), nv.f32))

# CHECK: nvdsl.errors.TraceError: gone.py:1: the source of `clear` is not available
# CHECK-NEXT: rule: control flow is traced from a function's source
# CHECK-NEXT: fix: define it in a file or a notebook cell
