"""Gated products of groups of rows: ``activation(a @ gate[g]) * (a @ up[g])``, where ``b[g]`` is both, side by side.

The first product of the experts of most mixtures. See `gated`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import nvdsl as nv
from nvdsl.kernels.blocks.linear_combination import GATES, LinearCombination
from nvdsl.kernels.blocks.tile_op import TileOp
from nvdsl.kernels.blocks.tile_ops import Gated
from nvdsl.kernels.gemm import gated, grouped, grouped_dispatch
from nvdsl.kernels.gemm.binding import AXES, bind
from nvdsl.kernels.gemm.bound_kernel import BoundKernel
from nvdsl.kernels.gemm.config import Config
from nvdsl.kernels.gemm.launch import resident_blocks, sms
from nvdsl.kernels.gemm.model import Shape
from nvdsl.kernels.gemm.problem import Matrix, fits_tma, types


def find(
    given: dict[str, Matrix],
    activation: str,
    alpha: bool,
    acc_dtype: nv.DType | None,
    out_dtype: nv.DType | None,
    config: Config | None,
    target: str | None,
) -> BoundKernel:
    """The kernel of a gated product of groups of rows. ``given``: as for `grouped_dispatch.find_grouped`. Raises
    ArgumentError for what does not fit together."""
    offsets = given.pop("offsets")
    grouped_dispatch.check(given, offsets)
    _check(activation, given)
    groups, wide = offsets.shape[0], given["b"].shape[-1]
    acc_dtype, out_dtype = types(given["a"].dtype, given["b"].dtype, acc_dtype, out_dtype, given.get("out"))
    halved = given | {"b": replace(given["b"], shape=(*given["b"].shape[:-1], wide // 2))}
    bias = halved.pop("bias", None)
    problem = grouped_dispatch.problem_of(halved, groups, acc_dtype, out_dtype)
    finish = LinearCombination(alpha=alpha)
    if 0 in problem.result:
        return BoundKernel(problem, finish, None, {}, (), 0, {}, {})
    op = Gated(GATES[activation], alpha, bias is not None, groups=True)
    k, arrays = problem.a.shape[-1], {"offsets": offsets, "out": problem.out}
    if bias is not None:
        arrays["bias"] = _of_groups(bias, groups, wide)
    axes = {**AXES, "offsets": "g", "bias": "gw"}
    options: dict[str, Any] = {"acc_dtype": acc_dtype}
    if groups == 0:
        return grouped_dispatch.with_groups(bind(problem, LinearCombination(), grouped.empty_sums, options,
                                                 {"offsets": offsets, "out": problem.out}, axes), 0)  # fmt: skip
    if k == 0:
        options["epilogue_op"] = op.of_nothing
        return grouped_dispatch.with_groups(bind(problem, finish, grouped.empty_sums, options, arrays, axes), groups)
    b, near = gated.readable_halves(given["b"])
    b_major = "k" if near == 0 else "mn"
    m = problem.result[0]
    shape = Shape(nv.cdiv(m, groups), wide, k, b.dtype, out_dtype, acc_dtype, groups, "k", b_major)
    config = replace(config or choose(shape, op, sms(target)), tile_k=128 // b.dtype.bytes)
    grouped_dispatch.check_config(config, shape, False)
    options |= {
        "config": config, "blocks": resident_blocks(config, sms(target)), "direct_store": not fits_tma(problem.out),
        "b_major": b_major, "epilogue_op": TileOp(op, halves=2, pieces=True),
    }  # fmt: skip
    axes |= {"b": "wk" if near == 0 else "kw"}
    arrays = {"a": problem.a, "b": b, **arrays}
    packed = [name for name, matrix in (("a", problem.a), ("b", b)) if not matrix.fits_tma(1)]
    return grouped_dispatch.with_groups(
        bind(problem, finish, grouped.matmul, options, arrays, axes, packed=packed), groups
    )


def choose(shape: Shape, op: Gated, sms: int) -> Config:
    """The configuration of the fewest cycles. ``shape.n``: columns of a group's b."""

    def fits(config: Config) -> bool:
        return gated.fits(config, shape, op) and not config.problems(shape.dtype, shape.out, shape.acc)

    return grouped_dispatch.fastest(shape, fits, sms)


def _check(activation: str, given: dict[str, Matrix]) -> None:
    refused = sorted(given.keys() & {"c", "scale_a", "scale_b"})
    b = given["b"]
    problems = [
        (bool(refused), f"beside {', '.join(refused)}", "apply them to a, or to the result"),
        (len(b.shape) != 3 or b.shape[-1] % 2 == 1, f"and b of shape {b.shape}",
         "torch.cat((gate, up), -1) is such a b"),
    ]  # fmt: skip
    gated.refuse(
        activation, problems, "a gated product of groups takes b of (groups, K, 2 N), the gate's columns and as many "
        "others, alpha, and a bias of (2 N,) or (groups, 2 N)",
    )  # fmt: skip


def _of_groups(bias: Matrix, groups: int, wide: int) -> Matrix:
    """A row for each group, or one for all."""
    rows = grouped_dispatch.of_groups("bias", bias, groups, 1, wide)
    return replace(rows, shape=(groups, wide), strides=(rows.strides[0], rows.strides[2]))
