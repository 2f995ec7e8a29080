# RUN: %python %s | FileCheck %s

"""unroll: loops over fragments and parts of copies are gone."""

from stages import change, until

from nvdsl import schedule as sc

change(sc.matmul(64, 128, 64), until("unroll"))
# CHECK: AFTER unroll()
# CHECK: scf.for
# CHECK-NOT: scf.for
# CHECK: gpu.barrier
# CHECK-COUNT-6: vector.transfer_read {{.*}} vector<1x8xf16>
# CHECK: gpu.barrier
# CHECK-COUNT-8: vector.contract
# CHECK: gpu.terminator

change(sc.matmul(64, 128, 64), [*until("launch"), sc.unroll("rows")])
# CHECK: unroll.py:[[# @LINE - 1]]: step unroll('rows'): loops called 'rows'
# CHECK-NEXT: rule: it unrolls fragments and copies
