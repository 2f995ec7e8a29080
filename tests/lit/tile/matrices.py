# RUN: %python %s | FileCheck %s

"""tile.ldmatrix and tile.stmatrix: 8x8 matrices by row and column, the lanes' addresses from the tile's layout."""

from show import refused, show

import nvdsl as nv


# CHECK-LABEL: gpu.launch
@show(ptx=True, block=32)
def there_and_back():
    tile = nv.smem((16, 64), nv.f16, swizzle=128)
    words = tile.ldmatrix((0, 16), 4)
    # CHECK: nvvm.ldmatrix {{.*}}<row>{{.*}}num = 4{{.*}}(line [[# @LINE - 1]])
    tile.stmatrix(words[:2], (8, 0), transpose=True, matrices=nv.layout.Layout(2, nv.layout.E(0, 8)))
    # CHECK: nvvm.stmatrix {{.*}}<col>{{.*}}(line [[# @LINE - 1]])
    # CHECK: ldmatrix.sync.aligned.m8n8.x4.shared.b16
    # CHECK: stmatrix.sync.aligned.m8n8.x2.trans.shared.b16


@refused(block=32)
def in_the_middle_of_a_row():
    nv.smem((16, 64), nv.f16, swizzle=128).ldmatrix((0, 12), 1)
    # CHECK: TraceError: matrices.py:[[# @LINE - 1]]: ldmatrix of 1 matrices from column 12 on of Tile((16, 64), f16, swizzle=128)
    # CHECK-NEXT: rule: matrices of 8 rows of 8 columns lie within the tile, and start at a multiple of 8 columns
    # CHECK-NEXT: fix: choose a row below 9 and a column below 57
