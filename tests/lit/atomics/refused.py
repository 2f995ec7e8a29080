# RUN: %python %s | FileCheck %s

"""What no atomic works on: types without the operation, slices, plain numbers, indices out of bounds."""

from show import array, refused

import nvdsl as nv


@refused(array(nv.f32, 64))
def bits_of_a_float(x):
    x.atomic_or(0, 1.0)
    # CHECK: TraceError: refused.py:[[# @LINE - 1]]: atomic_or of f32
    # CHECK-NEXT: rule: atomics take integers of 16, 32 and 64 bits, f16, bf16, f32 and f64; inc and dec 32 bits; and, or
    # CHECK-NEXT: fix:


@refused(array(nv.i8, 64))
def byte(x):
    x.atomic_add(0, 1)
    # CHECK: TraceError: refused.py:[[# @LINE - 1]]: atomic_add of i8


@refused(array(nv.i64, 64))
def counter(x):
    x.atomic_inc(0, 1)
    # CHECK: TraceError: refused.py:[[# @LINE - 1]]: atomic_inc of i64


@refused(array(nv.i32, 64))
def cut(x):
    x.atomic_add(0, 0.5)
    # CHECK: TraceError: refused.py:[[# @LINE - 1]]: 0.5 stored into an array of i32


@refused(array(nv.i32, 64))
def slice_of_an_array(x):
    x.atomic_add(slice(0, 4), 1)
    # CHECK: TraceError: refused.py:[[# @LINE - 1]]: an atomic on a slice of an array


@refused(array(nv.i32, 64))
def number(x):
    nv.atomic_add(x[0], 0, 1)
    # CHECK: TraceError: refused.py:[[# @LINE - 1]]: nv.atomic_add on a traced number
    # CHECK-NEXT: rule: an atomic works on an element of an array or of a tile
    # CHECK-NEXT: fix: nv.atomic_add(array, i, x), nv.atomic_add(tile, (row, column), x)


@refused(array(nv.i32, 64))
def known_index(x):
    x.atomic_add(64, 1)
    # CHECK: TraceError: refused.py:[[# @LINE - 1]]: index 64 on an axis of 64 elements


@refused(array(nv.i32, 64))
def traced_index(x):
    x.atomic_add(nv.thread_id.x + 64, 1)
    # CHECK: VerifyError: refused.py:[[# @LINE - 1]]: index 64 of an array of 64 i32: the last one is 63


@refused()
def index_of_a_tile():
    nv.smem((8, 16), nv.f32).atomic_max((8, 0), 1.0)
    # CHECK: TraceError: refused.py:[[# @LINE - 1]]: tile index (8, 0) outside of (8, 16)


@refused(array(nv.f32, 16, 64))
@nv.jit
def stored_by_tma(out):
    out_tma = nv.TMA(out, tile=(16, 64))

    @nv.kernel(grid=1, block=64)
    def kernel():
        tile = nv.smem((16, 64), nv.f32)
        tile.atomic_add((0, nv.thread_id.x), 1.0)
        nv.sync_threads()
        if nv.thread_id.x == 0:
            out_tma.store(tile, (0, 0))
            # CHECK: VerifyError: refused.py:[[# @LINE - 1]]: this TMA store reads shared memory that ordinary stores
            # CHECK-SAME: wrote at line [[# @LINE - 5]], with no proxy fence in between
            nv.bulk_commit_group()
            nv.bulk_wait_group(0)

    kernel()
