"""The arrays of a call of ``matmul``: operands whose columns stay columns, and what may overlap."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from nvdsl.driver.arguments import Disjoint
from nvdsl.driver.array_spec import packed_strides, spec_of
from nvdsl.kernels.arguments import Argument
from nvdsl.kernels.gemm.problem import Matrix


def operand(name: str, array: Any) -> Argument:
    """An array as a stack of matrices. A host array whose columns lie side by side is packed in that order, since a
    kernel reads either order as it is. Raises ArgumentError as `Argument.of` does."""
    x = Argument.of(name, array, written=name == "out")
    host, spec = x.host, x.spec
    if host is None or host.ndim < 2 or abs(host.strides[-2]) >= abs(host.strides[-1]) or min(host.shape[-2:]) <= 1:
        return x
    turned = host.swapaxes(-1, -2)
    steps = packed_strides(turned.shape)
    return Argument(name, spec_of(spec.shape, spec.dtype, (*steps[:-2], steps[-1], steps[-2])), x.memory, turned)


def matrix(x: Argument) -> Matrix:
    return Matrix(x.spec.dtype, x.spec.shape, x.spec.strides, x.aligned)


def disjoint(arguments: Mapping[str, Argument], in_place: Sequence[str] = ("c",)) -> dict[str, Disjoint]:
    """What may not share memory with ``out``, by name: all inputs; but those ``in_place`` may be out itself."""
    out = arguments["out"]
    return {name: out.apart(x, or_same=name in in_place) for name, x in arguments.items() if x is not out}


def check_disjoint(arguments: Mapping[str, Argument], in_place: Sequence[str] = ("c",)) -> None:
    """Raises ArgumentError where ``out`` shares memory with an input that it may not share any with."""
    out = arguments["out"]
    for name, x in arguments.items():
        if x is not out:
            out.check_apart(x, or_same=name in in_place)
