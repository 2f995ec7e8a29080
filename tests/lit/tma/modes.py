# RUN: %python %s | FileCheck %s

"""nv.TMA's swizzle, l2_promotion and fill, each by the tensor map's name for it."""

from show import array, refused, show

import nvdsl as nv


# CHECK-LABEL: func.func @host
@show(array(nv.f32, 64, 64))
@nv.jit
def host(a):
    nv.TMA(a, tile=(8, 8))
    # CHECK: swizzle = none, l2promo = l2promo_128b, oob = zero,
    nv.TMA(a, tile=(8, 4), swizzle=16, l2_promotion=0)
    # CHECK: swizzle = none, l2promo = none,
    nv.TMA(a, tile=(8, 8), swizzle=32, l2_promotion=64)
    # CHECK: swizzle = swizzle_32b, l2promo = l2promo_64b,
    nv.TMA(a, tile=(8, 16), swizzle=64, l2_promotion=256, fill="nan")
    # CHECK: swizzle = swizzle_64b, l2promo = l2promo_256b, oob = nan,
    nv.TMA(a, tile=(8, 32), swizzle=128)
    # CHECK: swizzle = swizzle_128b,


@refused(array(nv.f16, 64, 64))
@nv.jit
def swizzle(a):
    nv.TMA(a, tile=(8, 64), swizzle=96)
    # CHECK: TraceError: modes.py:[[# @LINE - 1]]: TMA with swizzle=96
    # CHECK-NEXT: rule: swizzle is one of [0, 16, 32, 64, 128]
    # CHECK-NEXT: fix: choose one of these


@refused(array(nv.f16, 64, 64))
@nv.jit
def l2_promotion(a):
    nv.TMA(a, tile=(8, 64), l2_promotion=32)
    # CHECK: TraceError: modes.py:[[# @LINE - 1]]: TMA with l2_promotion=32
    # CHECK-NEXT: rule: l2_promotion is one of [0, 64, 128, 256]


@refused(array(nv.f16, 64, 64))
@nv.jit
def fill(a):
    nv.TMA(a, tile=(8, 64), fill="one")
    # CHECK: TraceError: modes.py:[[# @LINE - 1]]: TMA with fill='one'
    # CHECK-NEXT: rule: fill is one of ['zero', 'nan']


@refused(array(nv.i32, 64, 64))
@nv.jit
def nan_in_integers(a):
    nv.TMA(a, tile=(8, 64), fill="nan")
    # CHECK: VerifyError: modes.py:[[# @LINE - 1]]: this tensor map is not possible: oob nan with i32: NaN fill needs f16, bf16, tf32, f32 or f64
