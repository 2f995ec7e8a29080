# RUN: %python %s | FileCheck %s

"""print of traced values is the device's printf, with formats of their dtypes; an f-string's formats are handed on."""

from show import array, refused, show

import nvdsl as nv


# CHECK-LABEL: gpu.launch
@show(array(nv.f16, 64), ptx=True)
def kernel(x):
    t = nv.thread_id.x
    print("thread", t, "of 100%", nv.u32(t))
    # CHECK: gpu.printf "thread %d of 100%% %u\0A", %[[T:\w+]], %[[T]] : i32, i32 (line [[# @LINE - 1]])
    print(f"{x[t]:.3f} at {t:4d}", end="")
    # CHECK: %[[WIDE:\w+]] = arith.extf %{{.*}} : f16 to f32
    # CHECK: gpu.printf "%.3f at %4d", %[[WIDE]], %[[T]] : f32, i32
    if t == 0:
        print("only fixed text while tracing")


# CHECK-LABEL: .entry kernel
# CHECK: vprintf


@refused(array(nv.f32, 64))
def another_file(x):
    print(x[0], file=None)
    # CHECK: TraceError: print_values.py:[[# @LINE - 1]]: print(..., file=...) of traced values
    # CHECK-NEXT: rule: the device prints to stdout


@refused(array(nv.f32, 64))
def no_such_format(x):
    print(f"{x[0]:d}")
    # CHECK: TraceError: print_values.py:[[# @LINE - 1]]: print of a traced f32 with the format 'd'


@refused(array(nv.f32, 64))
def no_number(x):
    print(x)
    # CHECK: TraceError: print_values.py:[[# @LINE - 1]]: print of a value of type memref<64xf32>
    # CHECK-NEXT: rule: the device prints numbers
