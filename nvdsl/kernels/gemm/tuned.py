"""`tensor.product` with the best known configuration: tuned here, else shipped, else by the model of `choose`."""

from __future__ import annotations

import math
from typing import Any

import nvdsl as nv
from nvdsl.kernels.blocks.linear_combination import LinearCombination
from nvdsl.kernels.gemm import tensor_core
from nvdsl.kernels.gemm.choose import CANDIDATES, choose, fit, possible


def heuristic(
    a: Any, out: Any, a_major: str, b_major: str, acc_dtype: nv.DType, visit: Any, sms: int
) -> dict[str, Any]:
    """The model's choice."""
    batches, m, n, k = _sizes(a, out, a_major)
    types = a.dtype, out.dtype, acc_dtype
    given = {"batches": batches, "crowded": _crowded(out, visit), "sms": sms, "b_major": b_major, "a_major": a_major}
    return {"config": choose(m, n, k, *types, **given)}


def shape_class(a: Any, out: Any, a_major: str) -> list[int]:
    """Batches, M, N, K, such that all of a class have as many tiles: M and N rounded up to tiles of 128, up to 256 of
    64, up to 64 to a power of two; K to the nearest power of two. And whether rows of N start on the grid of 128 bytes,
    which decides as much as sizes do."""
    batches, m, n, k = _sizes(a, out, a_major)
    return [batches, _tiles(m), _tiles(n), 1 << round(math.log2(k)), int(n * out.dtype.bytes % 128 == 0)]


def _sizes(a: Any, out: Any, a_major: str) -> tuple[int, int, int, int]:
    """Batches, M, N, K of the arguments of `tensor.product`."""
    *batches, m, n = out.shape
    return math.prod(batches), m, n, a.shape[-1 if a_major == "k" else -2]


def _tiles(extent: int) -> int:
    if extent <= 64:
        return 1 << (extent - 1).bit_length()
    tile = 64 if extent <= 256 else 128
    return tile * nv.cdiv(extent, tile)


def _can_run(config: Any, a: Any, out: Any, acc_dtype: nv.DType) -> bool:
    return not fit(config, a.dtype).problems(a.dtype, out.dtype, acc_dtype)


def _has_registers(config: Any, a: Any, out: Any, acc_dtype: nv.DType, visit: Any) -> bool:
    return config in [one for _, one in possible(a.dtype, out.dtype, acc_dtype, _crowded(out, visit))]


def _crowded(out: Any, visit: Any) -> bool:
    """Whether an epilogue needs more registers than the largest tiles leave."""
    finish = getattr(visit, "function", None)
    return finish.is_crowded(out.shape[-1]) if isinstance(finish, LinearCombination) else visit is not None


SPACE = (
    nv.Space(config=[config for _, config in CANDIDATES])
    .where(_can_run, "its types fit into an SM")
    .where(_has_registers, "its epilogue has registers")
)

product = nv.autotune(SPACE, heuristic=heuristic, shape_class=shape_class, table="matmul")(nv.jit(tensor_core.product))
product.__name__ = "matmul"  # what its users call
