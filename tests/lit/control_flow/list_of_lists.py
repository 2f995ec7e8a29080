# RUN: %python %s | FileCheck %s

"""A traced loop carries the elements of a list of lists."""

import nvdsl as nv


@nv.jit
def host(x):
    @nv.kernel(grid=1, block=32)
    def kernel():
        acc = [[nv.f32(0), nv.f32(0)] for _ in range(2)]
        for k in nv.range(8):
            for i in range(2):
                for j in range(2):
                    acc[i][j] += x[k]
        x[0] = acc[1][0]

    kernel()


print(host.trace(nv.ShapeDtype((32,), nv.f32)))

# CHECK: %[[SUMS:.*]]:4 = scf.for {{.*}} iter_args(%{{.*}} = %{{.*}}, %{{.*}} = %{{.*}}, %[[A:.*]] = %{{.*}}, %{{.*}} = %{{.*}}) -> (f32, f32, f32, f32)
# CHECK: %[[B:.*]] = arith.addf %[[A]], %{{.*}}
# CHECK: scf.yield %{{.*}}, %{{.*}}, %[[B]], %{{.*}} : f32, f32, f32, f32
# CHECK: memref.store %[[SUMS]]#2
