# RUN: %python %s | FileCheck %s

"""`for` over nv.range is one scf.for; what the body assigns is carried, numbers as i32 and f32. Over range it is
Python's, and unrolls."""

from show import array, refused, show

import nvdsl as nv


# CHECK-LABEL: func.func @host
# CHECK-SAME: %[[X:\w+]]: memref<64xf32>
# CHECK-SAME: %[[N:\w+]]: i32
@show(array(nv.f32, 64), 9)
def kernel(x, n):
    total, count, kept = 0.0, 0, 5
    for i in nv.range(n):
        total += x[i]
        count = count + 1
        twice = i * 2  # noqa: F841
    # CHECK-DAG: %[[TOTAL:\w+]] = arith.constant 0.000000e+00 : f32
    # CHECK-DAG: %[[ONE:\w+]] = arith.constant 1 : i32
    # CHECK: %[[END:\w+]]:2 = scf.for %[[I:\w+]] = %{{\w+}} to %[[N]] step %{{\w+}} iter_args(%[[T:\w+]] = %[[TOTAL]], %[[C:\w+]] = %{{\w+}}) -> (f32, i32) : i32 {
    # CHECK: %[[AT:\w+]] = arith.index_cast %[[I]] : i32 to index
    # CHECK: %[[ELEMENT:\w+]] = memref.load %[[X]][%[[AT]]] : {{.*}}(line [[# @LINE - 7]])
    # CHECK: %[[SUM:\w+]] = arith.addf %[[T]], %[[ELEMENT]]
    # CHECK: %[[COUNT:\w+]] = arith.addi %[[C]],
    # CHECK: scf.yield %[[SUM]], %[[COUNT]] :
    # CHECK-NEXT: } (line [[# @LINE - 12]])
    x[0] = total
    # CHECK: memref.store %[[END]]#0, %[[X]]
    assert kept == 5


# CHECK-LABEL: func.func @host
@show(array(nv.f32, 64))
def bounds(x):
    for i in nv.range(2, 20, 3):
        # CHECK: %[[LOW:\w+]] = arith.constant 2 : i32
        # CHECK: %[[HIGH:\w+]] = arith.constant 20 : i32
        # CHECK: %[[STEP:\w+]] = arith.constant 3 : i32
        # CHECK: scf.for %{{\w+}} = %[[LOW]] to %[[HIGH]] step %[[STEP]] {{.*}}: i32 {
        x[i] = 0.0
    for i in nv.range(nv.u32(7), unroll=False):
        # CHECK: scf.for unsigned
        # CHECK: llvm.loop_annotation<unroll = <disable = true>>
        assert i.dtype is nv.u32
        x[i] = 1.0
    for i in range(3):
        x[i] = 2.0
    # CHECK-NOT: scf.for
    # CHECK-COUNT-3: memref.store
    # CHECK-NOT: memref.store
    # CHECK: gpu.terminator


@refused()
def float_bound():
    for _i in nv.range(4.0):
        pass
    # CHECK: TraceError: for_range.py:[[# @LINE - 2]]: nv.range over 4.0
    # CHECK-NEXT: rule: the bounds of nv.range are integers: Python's, or traced
    # CHECK-NEXT: fix: convert it with nv.i32(x)


@refused()
def step_zero():
    for _i in nv.range(0, 4, 0):
        pass
    # CHECK: TraceError: for_range.py:[[# @LINE - 2]]: nv.range with step 0


@refused()
def down_on_unsigned():
    for _i in nv.range(nv.u32(4), 0, -1):
        pass
    # CHECK: TraceError: for_range.py:[[# @LINE - 2]]: nv.range counts down on u32
    # CHECK-NEXT: rule: a negative step needs signed bounds


@refused()
def unroll_zero():
    for _i in nv.range(4, unroll=0):
        pass
    # CHECK: TraceError: for_range.py:[[# @LINE - 2]]: nv.range(unroll=0)


@refused(array(nv.f32, 64))
def comprehension(x):
    [x[i] for i in nv.range(4)]
    # CHECK: TraceError: for_range.py:[[# @LINE - 1]]: nv.range outside of a traced `for` statement
    # CHECK-NEXT: rule: {{.*}}comprehensions, generators, list(), zip() and enumerate() iterate in Python
    # CHECK-NEXT: fix: write a `for` statement in such a function, or use range(n) over Python ints


@refused()
def python_range():
    for _i in range(nv.thread_id.x):
        pass
    # CHECK: TraceError: for_range.py:[[# @LINE - 2]]: a traced value used as a Python int is not known
    # CHECK-NEXT: rule: the number exists only when the kernel runs
    # CHECK-NEXT: fix: write nv.range(n) for a traced loop


@refused(array(nv.f32, 64))
def another_type_after_a_pass(x):
    total = 0
    for i in nv.range(4):
        total += x[i]
    # CHECK: TraceError: for_range.py:[[# @LINE - 1]]: `total` is i32 (the Python int 0) before the loop at {{.*}}:[[# @LINE - 2]] and f32 after a pass
    # CHECK-NEXT: rule: a traced loop carries each variable in one type
    # CHECK-NEXT: fix: write `total = nv.f32(0)` before the loop


@refused(array(nv.f32, 64))
def loop_variable_afterwards(x):
    for i in nv.range(4):
        pass
    x[i] = 0.0
    # CHECK: TraceError: for_range.py:[[# @LINE - 1]]: `i` is used, but it is the variable of the traced loop at {{.*}}:[[# @LINE - 3]]


@refused(array(nv.f32, 64))
def assigned_only_inside(x):
    for i in nv.range(4):
        last = x[i]
    x[0] = last
    # CHECK: TraceError: for_range.py:[[# @LINE - 1]]: `last` is used, but it has a value only inside the loop at {{.*}}:[[# @LINE - 3]] (assigned at line [[# @LINE - 2]])
