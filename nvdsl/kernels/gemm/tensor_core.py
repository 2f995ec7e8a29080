"""The product over the tensor cores: the kernel of a configuration, of any schedule."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import nvdsl as nv
from nvdsl.kernels.blocks.direct_epilogue import cut
from nvdsl.kernels.blocks.epilogue_visitor import EpilogueOp
from nvdsl.kernels.gemm import cooperative, pingpong, splitk, splitk_memory, streamk
from nvdsl.kernels.gemm.config import Config
from nvdsl.kernels.gemm.launch import resident_blocks, resident_splits


def matmul(
    a: nv.Array,
    b: nv.Array,
    out: nv.Array,
    *operands: Any,
    config: Config,
    sms: int,
    a_major: str,
    b_major: str,
    direct_store: bool = False,
    acc_dtype: nv.DType = nv.f32,
    epilogue_op: EpilogueOp | None = None,
) -> None:
    """out[..., M, N] = A[..., M, K] @ B[..., K, N], as `nvdsl.kernels.gemm.cooperative.matmul`, by any schedule.

    ``sms``: of the GPU. ``config.tile_k`` is not looked at: a slice of K has 128 bytes.
    """
    config = replace(config, tile_k=128 // a.dtype.bytes)
    options: dict[str, Any] = {"config": config, "a_major": a_major, "b_major": b_major}
    options |= {"acc_dtype": acc_dtype, "epilogue_op": epilogue_op, "direct_store": direct_store or cut(out)}
    if config.schedule == "streamk":
        streamk.matmul.__wrapped__(a, b, out, *operands, blocks=sms, **options)
    elif config.schedule == "splitk":
        clusters = resident_splits(config, a.dtype, a_major if config.swap_ab else b_major, sms)
        splitk.matmul.__wrapped__(a, b, out, *operands, clusters=clusters, **options)
    else:
        by_schedule = cooperative.matmul if config.schedule == "cooperative" else pingpong.matmul
        by_schedule = splitk_memory.matmul if config.parts > 1 and out.ndim == 2 else by_schedule
        by_schedule.__wrapped__(a, b, out, *operands, blocks=resident_blocks(config, sms), **options)
