"""Gated products: ``activation(a @ gate) * (a @ up)``, where ``b`` is both matrices, one behind the other.

N. Shazeer, "GLU variants improve transformer", arXiv:2002.05202. Any schedule computes them: a tile of B holds the same
columns of both (`GatedOperand`), and the epilogue makes one value of two sums (`TileOp` with two halves).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import nvdsl as nv
from nvdsl.errors import ArgumentError
from nvdsl.kernels.blocks.linear_combination import GATES, LinearCombination, relu, silu
from nvdsl.kernels.blocks.tile_op import TileOp
from nvdsl.kernels.blocks.tile_ops import Gated
from nvdsl.kernels.gemm import simple, tensor_core
from nvdsl.kernels.gemm.binding import AXES, bind
from nvdsl.kernels.gemm.bound_kernel import BoundKernel
from nvdsl.kernels.gemm.config import Config
from nvdsl.kernels.gemm.factors import check_config, readable
from nvdsl.kernels.gemm.launch import sms
from nvdsl.kernels.gemm.model import Shape, cycles
from nvdsl.kernels.gemm.problem import GemmProblem, Matrix, fits_tma
from nvdsl.kernels.gemm.tiles import legal

matmul = nv.jit(tensor_core.matmul)


SPARE = 100
"""Registers beside the sums that a gate takes with a bias, alpha, or one of the longer activations."""


def choose(shape: Shape, op: Gated, blocks: int) -> Config:
    """The configuration of the fewest cycles, of those that sum all of K: parts of it are added up one sum at a time,
    without the other half's. ``shape.n``: columns of B."""
    fit = [
        config for config in legal(shape.dtype, shape.out, shape.acc, False, shape.a_major, shape.b_major)
        if config.schedule in ("cooperative", "pingpong") and config.along == "m" and not config.swap_ab
        and config.parts == 1 and fits(config, shape, op)
    ]  # fmt: skip
    return min(fit, key=lambda config: cycles(config, shape, blocks))


def fits(config: Config, shape: Shape, op: Gated) -> bool:
    """Whether a consumer has registers for the gate, and its tile holds as many columns of both halves."""
    spare = SPARE if op.alpha or op.bias or op.activation not in (silu, relu) else 0
    # Half of it is in whole panels of an N-major B; of a K-major one, blocks that share it load 8 columns each.
    unit = max(32, 16 * config.sharers[1]) if shape.b_major == "k" else 256 // shape.dtype.bytes
    return config.tile_n % unit == 0 and config.registers[1] - config.accumulator_registers(shape.acc) >= spare


def readable_halves(b: Matrix) -> tuple[Matrix, int]:
    """`readable` of both halves of b."""
    found, near = readable(b, k_axis=0)
    if near == 1 and b.shape[-1] // 2 * b.dtype.bytes % 16:  # the second half starts where TMA can't
        return b.transposed, 0
    return found, near


def check(activation: str, matrices: Mapping[str, Matrix]) -> None:
    """Raises ArgumentError for what has no gated product."""
    a, b, bias = (matrices.get(name) for name in ("a", "b", "bias"))
    assert a is not None and b is not None
    refused = sorted(matrices.keys() & {"c", "scale_a", "scale_b"})
    wide = b.shape[-1] if b.shape else 0
    problems = [
        (bool(refused), f"beside {', '.join(refused)}", "apply them to a, or to the result"),
        (len(b.shape) != 2 or wide % 2 == 1, f"and b of shape {b.shape}", "torch.cat((gate, up)).T is such a b"),
        (a.dtype == nv.f64, "of f64", "convert a and b to f32"),
        (bias is not None and bias.shape not in ((wide,), (1, wide)),
         f"and bias of shape {bias and bias.shape}", f"pass one of shape ({wide},)"),
    ]  # fmt: skip
    refuse(
        activation, problems, "a gated product takes a matrix b of the gate's columns and as many others, (K, 2 N), "
        "alpha, and a bias of 2 N elements",
    )  # fmt: skip


def refuse(activation: str, problems: Sequence[tuple[bool, str, str]], rule: str) -> None:
    """Raise ArgumentError for the first of (whether it is one, what it is, the fix) that is a problem."""
    for wrong, message, fix in problems:
        if wrong:
            raise ArgumentError(f"activation={activation!r} {message}", rule=rule, fix=fix)


def find(
    given: Mapping[str, Matrix],
    activation: str,
    alpha: bool,
    acc_dtype: nv.DType | None,
    out_dtype: nv.DType | None,
    config: Config | None,
    target: str | None,
) -> BoundKernel:
    """The kernel of a gated product, whose b has the gate's columns and as many others. Raises ArgumentError."""
    check(activation, given)
    half = replace(given["b"], shape=(given["b"].shape[0], given["b"].shape[1] // 2))
    matrices = {"a": given["a"], "b": half} | {name: given[name] for name in ("out",) if name in given}
    problem, finish = GemmProblem.of(matrices, acc_dtype, out_dtype), LinearCombination(alpha=alpha)
    op = Gated(GATES[activation], alpha, "bias" in given)
    if 0 in problem.result:
        return BoundKernel(problem, finish, None, {}, (), 0, {}, {})
    m, n, k = problem.sizes
    batch = problem.a.shape[:-2]
    others = {}
    if bias := given.get("bias"):
        others["bias"] = replace(bias, shape=(1, 2 * n), strides=(0, bias.strides[-1])).expanded(batch)
    options: dict[str, Any] = {"acc_dtype": problem.acc_dtype}
    if k == 0:
        arrays, axes = {"out": problem.out, **others}, {**AXES, "bias": "uw"}
        return bind(
            problem, finish, simple.empty_sums, options | {"epilogue_op": op.of_nothing}, arrays, axes, with_batch=True
        )
    a, a_axis = readable(problem.a, k_axis=1)
    b, b_axis = readable_halves(replace(problem.b, shape=(*batch, k, 2 * n)))
    k_major, direct = (a_axis == 1, b_axis == 0), not fits_tma(problem.out)
    majors = {"a_major": "k" if k_major[0] else "mn", "b_major": "k" if k_major[1] else "mn"}
    shape = Shape(m, 2 * n, k, a.dtype, problem.out_dtype, problem.acc_dtype, problem.batches,
                  majors["a_major"], majors["b_major"])  # fmt: skip
    options |= majors | {"direct_store": direct, "sms": sms(target), "epilogue_op": TileOp(op, halves=2, pieces=True)}
    options["config"] = config or choose(shape, op, sms(target))
    check_config(options["config"], problem, majors["b_major"])
    axes = {"a": "mk" if k_major[0] else "km", "b": "wk" if k_major[1] else "kw", "out": "mn", "bias": "uw"}
    packed = [name for name, matrix in (("a", a), ("b", b)) if not matrix.fits_tma(1)]
    arrays = {"a": a, "b": b, "out": problem.out, **others}
    return bind(problem, finish, matmul, options, arrays, axes, packed=packed)
