# RUN: %python %s | FileCheck %s

"""What only a kernel can do is an error of the host function that it stands in, at its line."""

import nvdsl as nv


def planned(function, *arguments):
    """Make the executable of what a call does, which needs no GPU."""
    try:
        nv.jit(function).compile(*arguments).executable()
    except nv.LowerError as error:
        print(f"LowerError: {error}")


def instruction():
    nv.wgmma_fence()
    # CHECK: LowerError: {{.*}}host_only.py:[[# @LINE - 1]]: nvvm.wgmma.fence.aligned in a host function can't be executed
    # CHECK-NEXT: rule: a host function holds
    # CHECK-NEXT: fix: move the computation into the kernel, or do it in Python before the call


def store(a):
    a[0] = 1.0
    # CHECK: LowerError: {{.*}}host_only.py:[[# @LINE - 1]]: an element of an array is written in a host function


planned(instruction)
planned(store, nv.ShapeDtype((4,), nv.f32))
