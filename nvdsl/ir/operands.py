"""Operands and attributes of operations, by the names that MLIR's dialects give them.

The bindings' typed view of an operation has an accessor for each operand and attribute of its definition, and knows how
operands are divided into groups. `named` is that view; the other functions read its attributes as Python values.
"""

from __future__ import annotations

import re
from typing import Any

from nvdsl.ir.walk import constant
from nvdsl.mlir import ir

_AXES = "XYZ"


def named(op: Any) -> Any:
    """The operation with its operands and attributes as Python attributes: ``named(load).coordinates``.

    An optional operand that the operation does not have is None, a group of operands is a list.
    """
    return op.operation.opview


def optional(op: Any, name: str) -> Any | None:
    """The operand ``name``, or None where the operation has none; also where its definition knows no such operand."""
    return getattr(named(op), name, None)


def has(op: Any, name: str) -> bool:
    """Whether the attribute ``name`` is there: a unit attribute that is set, or any other."""
    return name in op.attributes


def flag(op: Any, name: str) -> bool:
    """A boolean attribute, False where it is not there."""
    return name in op.attributes and bool(ir.BoolAttr(op.attributes[name]).value)


def integer(op: Any, name: str, default: int | None = None) -> int:
    """An integer attribute, or an enumeration's number where the dialect keeps it as an integer.

    Raises KeyError where the attribute is not there and no ``default`` is given.
    """
    if default is not None and name not in op.attributes:
        return default
    return int(ir.IntegerAttr(op.attributes[name]).value)


def integers(op: Any, name: str) -> list[int]:
    """An attribute that is an array of integers, dense or not."""
    attribute = op.attributes[name]
    if isinstance(attribute, ir.ArrayAttr):
        return [int(ir.IntegerAttr(one).value) for one in attribute]
    dense = ir.DenseI32ArrayAttr if isinstance(attribute, ir.DenseI32ArrayAttr) else ir.DenseI64ArrayAttr
    return list(dense(attribute))


def string(op: Any, name: str) -> str:
    """A string attribute, "" where it is not there."""
    return str(ir.StringAttr(op.attributes[name]).value) if name in op.attributes else ""


def word(op: Any, name: str) -> str:
    """The case of an enumeration: "bfly" of ``#nvvm<shfl_kind bfly>``, "" where the attribute is not there."""
    if name not in op.attributes:
        return ""
    return re.split(r"[ <]", str(op.attributes[name]).rstrip(">"))[-1]


def constant_value(op: Any) -> int | None:
    """The integer of an ``arith.constant`` or ``llvm.mlir.constant`` (a boolean: 0 or 1), None for another constant."""
    attribute = op.attributes["value"]
    return int(attribute.value) if isinstance(attribute, ir.IntegerAttr | ir.BoolAttr) else None


def matrix_shape(op: Any) -> tuple[int, int, int]:
    """M, N and K of an ``nvvm.wgmma.mma_async`` or ``nvvm.mma.sync``."""
    m, n, k = map(int, re.findall(r"[mnk] = (\d+)", str(op.attributes["shape"])))
    return m, n, k


def mbarriers(group: Any) -> int:
    """How many barriers a value of type ``!nvgpu.mbarrier.group`` has."""
    match = re.search(r"num_barriers = (\d+)", str(group.type))
    return int(match[1]) if match else 1


def launch_sizes(launch: Any) -> tuple[list[Any], list[Any], list[Any]]:
    """The operands that say how large a launch is, along x, y, z: blocks of the grid, threads of a block, blocks of a
    cluster ([] where the launch has no clusters)."""
    view = named(launch)
    grid, block, cluster = ([getattr(view, f"{of}Size{a}") for a in _AXES] for of in ("grid", "block", "cluster"))
    return grid, block, [size for size in cluster if size is not None]


def launch_smem(launch: Any) -> int | None:
    """Bytes of dynamic shared memory of a launch, 0 where it asks for none, None where the host computes them."""
    size = named(launch).dynamicSharedMemorySize
    return 0 if size is None else constant(size)
