"""What bindings of another LLVM revision lack of the pinned provider's interface, added to their modules.

nvdsl calls the interface of the pinned provider. Upstream's 22.1 differs from it in three ways:

* Constructors of ops whose result type follows from the rest (``nvvm.elect_sync``, ``nvvm.shfl_sync``, special
  registers) want that type as their first argument. Here it may be left out, or given as ``results=[type]``.
* ``ir.Location`` has no subclasses. ``ir.FileLineColLoc`` and its kin are defined by its predicates.
* Enumerations have older names (``nvvm.ReduxKind``).

Nothing is taken away. A call that names every argument means what it meant, so that other users of these bindings in
the same process see no change. The default provider never imports this module.
"""

from __future__ import annotations

import functools
import importlib.machinery
import inspect
import re
import sys
import types
from collections.abc import Callable
from typing import Any

_GENERATED = ("_ops_gen", "_enum_gen")
_RENAMED = {"ReductionKind": "ReduxKind"}  # enumerations, and their names in LLVM 22
_INFER = object()  # stands for a result type that was left out


def adapt(provider: str, ir: Any) -> None:
    """Adapt a provider's ``ir``, and its dialects: those that are loaded, and the others when they are."""
    _adapt_locations(ir)
    dialects = f"{provider}.dialects."
    for name, module in list(sys.modules.items()):
        if name.startswith(dialects):
            _adapt_dialect(module, ir)
    sys.meta_path.insert(0, _Dialects(dialects, ir))


class _Dialects:
    """Finds the modules that the bindings' generator wrote for a dialect, to adapt them once they are loaded."""

    def __init__(self, prefix: str, ir: Any) -> None:
        self._prefix, self._ir = prefix, ir

    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> Any:
        if not (fullname.startswith(self._prefix) and fullname.endswith(_GENERATED)):
            return None
        spec = importlib.machinery.PathFinder.find_spec(fullname, path, target)
        loader: Any = None if spec is None else spec.loader
        if loader is not None:
            execute = loader.exec_module

            def exec_module(module: types.ModuleType) -> None:
                execute(module)
                _adapt_dialect(module, self._ir)

            loader.exec_module = exec_module
        return spec


def _adapt_locations(ir: Any) -> None:
    """Define the location classes that ``ir`` lacks, for `isinstance`. Their attributes are those of
    ``ir.Location``, under the same names."""
    predicates = {
        "FileLineColLoc": "is_a_file",
        "NameLoc": "is_a_name",
        "CallSiteLoc": "is_a_callsite",
        "FusedLoc": "is_a_fused",
    }
    for name, predicate in predicates.items():
        if not hasattr(ir, name):
            setattr(ir, name, _KindOfLocation(name, (), {"predicate": predicate, "location": ir.Location}))


class _KindOfLocation(type):
    predicate: str
    location: type

    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, cls.location) and getattr(instance, cls.predicate)()


def _adapt_dialect(module: types.ModuleType, ir: Any) -> None:
    """Let the ops of a dialect's module be built without the types of their results, and name its enumerations."""
    for name, before in _RENAMED.items():
        if hasattr(module, before) and not hasattr(module, name):
            setattr(module, name, getattr(module, before))
    names = list(vars(module))
    counts = {}  # of result types that an op's constructor starts with
    for name in names:
        op = getattr(module, name)
        if isinstance(op, type) and issubclass(op, ir.OpView):
            results = _leading_results(op)
            if results:
                counts[name] = len(results)
                if not hasattr(op.__init__, "__wrapped__"):  # type: ignore[misc]
                    op.__init__ = _inferring(op, results, ir)  # type: ignore[misc]
    for name in names:
        build = getattr(module, name)
        if isinstance(build, types.FunctionType) and build.__module__.endswith(_GENERATED):
            # What the generator of the bindings writes is one call of the op's class.
            called = [counts[one] for one in build.__code__.co_names if one in counts]
            if called:
                setattr(module, name, functools.wraps(build)(_filling(build, 0, called[0])))


def _leading_results(op: type) -> list[str]:
    """The parameters of an op's constructor that take result types, if it starts with them."""
    parameters = inspect.signature(op.__init__).parameters  # type: ignore[misc]
    names = list(parameters)[1:]
    accessors: list[Any] = [vars(op).get(name) for name in names]
    found = [isinstance(a, property) and "results" in a.fget.__code__.co_names for a in accessors]  # type: ignore[union-attr]
    return names[: found.index(False)] if False in found else []


def _filling(build: Callable[..., Any], first: int, count: int) -> Callable[..., Any]:
    """``build``, whose arguments ``first`` to ``first + count`` may be left out, or be given as ``results``."""
    parameters = inspect.signature(build).parameters.values()
    required = [p.name for p in parameters if p.kind is p.POSITIONAL_OR_KEYWORD and p.default is p.empty]

    def filled(*args: Any, **kwargs: Any) -> Any:
        results = kwargs.pop("results", None)
        given = len(args) + sum(name in kwargs for name in required[len(args) :])
        if results is None and given + count == len(required):
            results = [_INFER] * count
        return build(*args[:first], *(results or ()), *args[first:], **kwargs)

    return filled


