# RUN: %python %s | FileCheck %s

"""hide_latency: the loads of the next turn come before the products of this one, their stores behind a barrier."""

from stages import change, until

from nvdsl import schedule as sc

change(sc.matmul(64, 128, 128), until("hide_latency"))
# CHECK: AFTER hide_latency()
# CHECK-COUNT-6: vector.transfer_read {{.*}} vector<1x8xf16>
# CHECK-COUNT-6: vector.transfer_write
# CHECK: gpu.barrier
# CHECK: scf.for
# CHECK-NOT: gpu.barrier
# CHECK-COUNT-6: vector.transfer_read {{.*}} vector<1x8xf16>
# CHECK-NOT: gpu.barrier
# CHECK-COUNT-8: vector.contract
# CHECK: gpu.barrier
# CHECK-COUNT-6: vector.transfer_write
# CHECK: gpu.barrier
# CHECK: scf.yield
# CHECK-COUNT-8: vector.contract

change(sc.matmul(64, 128, 128), [*until("launch"), sc.hide_latency()])
# CHECK: hide_latency.py:[[# @LINE - 1]]: step hide_latency(): loops or branches within the loop over K
# CHECK-NEXT: rule: it works on straight-line code
# CHECK-NEXT: fix: unroll() before, and copies in which all threads have a part
