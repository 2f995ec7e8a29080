"""Products of small integers by schedules, simulated: sums are equal, whatever their order."""

import numpy as np

from nvdsl import schedule as sc
from nvdsl.mlir.dialects import arith

BLOCK, WARP = (32, 64, 32), (32, 32)


def numbers(shape, dtype, seed):
    return np.random.default_rng(seed).integers(-2, 3, shape).astype(dtype)


def difference(scheduled, reference, *arrays):
    """Of the last array, which is written, from the reference made of all of them as f32."""
    want = reference(*[one.astype(np.float32) for one in arrays])
    scheduled(*arrays, target="sim")
    return np.abs(arrays[-1].astype(np.float32) - want).max()


def product(steps, m=64, n=64, k=96, reference=lambda a, b, c: a @ b, of="f2", to="f4", **what):
    lead = () if what.get("batch") is None else (what["batch"],)
    a = (*lead, k, m) if what.get("transpose_a") else (*lead, m, k)
    b = (*lead, n, k) if what.get("transpose_b") else (*lead, k, n)
    extra = [{"m": (m,), "n": (n,), "mn": (*lead, m, n)}[one] for one in what.get("operands", ())]
    kinds = [of, of, *[to] * len(extra), to]
    shapes = [a, b, *extra, (*lead, m, n)]
    arrays = [numbers(shape, kind, seed) for seed, (shape, kind) in enumerate(zip(shapes, kinds, strict=True))]
    return difference(sc.compile(sc.matmul(m, n, k, **what), steps), reference, *arrays)


def relu(x):
    return arith.maximumf(x, arith.ConstantOp(x.type, 0.0).result)
