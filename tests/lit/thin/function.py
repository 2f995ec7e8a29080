# RUN: %python %s | FileCheck %s

"""NVDSL.mlir_func: positional arguments are traced, arrays as memrefs, bool as i1, int as index, float as f32; keyword
arguments stay Python's."""

import numpy as np
from show import show

from nvdsl.errors import ArgumentError
from nvdsl.thin import NVDSL


# CHECK-LABEL: func.func @host(
# CHECK-SAME: %{{\w+}}: memref<4x8xf16>
# CHECK-SAME: %{{\w+}}: i1
# CHECK-SAME: %[[N:\w+]]: index
# CHECK-SAME: %{{\w+}}: f32
# CHECK-SAME: ) {
@show(np.zeros((4, 8), np.float16), True, 7, 1.5, stages=4)
@NVDSL.mlir_func
def host(a, flag, n, x, stages):
    assert stages == 4
    n + stages
    # CHECK: %[[FOUR:\w+]] = arith.constant 4 : index
    # CHECK: arith.addi %[[N]], %[[FOUR]] : index (line [[# @LINE - 2]])
    n / 2
    # CHECK: arith.divsi %[[N]],


try:
    host("text")
except ArgumentError as error:
    print(error)
# CHECK: {{.*}}function.py:[[# @LINE - 3]]: argument 0 is a str
# CHECK-NEXT: rule: positional arguments are arrays, bool, int or float; others go by keyword and stay Python values
# CHECK-NEXT: fix: pass it by keyword
