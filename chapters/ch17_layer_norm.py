# RUN: env NVDSL_DUMP=trace %python %s 2>&1 | FileCheck %s
# RUN: %if all %{ %python %s --M 16 --N 64 --lanes 4 --threads 64 2>&1 | FileCheck %s --check-prefix=OTHER %}
"""Chapter 17: LayerNorm, ``y = (x - mean) / sqrt(variance + eps) * weight + bias``, by saying who has what.

Chapter 11 computed which thread reads which columns. Here that is said once, by a layout: (lane, value) -> (row,
column). ``lanes`` lanes share a row, a warp has 32 / lanes rows, and a value is one of four neighbours in one of some
steps::

    HELD = ((lanes, rows), (4, steps)) : ((4 columns, 1 row), (1 column, 4 * lanes columns))

Everything else follows from it. `nv.spec.move` finds out that four neighbours are one access of 16 bytes.
`nv.spec.reduce` along axis 1 finds out which lanes hold parts of a row: those whose step along the rows is 0. It adds
up a lane's own elements, and then those of lanes 1, 2, ... apart. These are the specifications of Graphene
(docs/thread_tensors.md).

What is new: layouts of threads. ``weight`` is one row for all rows, and its layout is the same with a step of 0 rows:
all lanes of a column read the same element.

The variance is that of deviations from the mean. ``mean(x^2) - mean(x)^2`` would be one pass less, and cancels where
rows are far from zero: in f32 nothing is left at a mean of 10,000. Here a row stays in registers, and a pass over it
costs little.

Try: --lanes 32, one row a warp. Print nv.spec.move(nv.spec.of(x, *place), held, warps).explain() in the kernel. Then
let neighbouring lanes hold neighbours, in both layouts E(0, 1) and E(0, lanes) for E(0, 4) and E(0, 1): 4 bytes each.

Next: what one layer computes is what the next one reads. Chapter 18 never stores it.

Break it: let the lanes of a row lie one row apart, and the rows of a warp four columns.

    -     held = Layout(((lanes, rows), (4, steps)), ((E(0, 4), E(1, 0)), (E(0, 1), E(0, 4 * lanes))))
    +     held = Layout(((lanes, rows), (4, steps)), ((E(1, 0), E(0, 4)), (E(0, 1), E(0, 4 * lanes))))

    SimError: ch17_layer_norm.py:70: store by warp 1 of block 0 at ch17_layer_norm.py:70 touches elements of global
          memory of store by warp 0 of block 0 at ch17_layer_norm.py:70: nothing orders the two
      first:  store by warp 0 of block 0 at ch17_layer_norm.py:70
      second: store by warp 1 of block 0 at ch17_layer_norm.py:70
      rule: two accesses to the same element of which one writes need an order; blocks have none but by atomics
      fix:  let one thread write it, or add to it by nv.atomic_add; or release it (nv.ops.memory.store_release, or
            nv.threadfence() and an atomic) and acquire it (load_acquire, or an atomic and nv.threadfence()), with
            barriers of the blocks around these
"""

import numpy as np

import nvdsl as nv
from nvdsl.layout import E, Layout


@nv.jit
def layer_norm(x, weight, bias, y, *, eps=1e-5, threads=128, lanes=8):
    """x, y: [M, N] of f32, weight, bias: [1, N]."""
    M, N = x.shape
    rows, steps = 32 // lanes, N // (4 * lanes)
    nv.require_multiples(M=(M, threads // lanes), N=(N, 4 * lanes))
    held = Layout(((lanes, rows), (4, steps)), ((E(0, 4), E(1, 0)), (E(0, 1), E(0, 4 * lanes))))
    for_all_rows = Layout(((lanes, rows), (4, steps)), ((E(0, 4), E(0, 0)), (E(0, 1), E(0, 4 * lanes))))

    @nv.kernel(grid=M // (threads // lanes), block=threads)
    def kernel():
        warps = nv.spec.threads().tile(32)
        place = (nv.block_id.x * (threads // lanes) + nv.warp_id() * rows, 0), (rows, N)
        given = nv.spec.move(nv.spec.of(x, *place), held, warps)()
        mean = nv.spec.reduce("sum", given, warps, axis=1)()[0] / N
        apart = given.with_values([value - mean for value in given.values])
        squares = apart.with_values([value * value for value in apart.values])
        scale = nv.math.rsqrt(nv.spec.reduce("sum", squares, warps, axis=1)()[0] / N + eps)
        w, b = (nv.spec.move(array, for_all_rows, warps)() for array in (weight, bias))
        values = zip(apart.values, w.values, b.values, strict=True)
        normalized = apart.with_values([value * scale * factor + summand for value, factor, summand in values])
        nv.spec.move(normalized, nv.spec.of(y, *place), warps)()

    kernel()


# CHECK-LABEL: func.func @layer_norm
# CHECK:         gpu.launch blocks
# CHECK:           vector.load {{.*}} vector<4xf32>
# A row's lanes are 1, 2 and 4 apart.
# CHECK-COUNT-6:   nvvm.shfl.sync bfly
# CHECK-NOT:       nvvm.shfl.sync bfly
# CHECK:           vector.store {{.*}} vector<4xf32>
# OTHER: 64 threads
# OTHER: PASS


def main(M=64, N=256, threads=128, lanes=8):
    rng = np.random.default_rng(0)
    x = 10_000 + rng.standard_normal((M, N), dtype=np.float32)
    weight, bias = rng.standard_normal((2, 1, N), dtype=np.float32)
    y = np.full_like(x, np.nan)
    print(layer_norm.compile(x, weight, bias, y, threads=threads, lanes=lanes).report())
    if why := nv.no_gpu():
        print(f"{why}: in the simulator")
    layer_norm(x, weight, bias, y, threads=threads, lanes=lanes)
    exact = x.astype(np.float64)
    mean, variance = exact.mean(axis=1, keepdims=True), exact.var(axis=1, keepdims=True)
    np.testing.assert_allclose(y, (exact - mean) / np.sqrt(variance + 1e-5) * weight + bias, rtol=1e-3, atol=5e-3)
    print("PASS")


if __name__ == "__main__":
    from command_line import run

    run(main)
