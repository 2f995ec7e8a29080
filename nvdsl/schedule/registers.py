"""Steps for what stays in registers: sums, and the matrices of tensor cores."""

from __future__ import annotations

from typing import Any

from nvdsl.ir.operands import has
from nvdsl.ir.walk import defining, walk
from nvdsl.mlir import ir
from nvdsl.mlir.dialects import arith, gpu, transform
from nvdsl.mlir.dialects.transform import structured
from nvdsl.schedule.rewrite import key
from nvdsl.schedule.shared import is_shared
from nvdsl.schedule.step import step
from nvdsl.schedule.warps import FRAGMENT_LOOP
from nvdsl.schedule.work import Work

_READ, _WRITE = "vector.transfer_read", "vector.transfer_write"


@step
def hoist_sums(work: Work) -> None:
    """Takes loads and stores of C out of the loop over K: the sums become values that the loop carries, in registers.
    What is stored and then loaded again, between elementwise operations for instance, stays in registers, too."""
    if not work.find("vector.contract"):
        work.refuse("no vectors", "it works on vectors of C", "vectorize() before")
    if any(FRAGMENT_LOOP in op.attributes for op in work.find("scf.for")):
        work.refuse("loops over tiles of a tensor core", "each sum is a value of its own", "unroll('fragments') before")
    if not work.find("gpu.launch"):
        work.refuse("no gpu.launch", "warps' tiles of C are known by their thread's ids", "launch() before")
    fold_views(work)
    _forward(work)
    with work.transform() as script:
        structured.HoistRedundantVectorTransfersOp(script.any_op, script.match("func.func"))
    work.clean()
    work.run("loop-invariant-code-motion")
    _forward(work)
    work.clean()


def fold_views(work: Work) -> None:
    """Let accesses name the whole array and not a view of it."""
    with work.transform() as script:
        transform.ApplyLoopInvariantCodeMotionOp(script.match("scf.for"))
    work.run("fold-memref-alias-ops", "canonicalize", "cse", "loop-invariant-code-motion")


def _forward(work: Work) -> None:
    """Reads of global memory of what the same thread has just written take the value, and of two writes to one place
    the last stays. Places are the same where array and indices are, and different arrays are different places; a write
    to the array at other indices is an end of what is known of it."""
    blocks = {}
    for op in work.find(_WRITE):
        blocks[op.operation.block.owner.operation, str(op.operation.block)[:64]] = op.operation.block
    for block in blocks.values():
        written: dict[Any, Any] = {}
        for op in [one.operation for one in block.operations]:
            if op.name == _READ and not is_shared(op.operands[0]):
                place = _place(op.operands[0], list(op.operands)[1:-1], op.results[0].type)
                if place in written:
                    op.results[0].replace_all_uses_with(written[place].operands[0])
                    op.erase()
            elif op.name == _WRITE and not is_shared(op.operands[1]):
                place = _place(op.operands[1], list(op.operands)[2:], op.operands[0].type)
                if place in written:
                    written[place].erase()
                written[place] = op
            elif any(_may_read(inner, written) for inner in walk(op)):
                written = {}


def _place(array: Any, indices: list[Any], type: Any) -> Any:
    return (key(array), tuple(map(key, indices)), str(type))


def _may_read(op: Any, written: dict[Any, Any]) -> bool:
    """Whether an operation may read or write an array in which something is known: not one that names only others."""
    arrays = {place[0] for place in written}
    return any(isinstance(v.type, ir.MemRefType) and key(v) in arrays for v in op.operands)


