"""Payloads: what a schedule is applied to, linalg in a function of MLIR."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from numbers import Integral
from pathlib import Path
from typing import Any

from nvdsl.call import module as modules
from nvdsl.errors import ArgumentError, TraceError, Where, frames
from nvdsl.errors.records import dataclass
from nvdsl.ir.walk import find, walk
from nvdsl.mlir import ir, threads
from nvdsl.mlir.dialects import linalg
from nvdsl.mlir.dialects import tensor as tensors
from nvdsl.schedule.rewrite import key
from nvdsl.values.dtypes import DType, bf16, element, f16, f32
from nvdsl.values.traced import const


@dataclass(frozen=True)
class Payload:
    """A function of MLIR with linalg operations. ``text``: a module with one ``func.func``. ``name``: its name.

    Its arguments are tensors, and its result the tensor that it makes of the last one, or else they are memrefs, of
    which it writes the last one. Shapes are static.
    """

    text: str
    name: str


def check_payload(given: Any) -> None:
    """Raises ArgumentError for what is no `Payload`."""
    if not isinstance(given, Payload):
        raise ArgumentError(f"{given if isinstance(given, str) else repr(given):.60} in the place of a payload",
                            where=frames.caller(), rule="a schedule is applied to what matmul() or payload() made",
                            fix="nvdsl.schedule.payload(text)")  # fmt: skip


def payload(source: str | os.PathLike[str] | ir.Module) -> Payload:
    """The payload that a module is: its text, the path of a file with it, or an ``ir.Module``.

    Raises TraceError where MLIR refuses the text, it has not one function, or this has other arguments than arrays
    whose shapes are known; ArgumentError for what is no source.
    """
    if not isinstance(source, (str, os.PathLike, ir.Module)):
        raise ArgumentError(f"{source!r} as a payload", where=frames.caller(),
                            rule="a payload is MLIR's text, the path of a file with it, or an ir.Module")  # fmt: skip
    if isinstance(source, os.PathLike):
        source = Path(source).read_text()
    text = str(source)
    with threads.mlir, modules.context(), ir.Location.unknown():
        try:
            module = ir.Module.parse(text)  # a name of its own: operations don't keep their module
            functions = find(module, "func.func")
            names = [ir.StringAttr(op.attributes["sym_name"]).value for op in functions]
            kinds = [ir.FunctionType(ir.TypeAttr(op.attributes["function_type"]).value) for op in functions]
        except ir.MLIRError as error:
            first = error.error_diagnostics[0].message
            raise TraceError(first, where=frames.caller(), rule="MLIR refuses the module") from None
    if len(names) != 1:
        raise TraceError(
            f"a payload with {len(names)} functions",
            where=frames.caller(),
            rule="a payload is a module with one func.func",
            fix="write each payload as a module of its own",
        )
    for number, type in enumerate(kinds[0].inputs):
        if not isinstance(type, ir.ShapedType) or not type.has_static_shape:
            raise TraceError(
                f"argument {number} of a payload is {type}",
                where=frames.caller(),
                rule="arguments are arrays, and their shapes are known",
                fix="a constant in the payload for a number, or an array of one element a row",
            )
    _check_results(functions[0])
    return Payload(text, names[0])


def _check_results(function: Any) -> None:
    """Each operation on tensors makes its result of the last argument: another one would be overwritten, in place."""
    arguments = [key(one) for one in function.regions[0].blocks[0].arguments]
    for op in walk(function):
        if not (op.name.startswith("linalg.") and len(op.results) and len(op.operands)):
            continue
        made = key(op.operands[len(op.operands) - 1])
        if made in arguments[:-1]:
            raise TraceError(
                f"{op.name} makes its result of argument {arguments.index(made)}",
                where=frames.caller(),
                rule="arguments are read, but for the last one, of which the result is made",
                fix="outs(...) of the last argument; what starts a sum, or is added, is an operand of linalg.add",
            )


_OPERANDS = {"m": "(b, m, n) -> (m)", "n": "(b, m, n) -> (n)", "mn": "(b, m, n) -> (b, m, n)"}


def matmul(
    m: int,
    n: int,
    k: int,
    dtype: DType = f16,
    *,
    sums: DType = f32,
    batch: int | None = None,
    transpose_a: bool = False,
    transpose_b: bool = False,
    add: bool = False,
    of_a: Callable[[Any], Any] | None = None,
    of_b: Callable[[Any], Any] | None = None,
    then: Callable[..., Any] | None = None,
    operands: Sequence[str] = (),
) -> Payload:
    """``C = A B`` as a payload on tensors: linalg.matmul, or linalg.batch_matmul with a ``batch``.

    A is ``[m, k]``, or ``[k, m]`` with ``transpose_a``; B ``[k, n]``, or ``[n, k]`` with ``transpose_b``, both of
    ``dtype``: f16, bf16 or f32 (which tensor cores take as tf32). C is ``[m, n]``, of the type of the ``sums``: f32, or
    f16 for f16. All have a leading ``[batch]`` where one is given. ``add``: ``C = A B + C``.

    ``then``: a function of an element of ``A B``, and of one of each of the ``operands``, to that of C, with nvdsl's
    operators and functions (``lambda x, bias: nv.max(x + bias, 0.0)``). An operand is an array ``"m"``, ``"n"`` or
    ``"mn"`` of the sums' type: one element a row, a column, or an element. The function takes ``(A, B, *operands, C)``.

    ``of_a``, ``of_b``: functions of an element of A or of B, of ``dtype``, to the one that is multiplied in its place.

    Raises ArgumentError for types and extents that there are not.
    """
    where = frames.caller()
    dtype, sums = element(dtype), element(sums)
    if dtype not in (f16, bf16, f32) or sums not in ((f16, f32) if dtype is f16 else (f32,)):
        raise ArgumentError(f"a product of {dtype.name} with {sums.name} sums", where=where,
                            rule="f16 has f16 or f32 sums; bf16 and f32 (as tf32) have f32 sums")  # fmt: skip
    extents = [m, n, k, *([] if batch is None else [batch])]
    if not all(isinstance(one, Integral) and one > 0 for one in extents) or not {*operands} <= {*_OPERANDS}:
        raise ArgumentError(f"a product of {m} x {n} x {k}{'' if batch is None else f', a batch of {batch}'}, "
                            f"with operands {list(operands)}", where=where,
                            rule="extents are whole numbers from 1 on, and operands are 'm', 'n' or 'mn'")  # fmt: skip
    if operands and then is None:
        raise ArgumentError("operands without a function", where=where, rule="operands are what `then` takes",
                            fix="pass then=lambda x, bias: x + bias")  # fmt: skip

    def tensor(*shape: int, of: DType = sums, lead: bool = True) -> str:
        extents = (batch, *shape) if batch is not None and lead else shape
        return f"tensor<{'x'.join(map(str, extents))}x{of.name}>"

    a = tensor(*((k, m) if transpose_a else (m, k)), of=dtype)
    b = tensor(*((n, k) if transpose_b else (k, n)), of=dtype)
    c, rank = tensor(m, n), 2 if batch is None else 3
    extra = [{"m": tensor(m, lead=False), "n": tensor(n, lead=False), "mn": c}[one] for one in operands]
    kind = "linalg.matmul" if batch is None else "linalg.batch_matmul"
    lead = "" if batch is None else "b, "
    maps = [
        f"affine_map<({lead}m, n, k) -> ({lead}{places})>"
        for places in ("k, m" if transpose_a else "m, k", "n, k" if transpose_b else "k, n", "m, n")
    ]
    arguments = [f"%A: {a}", f"%B: {b}", *(f"%e{i}: {one}" for i, one in enumerate(extra))]
    product = (
        f"%p = {kind} indexing_maps = [{', '.join(maps)}] ins(%A, %B : {a}, {b}) "
        f"outs(%{'C' if add else 'zero'} : {c}) -> {c}"
    )
    start = "" if add else f"%zero = linalg.fill ins(%none : {sums.name}) outs(%C : {c}) -> {c}"
    text = f"""
    func.func @matmul({", ".join(arguments)}, %C: {c} {{bufferization.writable = true}}) -> {c} {{
      %none = arith.constant 0.0 : {sums.name}
      {start}
      {product}
      return %p : {c}
    }}"""
    if not (then or of_a or of_b):
        return payload(text)
    texts = [_OPERANDS[one] if rank == 3 else _OPERANDS[one].replace("b, ", "") for one in operands]
    with threads.mlir, modules.context(), ir.Location.unknown():
        module = ir.Module.parse(text)
        block = module.body.operations[0].regions[0].blocks[0]
        end = list(block.operations)[-1]
        product = end.operands[0].owner.operation
        for number, function in enumerate((of_a, of_b)):
            if function is not None:
                with ir.InsertionPoint(product):
                    operand = product.operands[number]
                    kind = ir.RankedTensorType(operand.type)
                    empty = tensors.empty(kind.shape, kind.element_type)
                    product.operands[number] = _elementwise(function, [operand], empty, ["identity"], where)
        if then is not None:
            with ir.InsertionPoint(end):
                extra = list(block.arguments)[2:-1]
                maps = [f"affine_map<{one}>" for one in texts]
                end.operands[0] = _elementwise(then, extra, product.results[0], maps, where)
        return payload(module)


def _elementwise(
    function: Callable[..., Any], inputs: list[Any], out: Any, maps: list[str], where: Where | None
) -> Any:
    """A linalg.generic whose body ``function`` makes: of an element of ``out`` and of the inputs, or of an only input
    where ``out`` is empty."""
    rank = ir.RankedTensorType(out.type).rank
    identity = ir.AffineMapAttr.get(ir.AffineMap.get_identity(rank))
    indexing = [*(identity if one == "identity" else ir.Attribute.parse(one) for one in maps), identity]
    parallel = ir.ArrayAttr.get([ir.Attribute.parse("#linalg.iterator_type<parallel>")] * rank)
    generic = linalg.GenericOp([out.type], inputs, [out], ir.ArrayAttr.get(indexing), parallel)
    types = [ir.RankedTensorType(v.type).element_type for v in (*inputs, out)]
    body = generic.regions[0].blocks.append(*types, arg_locs=[ir.Location.unknown()] * len(types))
    with ir.InsertionPoint(body):
        *others, x = body.arguments
        made = function(*others) if maps == ["identity"] else function(x, *others)
        if not isinstance(made, ir.Value):
            made = const(made, types[-1])
        if made.type != types[-1]:
            raise ArgumentError(f"a function of elements that gives {made.type}", where=where,
                                rule=f"what it gives is {types[-1]}, like the element that it changes",
                                fix="convert it, as in nv.f32(x)")  # fmt: skip
        linalg.YieldOp([made])
    return generic.results[0]
