"""A kernel bound to a product: which extents its arrays share, which operands are copied first, what strides may be."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import nvdsl as nv
from nvdsl.kernels.blocks.linear_combination import LinearCombination
from nvdsl.kernels.gemm.argument_view import ArgumentView
from nvdsl.kernels.gemm.bound_kernel import BoundKernel
from nvdsl.kernels.gemm.dynamic import dynamic, unit
from nvdsl.kernels.gemm.packing import Packing, packing_of
from nvdsl.kernels.gemm.problem import TMA_ALIGNMENT, GemmProblem, Matrix, fits_tma, offsets

AXES = {"a": "mk", "b": "kn", "out": "mn"}
"""The names of the extents, where nothing is turned."""
EXTENTS = "zrc", "yqd"
"""The same of the first operand that is copied, and of the second one."""


def bind(
    problem: GemmProblem,
    finish: LinearCombination,
    function: Any,
    options: dict[str, Any],
    arrays: dict[str, Matrix],
    axes: Mapping[str, str],
    *,
    packed: Sequence[str] = (),
    gathers: Mapping[str, int] | None = None,
    vectors: Sequence[str] | None = None,
    with_batch: bool = False,
    turned: bool = False,
    unbatched: Sequence[str] = (),
    either: bool | None = None,
) -> BoundKernel:
    """A kernel that sees the innermost batch axis, rows, columns: the others are launches.

    ``axes``: the names of each array's extents, a letter each. Where there is no batch, ``with_batch`` keeps an axis of
    one; what the epilogue reads has one always. A factor that serves all batches has none, or one of one. ``packed``:
    the factors that are copied first; ``gathers``: of those that threads read or write, the elements of which rows
    start at multiples, 0 where strides are any; ``vectors``: what alone is read 16 bytes at a time. ``unbatched``: what
    an epilogue reads that has no axis of batches, though others have. ``either``: of a kernel with an
    `EitherEpilogue`, whether it is to store without TMA, too. ``turned``: ``a`` is the product's B, and ``b``
    its A.
    """
    exchanged = {"a": "b", "b": "a"} if turned else {}
    others = {name: matrix for name, matrix in problem.others if name not in arrays}
    read = {name: others[name] for name in ("scale_a", "scale_b", "c", "bias") if name in others}
    named = [*arrays.items(), *read.items()]
    starts = list(offsets([matrix for _, matrix in named]))
    sizes = {"z": 1}
    for name, matrix in arrays.items():
        sizes |= dict(zip(axes[name], matrix.shape[-2:], strict=True))
    if len(arrays["out"].shape) > 2:
        sizes["z"] = arrays["out"].shape[-3]
    multiples = {"n": unit(sizes["n"])} if "c" in read else {}
    if either is False:
        multiples["n"] = math.lcm(multiples.get("n", 1), TMA_ALIGNMENT // arrays["out"].dtype.bytes)
    slots: list[tuple[str, ArgumentView]] = []
    packs: dict[str, Packing] = {}
    for i, (name, matrix) in enumerate(named):
        shape, strides = (1, *matrix.shape)[-3:], (0, *matrix.strides)[-3:]
        if name in "ab" and strides[0] == 0:
            shape = (1, *shape[1:])
        if not with_batch and (name in arrays or name in unbatched) and shape[0] == 1:
            shape, strides = shape[1:], strides[1:]
        seen = replace(matrix, shape=shape, strides=strides)
        letters = ("z" + axes.get(name, "mn"))[-len(shape) :]
        first = [start[i] for start in starts]
        array, *rest = name.split()
        given = " ".join([exchanged.get(array, array), *rest])
        if name in packed:
            packs[given], view = packing_of(seen, first, letters, EXTENTS[len(packs)])
        else:
            whole = name in "ab" or name in ("out", "c") and fits_tma(seen) and not (either and name == "out")
            whole = whole and not with_batch and seen.aligned
            near = not with_batch or seen.dtype == nv.f64  # the simple kernel is for small products but for f64
            if vectors is not None:
                whole = near = name in vectors
            grid = TMA_ALIGNMENT // seen.dtype.bytes if whole else 1
            if gathers is not None and name in gathers:
                grid, near = max(gathers[name], 1), gathers[name] > 0
            spec = dynamic(seen, letters, grid=grid, multiples=multiples, near=near)
            view = replace(ArgumentView.of(seen, first, spec), retyped=bool(rest))
        slots.append((given, view))
    return BoundKernel(problem, finish, function, options, tuple(slots), len(starts), sizes, packs)
