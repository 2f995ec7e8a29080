# RUN: %python %s | FileCheck %s

"""order= and scope= of atomics: as in PTX. Compare-and-swap compares bits."""

from show import array, refused, show

import nvdsl as nv


# CHECK-LABEL: gpu.launch
@show(array(nv.i32, 64), array(nv.f32, 64), ptx=True)
def kernel(x, f):
    t = nv.thread_id.x
    x[t] = x.atomic_add(0, 1, order="acq_rel")
    # CHECK: llvm.atomicrmw add {{.*}} syncscope("device") acq_rel
    x[t] = x.atomic_exch(1, 1, order="release", scope="sys")
    # CHECK: llvm.atomicrmw xchg %{{.*}}, %{{.*}} release
    x[t] = x.atomic_cas(2, 0, 1, order="acquire", scope="block")
    # CHECK: llvm.cmpxchg {{.*}} syncscope("block") acquire acquire : !llvm.ptr<1>, i32
    f[t] = f.atomic_cas(3, 0.0, 1.0)
    # CHECK: %[[ZERO:\w+]] = arith.bitcast %{{.*}} : f32 to i32
    # CHECK: llvm.cmpxchg %{{.*}}, %[[ZERO]], {{.*}} syncscope("device") monotonic monotonic
    # CHECK: arith.bitcast %{{.*}} : i32 to f32


# CHECK-LABEL: .entry kernel
# CHECK: atom.acq_rel.gpu.global.add.u32
# CHECK: atom.release.sys.global.exch.b32
# CHECK: atom.acquire.cta.global.cas.b32
# CHECK: atom.relaxed.gpu.global.cas.b32


@refused(array(nv.i32, 64))
def no_order(x):
    x.atomic_add(0, 1, order="strong")
    # CHECK: TraceError: orders.py:[[# @LINE - 1]]: atomic_add with order='strong'
    # CHECK-NEXT: rule: the order is one of ['relaxed', 'acquire', 'release', 'acq_rel'] (PTX ISA, atom, .sem)


@refused(array(nv.i32, 64))
def no_scope(x):
    x.atomic_add(0, 1, scope="device")
    # CHECK: TraceError: orders.py:[[# @LINE - 1]]: atomic_add with scope='device'
    # CHECK-NEXT: rule: the scope is one of ['cta', 'cluster', 'gpu', 'sys'] (PTX ISA, .scope)
