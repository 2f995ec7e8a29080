"""The gradient of a bias that was added to the scores of attention."""

from __future__ import annotations

import nvdsl as nv
from nvdsl.kernels.attention.forward import Bias
from nvdsl.kernels.blocks.divisor import Divisor

OfBias = nv.Shaped[nv.Array, "of_batch", "of_heads", "of_queries", "of_keys"]
THREADS, ROUNDS = 256, 4


@nv.jit
def clear(x: Bias) -> None:
    """Zeros, before gradients are added."""
    batch, heads, queries, keys = x.shape
    of_keys, of_queries, of_heads = (Divisor.of(n) for n in (keys, queries, heads))
    count = batch * heads * queries * keys

    @nv.kernel(grid=nv.cdiv(count, THREADS * ROUNDS), block=THREADS)
    def zero() -> None:
        for i in range(ROUNDS):
            number = (nv.block_id.x * ROUNDS + i) * THREADS + nv.thread_id.x
            rows, key = of_keys.divmod(nv.min(number, count - 1))
            outer, query = of_queries.divmod(rows)
            one, head = of_heads.divmod(outer)
            x.store((one, head, query, key), 0.0, predicate=number < count)

    zero()
