# RUN: %python %s | FileCheck %s

"""Calls that a host function can't take: an error at the caller's line."""

import numpy as np

import nvdsl as nv


@nv.jit
def saxpy(x, alpha, *, block=256, options=()):
    pass


def refused(call):
    try:
        call()
    except nv.ArgumentError as error:
        print(error)
    else:
        raise SystemExit("not refused")


X = nv.ShapeDtype((64,), nv.f32)

refused(lambda: saxpy.compile(X, 1.0, options=[1, 2]))
# CHECK: {{.*}}arguments.py:[[# @LINE - 1]]: saxpy was given a constant that can't be hashed
# CHECK-NEXT: rule: compile-time arguments are part of what a compilation is found by
# CHECK-NEXT: fix: pass a tuple, or np.array(numbers, np.float32) for what a kernel reads element by element
refused(lambda: saxpy.compile(X, 1.0, options={}))
# CHECK: fix: pass a tuple instead of a list, a frozen dataclass instead of a dict
refused(lambda: saxpy.compile(X, 1.0, options=np.zeros(4)))
# CHECK: fix: pass arrays by position: the parameters behind `*` in `def` are compile-time constants
refused(lambda: saxpy(X, [1.0]))
# CHECK: {{.*}}arguments.py:[[# @LINE - 1]]: saxpy was given a constant that can't be hashed
refused(lambda: saxpy.compile(X))
# CHECK: {{.*}}arguments.py:[[# @LINE - 1]]: saxpy(): missing a required argument: 'alpha'
refused(lambda: saxpy.compile(X, 1.0, 2.0))
# CHECK: {{.*}}arguments.py:[[# @LINE - 1]]: saxpy(): too many positional arguments
refused(lambda: saxpy.compile(X, 1.0, blocks=128))
# CHECK: {{.*}}arguments.py:[[# @LINE - 1]]: saxpy(): got an unexpected keyword argument 'blocks'
refused(lambda: saxpy.compile(np.zeros(64, np.complex64), 1.0))
# CHECK: {{.*}}arguments.py:[[# @LINE - 1]]: x of saxpy: an array of dtype complex64
# CHECK-NEXT: rule: nvdsl has
# CHECK-NEXT: fix: convert the array
refused(lambda: saxpy.compile(X, np.complex64(1.0)))
# CHECK: {{.*}}arguments.py:[[# @LINE - 1]]: alpha of saxpy: an argument is {{.*}}1{{.*}}: no nvdsl element type stands for NumPy dtype complex64
# CHECK-NEXT: fix: convert it to one of these
refused(lambda: saxpy(X, 1.0))
# CHECK: {{.*}}arguments.py:[[# @LINE - 1]]: saxpy was called with a ShapeDtype
# CHECK-NEXT: rule: a ShapeDtype has no elements: it stands for an array where nothing runs
# CHECK-NEXT: fix: pass the array, or only compile: saxpy.compile(...)
