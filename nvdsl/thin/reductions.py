"""`gpu.all_reduce` and `gpu.subgroup_reduce` of loaded text, as loads, stores, barriers and shuffles.

Both have an operation by name, or, of a block, a region that combines two values. A block's threads lay their values in
shared memory; each of the first 32 combines those that are a multiple of 32 behind it; and all combine what is left.
So the order of a sum is the same in every run. A warp's lanes combine theirs with that of the lane at a distance of 1,
2, 4 ...: floats in the order of a tree.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from nvdsl.errors import TraceError, Where
from nvdsl.hopper import arch
from nvdsl.mlir import ir
from nvdsl.mlir.dialects import arith, gpu, memref, scf

NAMES = _ALL, _ = "gpu.all_reduce", "gpu.subgroup_reduce"
_LANES = 32

Combine = Callable[[Any, Any], Any]

_OPERATIONS: dict[str, tuple[Any, Any]] = {
    # of integers, of floats
    "add": (arith.addi, arith.addf), "mul": (arith.muli, arith.mulf), "and": (arith.andi, None),
    "or": (arith.ori, None), "xor": (arith.xori, None), "minui": (arith.minui, None), "minsi": (arith.minsi, None),
    "maxui": (arith.maxui, None), "maxsi": (arith.maxsi, None), "minnumf": (None, arith.minnumf),
    "maxnumf": (None, arith.maxnumf), "minimumf": (None, arith.minimumf), "maximumf": (None, arith.maximumf),
}  # fmt: skip


def expand(op: Any, number: int, at: Where | None) -> None:
    """Replace one of the two ops. ``number``: of the op in its module; ``at``: its line. Raises TraceError for a type
    that is not lowered."""
    value = op.operands[0]
    bits = getattr(value.type, "width", 0)
    if not isinstance(value.type, ir.IntegerType | ir.FloatType) or bits not in (8, 16, 32, 64):
        raise TraceError(
            f"{op.name} of {value.type}",
            where=at,
            rule="numbers of 8, 16, 32 and 64 bits are combined",
            fix="extend the value, or combine a vector's elements first",
        )
    combine = _combine(op, at)
    with op.location, ir.InsertionPoint(op):
        result = _of_block(op, value, combine, number) if op.name == _ALL else _of_warp(op, value, combine)
    op.results[0].replace_all_uses_with(result)
    op.erase()


def _combine(op: Any, at: Where | None) -> Combine:
    regions = list(op.regions)
    if regions and list(regions[0].blocks):
        return lambda a, b: _cloned(regions[0].blocks[0], a, b)
    word = str(op.attributes["op"]).removeprefix("#gpu<all_reduce_op ").removesuffix(">")
    found = _OPERATIONS[word][isinstance(op.operands[0].type, ir.FloatType)]
    if found is None:
        raise TraceError(
            f"{op.name} {word} of {op.operands[0].type}", where=at, rule="the operation is one of the type's"
        )
    return found


def _cloned(block: Any, a: Any, b: Any) -> Any:
    """What the block yields of two values."""
    values = [(block.arguments[0], a), (block.arguments[1], b)]

    def now(value: Any) -> Any:
        return next((new for old, new in values if ir.Value.__eq__(old, value)), value)

    *ops, end = block.operations
    for one in ops:
        copy = one.operation.clone()
        for i, operand in enumerate(copy.operands):
            copy.operands[i] = now(operand)
        values += zip(one.operation.results, copy.results, strict=True)
    return now(end.operation.operands[0])


def _of_block(op: Any, value: Any, combine: Combine, number: int) -> Any:
    type = ir.MemRefType.get([arch.MAX_THREADS_PER_BLOCK], value.type, memory_space=_shared())
    name = f"all_reduce_{number}"
    with ir.InsertionPoint.at_block_begin(_table(op)):
        memref.global_(name, type, sym_visibility="private")
    memory = memref.get_global(type, name)
    zero, one, lanes = (arith.constant(ir.IndexType.get(), n) for n in (0, 1, _LANES))
    x, y, z = (gpu.thread_id(axis) for axis in gpu.Dimension)
    dims = [gpu.block_dim(axis) for axis in gpu.Dimension]
    me = arith.addi(x, arith.muli(dims[0], arith.addi(y, arith.muli(dims[1], z))))
    count = arith.muli(dims[0], arith.muli(dims[1], dims[2]))
    memref.store(value, memory, [me])
    gpu.barrier()

    def folded(first: Any, start: Any, stop: Any, step: Any) -> Any:
        loop = scf.ForOp(start, stop, step, [first])
        with ir.InsertionPoint(loop.body):
            scf.yield_([combine(loop.inner_iter_args[0], memref.load(memory, [loop.induction_variable]))])
        return loop.results[0]

    least = arith.minui(lanes, count)
    mine = scf.IfOp(arith.cmpi(arith.CmpIPredicate.ult, me, least))
    with ir.InsertionPoint(mine.then_block):
        memref.store(folded(value, arith.addi(me, lanes), count, lanes), memory, [me])
        scf.yield_([])
    gpu.barrier()
    result = folded(memref.load(memory, [zero]), one, least, one)
    gpu.barrier()  # the memory is free for the next time
    return result


def _of_warp(op: Any, value: Any, combine: Combine) -> Any:
    size, stride = (op.attributes[name].value if name in op.attributes else default
                    for name, default in (("cluster_size", _LANES), ("cluster_stride", 1)))  # fmt: skip
    i32 = ir.IntegerType.get_signless(32)
    width = arith.constant(i32, _LANES)
    distance = stride
    while distance < size * stride:
        value = combine(value, _shuffled(value, arith.constant(i32, distance), width))
        distance *= 2
    return value


def _shuffled(value: Any, distance: Any, width: Any) -> Any:
    """The value of the lane at a distance: words of 32 bits are what moves."""
    integer = lambda bits: ir.IntegerType.get_signless(bits)  # noqa: E731
    move = lambda x: gpu.ShuffleOp(x, distance, width, gpu.ShuffleMode.XOR).results[0]  # noqa: E731
    type, bits = value.type, value.type.width
    if bits == 32:
        return move(value)
    word = value if isinstance(type, ir.IntegerType) else arith.bitcast(integer(bits), value)
    if bits < 32:
        word = arith.trunci(integer(bits), move(arith.extui(integer(32), word)))
    else:
        half = arith.constant(integer(64), 32)
        low, high = (move(arith.trunci(integer(32), x)) for x in (word, arith.shrui(word, half)))
        word = arith.ori(arith.extui(integer(64), low), arith.shli(arith.extui(integer(64), high), half))
    return word if isinstance(type, ir.IntegerType) else arith.bitcast(type, word)


def _table(op: Any) -> Any:
    """The block of the module around it, where symbols stand."""
    parent = op.parent
    while parent.name not in ("gpu.module", "builtin.module"):
        parent = parent.parent
    return parent.regions[0].blocks[0]


def _shared() -> ir.Attribute:
    return ir.Attribute.parse("#gpu.address_space<workgroup>")
