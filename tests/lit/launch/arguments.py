# RUN: %python %s | FileCheck %s

"""Arguments of a host function: arrays become memrefs, scalars of every dtype values, the rest is compiled in."""

import numpy as np
from show import array, show

import nvdsl as nv


# CHECK-LABEL: func.func @host(
# CHECK-SAME: %{{\w+}}: memref<4x8xbf16>
# CHECK-SAME: %{{\w+}}: memref<4x8xf32, strided<[16, 1]>>
# CHECK-SAME: %{{\w+}}: i1
# CHECK-SAME: %{{\w+}}: i32
# CHECK-SAME: %{{\w+}}: i64
# CHECK-SAME: %{{\w+}}: f32
# CHECK-SAME: %{{\w+}}: f64
# CHECK-SAME: %{{\w+}}: i8
# CHECK-SAME: %{{\w+}}: i16
# CHECK-SAME: ) {
@show(
    array(nv.bf16, 4, 8),
    array(nv.f32, 4, 8, strides=(16, 1)),
    True,
    7,
    1 << 40,
    1.5,
    np.float64(1.5),
    np.int8(-1),
    np.uint16(9),
    "name",
    stages=4,
)
@nv.jit
def host(a, b, flag, n, long, x, double, small, short, text, *, stages):
    assert (text, stages) == ("name", 4)
    assert [v.dtype.name for v in (flag, n, long, x, double, small, short)] == "bool_ i32 i64 f32 f64 i8 u16".split()
