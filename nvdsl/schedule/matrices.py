"""Steps that make instructions of tensor cores of vectors: wmma, or mma.sync with ldmatrix."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from nvdsl.ir.operands import has, integer
from nvdsl.ir.walk import defining, walk
from nvdsl.mlir import ir
from nvdsl.mlir.dialects import arith, gpu, vector
from nvdsl.schedule.elementwise import finish_matrices, finish_stores, set_aside
from nvdsl.schedule.registers import fold_views
from nvdsl.schedule.rewrite import is_shared, slice_of
from nvdsl.schedule.step import step
from nvdsl.schedule.work import Work

_DISTRIBUTED = "MLIR distributes products whose sums are loaded and stored, or carried by a loop"

_READ, _WRITE = "vector.transfer_read", "vector.transfer_write"
_LOADS = (_READ, "memref.load")


@step
def wmma(work: Work) -> None:
    """Makes matrices of a warp (gpu.subgroup_mma_*) of the vectors: wmma.load, wmma.mma and wmma.store, and operations
    on whole matrices of the elementwise ones."""
    contractions = _contractions(work)
    element = ir.VectorType(contractions[0].operands[0].type).element_type
    if isinstance(element, ir.BF16Type):
        work.refuse("a product of bf16", "MLIR's !gpu.mma_matrix holds no bf16", "use f16, or f32 as tf32")
    _check_shape(work, contractions[0], (16, 16, 8) if isinstance(element, ir.F32Type) else (16, 16, 16), "wmma")
    fold_views(work)
    with set_aside(work):
        work.run("func.func(convert-vector-to-gpu)", "canonicalize", "cse")
    _store_constants(work)
    finish_matrices(work)
    _refuse_what_is_left(work)
    for op in work.find("gpu.subgroup_mma_compute"):  # MLIR leaves them out, and PTX needs them to be as at the load
        for name, operand in zip(("a_transpose", "b_transpose"), op.operands, strict=False):
            made = defining(operand)
            if made is not None and has(made, "transpose"):
                op.attributes[name] = ir.UnitAttr.get()


@step
def mma_sync(work: Work) -> None:
    """Makes registers of the vectors: ldmatrix for A and B, mma.sync, and loads and stores of two elements for C, which
    are finished in their registers by the elementwise operation behind the product."""
    contractions = _contractions(work)
    element = ir.VectorType(contractions[0].operands[0].type).element_type
    is_f32, is_bf16 = isinstance(element, ir.F32Type), isinstance(element, ir.BF16Type)
    _check_shape(work, contractions[0], (16, 8, 8) if is_f32 else (16, 8, 16), "mma.sync")
    if not any(is_shared(op.operands[0]) for op in work.find(_READ)):
        work.refuse("operands in global memory", "ldmatrix reads shared memory", "stage() before")
    fold_views(work)
    if is_bf16:
        _rename(work, "bf16", "f16")
    with set_aside(work), _plain_copies(work):
        try:
            work.run("func.func(convert-vector-to-gpu{use-nvgpu=true})", "canonicalize", "cse")
        except ir.MLIRError:
            work.refuse("products whose operands or sums are not all vectors of a loop's turn", _DISTRIBUTED,
                        "hoist_sums() before")  # fmt: skip
    if is_bf16:
        _rename(work, "f16", "bf16")
    _order_transposed(work)
    left = _planes(work)
    if left:
        unknown = [op for op in left if op.name not in (_READ, _WRITE, "vector.contract")]
        work.refuse(
            f"{(unknown or left)[0].name} has no form on registers",
            _DISTRIBUTED,
            "leave it out of the payload, or use wmma()" if unknown else "hoist_sums() before",
        )
    finish_stores(work)
    if is_f32:
        for op in work.find("nvgpu.mma.sync"):
            op.attributes["tf32Enabled"] = ir.UnitAttr.get()


@contextmanager
def _plain_copies(work: Work) -> Iterator[None]:
    """Let stores into shared memory store what is loaded for a pass that would distribute what a copy computes like the
    product. The operations between are set aside for as long."""
    aside = []
    for store in work.find(_WRITE, "memref.store"):
        made = defining(store.operands[0])
        if not is_shared(store.operands[1]) or made is None or made.name in _LOADS:
            continue
        between = slice_of([made], [one.operation for one in store.operation.block])
        (load,) = [op for op in between if op.name in _LOADS]
        if load.results[0].type != store.operands[0].type:
            work.refuse("a copy that changes the type of its elements", "MLIR distributes copies of one type",
                        "wmma() or fma()")  # fmt: skip
        ops = [one.operation for one in store.operation.block if one.operation in _chain(load, between)]
        with ir.InsertionPoint(store):
            constants = _take_constants(ops)
        ops = [*constants, *ops]
        aside.append((store, store.operands[0], ops))
        store.operands[0] = load.results[0]
        for op in ops:
            op.detach_from_parent()
    try:
        yield
    except Exception:
        for _, _, ops in aside:  # users first: Python would drop them in any order
            for op in reversed(ops):
                op.erase()
        raise
    for store, value, ops in aside:
        for op in ops:
            ir.InsertionPoint(store).insert(op)
        store.operands[0] = value


def _take_constants(ops: list[Any]) -> list[Any]:
    """Copies of the constants that ``ops`` use, for them alone: a pass drops what only operations use that it can't
    see."""
    made = []
    for op in ops:
        for number, value in enumerate(op.operands):
            constant = defining(value)
            if constant is not None and constant.name == "arith.constant":
                made.append(constant.clone().operation)
                op.operands[number] = made[-1].results[0]
    return made


def _chain(load: Any, between: set[Any]) -> set[Any]:
    """Those of ``between`` that are computed from what was loaded, and what only they use."""
    found: set[Any] = set()
    waiting = [load]
    while waiting:
        for result in waiting.pop().results:
            for use in result.uses:
                if use.owner.operation in between and use.owner.operation not in found:
                    found.add(use.owner.operation)
                    waiting.append(use.owner.operation)
    return found


def _rename(work: Work, old: str, new: str) -> None:
    """A product of bf16 as one of f16 and back: MLIR distributes both alike, and knows one of them. The module is
    another one behind it."""
    text = str(work.module)
    if re.search(rf"(\b|(?<=x)){new}\b", text):
        work.refuse(f"a product of bf16 beside {new}", "MLIR makes mma.sync of f16 alone, so that bf16 is called f16 "
                    "meanwhile", "convert by way of f32, or use another end")  # fmt: skip
    work.module = ir.Module.parse(re.sub(rf"(\b|(?<=x)){old}\b", new, text))


def _order_transposed(work: Work) -> None:
    """Of an A that is stored as its transpose MLIR loads the four 8 x 8 parts row by row, where mma.sync takes them
    column by column (PTX ISA, fragments of m16n8k16): the second and the third change places."""
    for op in work.find("nvgpu.ldmatrix"):
        if integer(op, "numTiles") == 4 and ir.BoolAttr(op.attributes["transpose"]).value:
            with ir.InsertionPoint.after(op), op.location:
                mask = ir.DenseI64ArrayAttr.get([0, 2, 1, 3])
                made = vector.ShuffleOp(op.results[0], op.results[0], mask)
            op.results[0].replace_all_uses_except(made.result, made.operation)


def _contractions(work: Work) -> list[Any]:
    found = work.find("vector.contract")
    if not found:
        work.refuse("no products of vectors", "it works on vector.contract", "vectorize() before")
    if not work.find("gpu.launch"):
        work.refuse("no gpu.launch", "what a warp computes is known in one", "launch() before")
    return found


def _check_shape(work: Work, contract: Any, wanted: tuple[int, int, int], what: str) -> None:
    a, _, c = (list(v.type.shape) for v in list(contract.operands)[:3])
    shape = c[0], c[1], a[0] * a[1] // c[0]
    if shape != wanted:
        element = ir.VectorType(contract.operands[0].type).element_type
        work.refuse(
            f"tiles of {' x '.join(map(str, shape))}",
            f"{what} multiplies {element} as {' x '.join(map(str, wanted))} (PTX ISA)",
            f"tile_fragments{wanted}",
        )


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
    left = _planes(work)
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


def _planes(work: Work) -> list[Any]:
    """What still computes with tiles of a tensor core as vectors."""
    found = [op for op in walk(work.module) if any(_is_plane(v.type) for v in (*op.results, *op.operands))]
    return [op for op in found if op.name != "arith.constant"]


def _is_plane(type: Any) -> bool:
    return isinstance(type, ir.VectorType) and len(type.shape) == 2 and type.shape[0] >= 8
