# RUN: %python %s | FileCheck %s

"""A traced value where Python needs a plain one is an error that says what to write."""

from show import array, refused

import nvdsl as nv


@refused(array(nv.f32, 64))
def truth(x):
    bool(x[0] > 0.0)
    # CHECK: TraceError: plain_needed.py:[[# @LINE - 1]]: the truth value of a traced value is not known
    # CHECK-NEXT: rule: the number exists only when the kernel runs
    # CHECK-NEXT: fix: in a kernel write plain `if`, `while`, `and`, `or`, `not`, `in`; what Python itself runs (`match`, comprehensions


@refused(array(nv.f32, 64))
def integer(x):
    int(x[0])
    # CHECK: TraceError: plain_needed.py:[[# @LINE - 1]]: int() of a traced value is not known
    # CHECK-NEXT: rule: the number exists only when the kernel runs
    # CHECK-NEXT: fix: write nv.i32(x)


@refused(array(nv.f32, 64))
def floating(x):
    float(x[0])
    # CHECK: TraceError: plain_needed.py:[[# @LINE - 1]]: float() of a traced value is not known
    # CHECK-NEXT: rule: the number exists only when the kernel runs
    # CHECK-NEXT: fix: write nv.f32(x)


@refused()
def list_index():
    [1, 2, 3][nv.thread_id.x]
    # CHECK: TraceError: plain_needed.py:[[# @LINE - 1]]: a traced value used as a Python int is not known
    # CHECK-NEXT: rule: the number exists only when the kernel runs
    # CHECK-NEXT: fix: write nv.range(n) for a traced loop, nv.vector(numbers)[i] for an element of a list; range() needs a Python int


@refused()
def python_range():
    for _i in range(nv.thread_id.x):
        pass
    # CHECK: TraceError: plain_needed.py:[[# @LINE - 2]]: a traced value used as a Python int is not known


@refused()
def length():
    len(nv.thread_id.x)
    # CHECK: TraceError: plain_needed.py:[[# @LINE - 1]]: len() of a traced number is not known


@refused()
def loop():
    for _bit in nv.thread_id.x:
        pass
    # CHECK: TraceError: plain_needed.py:[[# @LINE - 2]]: a loop over a traced number is not known
    # CHECK-NEXT: rule: the number exists only when the kernel runs
    # CHECK-NEXT: fix: write `for i in nv.range(n)`


@refused()
def element():
    nv.thread_id.x[0]
    # CHECK: TraceError: plain_needed.py:[[# @LINE - 1]]: [] on a traced number


# A lambda is not rewritten: its `if` is Python's.
@refused(array(nv.f32, 64))
def in_a_generator(x):
    def signs():
        yield 1.0 if x[0] > 0.0 else -1.0

    next(signs())
    # CHECK: TraceError: plain_needed.py:[[# @LINE - 3]]: the truth value of a traced value is not known