def _inferring(op: type, results: list[str], ir: Any) -> Callable[..., None]:
    construct = op.__init__  # type: ignore[misc]
    signature = inspect.signature(construct)

    @functools.wraps(construct)
    def inferred(*args: Any, **kwargs: Any) -> None:
        bound = signature.bind(*args, **kwargs)
        if any(bound.arguments[name] is _INFER for name in results):
            bound.arguments.update(zip(results, _result_types(op, bound, results, ir), strict=True))
        construct(*bound.args, **bound.kwargs)

    return functools.wraps(construct)(_filling(inferred, 1, len(results)))


def _result_types(op: Any, bound: inspect.BoundArguments, results: list[str], ir: Any) -> list[Any]:
    name = op.OPERATION_NAME
    if name in _DEPENDENT:
        texts = [_DEPENDENT[name](_Arguments(bound.arguments))]
    elif name.startswith("nvvm.read.ptx.sreg."):
        texts = ["i64" if name.endswith(("clock64", "globaltimer")) else "i32"]
    else:
        texts = [_only_type(op, bound, results, i, ir) for i in range(len(results))]
    return [None if text is None else ir.Type.parse(text) for text in texts]


_ONLY_TYPES: dict[tuple[str, int], str] = {}  # by op and result: what `_only_type` has found
_CONSTRAINTS = {r"(\d+)-bit signless integer": r"i\1", r"(\d+)-bit float": r"f\1", "index": "index"}


def _only_type(op: Any, bound: inspect.BoundArguments, results: list[str], number: int, ir: Any) -> str:
    """The type of a result for which the op's definition allows one type only. MLIR's verifier names it when it
    refuses another, so an op with the type ``none`` is made, outside of any block, and verified."""
    key = (op.OPERATION_NAME, number)
    if key not in _ONLY_TYPES:
        trial = inspect.BoundArguments(bound.signature, dict(bound.arguments))
        trial.arguments.update(dict.fromkeys(results, ir.NoneType.get()), self=op.__new__(op), ip=False)
        op.__init__(*trial.args, **trial.kwargs)
        try:
            trial.arguments["self"].verify()
            allowed = "any type"
        except ir.MLIRError as error:
            found = re.search(rf"result #{number} must be (.*), but got", str(error))
            allowed = found[1] if found else str(error)
        for constraint, text in _CONSTRAINTS.items():
            if re.fullmatch(constraint, allowed):
                _ONLY_TYPES[key] = re.sub(constraint, text, allowed)
                break
        else:
            raise TypeError(
                f"{op.OPERATION_NAME}: these bindings don't infer the type of result {results[number]!r} "
                f"({allowed}): pass results=[type]"
            )
    return _ONLY_TYPES[key]


class _Arguments:
    """The arguments of a constructor by name, as text: types of values, and other arguments as they are printed."""

    def __init__(self, given: dict[str, Any]) -> None:
        self._given = given

    def type(self, name: str) -> str:
        value = self._given[name]
        return str(value.type if hasattr(value, "type") else value.result.type)

    def text(self, name: str) -> str:
        value = self._given.get(name)
        return "" if value is None or value is False else str(value)


def _shuffled(op: _Arguments) -> str:
    return f"!llvm.struct<({op.type('val')}, i1)>" if op.text("return_value_and_is_valid") else op.type("val")


def _arrival(op: _Arguments) -> str | None:
    """An mbarrier of another block (shared::cluster, address space 7) gives no state."""
    return None if op.type("addr") == "!llvm.ptr<7>" else "i64"


def _loaded_matrices(op: _Arguments) -> str:
    count = int(op.text("num").split()[0])
    return "i32" if count == 1 else f"!llvm.struct<({', '.join(['i32'] * count)})>"


# The ops of the NVVM dialect whose result follows from operands or attributes; None: the op has none.
_DEPENDENT: dict[str, Callable[[_Arguments], str | None]] = {
    "nvvm.barrier": lambda op: "i32" if op.text("reductionOp") else None,
    "nvvm.ldmatrix": _loaded_matrices,
    "nvvm.match.sync": lambda op: "!llvm.struct<(i32, i1)>" if "all" in op.text("kind") else "i32",
    "nvvm.mbarrier.arrive": _arrival,
    "nvvm.mbarrier.arrive.expect_tx": _arrival,
    "nvvm.mbarrier.arrive_drop": _arrival,
    "nvvm.mbarrier.arrive_drop.expect_tx": _arrival,
    "nvvm.redux.sync": lambda op: op.type("val"),
    "nvvm.shfl.sync": _shuffled,
    "nvvm.vote.sync": lambda op: "i32" if "ballot" in op.text("kind") else "i1",
}
