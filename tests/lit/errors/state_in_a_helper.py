# RUN: not %python %s 2>&1 | FileCheck %s

"""A helper that a traced loop calls changes a list once, while it is traced."""

import nvdsl as nv


def count(sums):
    sums[1][0] = sums[1][0] + 1.0


@nv.jit
def host(x):
    @nv.kernel(grid=1, block=32)
    def kernel():
        s = [[0.0], [0.0]]
        for _ in nv.range(3):
            count(s)
        x[nv.thread_id.x] = s[1][0]

    kernel()


host.trace(nv.ShapeDtype((32,), nv.f32))

# CHECK: nvdsl.errors.TraceError: {{.*}}state_in_a_helper.py:[[# @LINE - 17]]: a `for` over nv.range ({{.*}}state_in_a_helper.py:[[# @LINE - 9]]) changes `s[1][0]` without carrying it
# CHECK-NEXT: rule: carried are variables, attributes of objects, and elements of lists and dicts that its own statements assign by their names
# CHECK-NEXT: fix: return the new value from the call, and assign it in the statement: `s[1][0] = ...`