@step
def wmma(work: Work) -> None:
    """Makes matrices of a warp (gpu.subgroup_mma_*) of the vectors: wmma.load, wmma.mma and wmma.store, and operations
    on whole matrices of the elementwise ones."""
    contractions = work.find("vector.contract")
    if not contractions:
        work.refuse("no products of vectors", "it works on vector.contract", "vectorize() before")
    element = ir.VectorType(contractions[0].operands[0].type).element_type
    if isinstance(element, ir.BF16Type):
        work.refuse("a product of bf16", "MLIR's !gpu.mma_matrix holds no bf16", "use f16, or f32 as tf32")
    m, n, k = _shape(contractions[0])
    wanted = (16, 16, 8) if isinstance(element, ir.F32Type) else (16, 16, 16)
    if (m, n, k) != wanted:
        work.refuse(
            f"tiles of {m} x {n} x {k}",
            f"wmma multiplies {element} as {' x '.join(map(str, wanted))} (PTX ISA, wmma.mma)",
            f"tile_fragments{wanted}",
        )
    fold_views(work)
    work.run("func.func(convert-vector-to-gpu)", "canonicalize", "cse")
    _store_constants(work)
    _refuse_what_is_left(work)
    for launch in work.find("gpu.launch"):
        start = list(launch.regions[0].blocks[0].operations)[0]
        for op in work.find("gpu.subgroup_mma_constant_matrix"):  # of a constant, which was moved out of the launch
            if op.operation.parent.name == "func.func":
                op.move_before(start)
    for op in work.find("gpu.subgroup_mma_compute"):  # MLIR leaves them out, and PTX needs them to be as at the load
        for name, operand in zip(("a_transpose", "b_transpose"), op.operands, strict=False):
            made = defining(operand)
            if made is not None and has(made, "transpose"):
                op.attributes[name] = ir.UnitAttr.get()


def _store_constants(work: Work) -> None:
    """Writes of constant vectors, which MLIR leaves where no product uses them."""
    for op in work.find(_WRITE):
        value, array, *indices = op.operands
        made = defining(value)
        if not _is_plane(value.type) or made is None or made.name != "arith.constant" or is_shared(array):
            continue
        dense = ir.DenseElementsAttr(made.attributes["value"])
        shape = "x".join(map(str, value.type.shape))
        matrix = ir.Type.parse(f'!gpu.mma_matrix<{shape}x{value.type.element_type}, "COp">')
        strides, _ = array.type.get_strides_and_offset()
        with ir.InsertionPoint(op), op.location:
            scalar = arith.ConstantOp(value.type.element_type, dense.get_splat_value()).result
            whole = gpu.subgroup_mma_constant_matrix(matrix, scalar)
            gpu.subgroup_mma_store_matrix(whole, array, indices, ir.IntegerAttr.get(ir.IndexType.get(), strides[-2]))
        op.erase()


def _refuse_what_is_left(work: Work) -> None:
    """Upstream converts all operations that hang together, or none."""
    left = [op for op in walk(work.module) if any(_is_plane(v.type) for v in (*op.results, *op.operands))]
    left = [op for op in left if op.name != "arith.constant"]
    if left:
        unknown = [op for op in left if op.name not in _WITH_FORM] or left
        work.refuse(
            f"{unknown[0].name} has no form on matrices of a warp",
            "which lane holds which element is not known: what there is are arith.addf, subf, mulf, divf, maximumf and "
            "minimumf of matrices, constants, and rows or columns (gpu.subgroup_mma_elementwise)",
            "leave it out of the payload, or use a schedule without wmma()",
        )


_WITH_FORM = (
    _READ, _WRITE, "vector.contract", "vector.broadcast", "vector.transpose", "arith.addf", "arith.subf", "arith.mulf",
    "arith.divf", "arith.maximumf", "arith.minimumf", "arith.negf",
)  # fmt: skip


def _shape(contract: Any) -> tuple[int, int, int]:
    a, _, c = (list(v.type.shape) for v in list(contract.operands)[:3])
    return c[0], c[1], a[0] * a[1] // c[0]


def _is_plane(type: Any) -> bool:
    return isinstance(type, ir.VectorType) and len(type.shape) == 2 and type.shape[0] > 1
