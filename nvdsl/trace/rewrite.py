"""``convert``: a function whose control flow is traced, from a function.

The source of the function is parsed, transformed and compiled again, with the user's file name and line
numbers. The new function shares the globals and the closure's cells with the old one. It finds the
run-time side in one more free variable. The work is done once for each code object, and of a module once for all
processes (`kept`).
"""

from __future__ import annotations
import __future__

import ast
import dis
import inspect
import sys
import warnings
import weakref
from collections.abc import Callable
from types import CellType, CodeType, FunctionType, SimpleNamespace
from typing import Any

from nvdsl.errors import TraceError, Where, frames
from nvdsl.mlir import threads
from nvdsl.trace import calls, control, kept, source
from nvdsl.trace.expressions import RUNTIME, place
from nvdsl.trace.transform import transform

_FUTURE = sum(getattr(__future__, name).compiler_flag for name in __future__.all_feature_names)
_UNTOUCHED = inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR

_parser = threads.lock()
"""Python's syntax trees (SystemError in 3.11) and its filters of warnings are one thread's at a time."""

# By identity: codes of two files are equal where they stand at the same lines and do the same.
_converted: dict[int, tuple[weakref.ref[CodeType], CodeType | None]] = {}


def convert(function: Callable[..., Any]) -> Callable[..., Any]:
    """``function`` with its control flow traced: Python's `if`, `for`, `while`, `and`, `or`, `not`, chained
    comparisons, conditional expressions, `assert`, and some builtins work on traced values, and the helpers
    that it calls are converted, too. On plain Python values the new function does what the old one does.

    Generators and coroutines are given back as they are: in them, a traced value where Python needs a plain
    one is an error. So are lambdas that can't be told apart in the source.

    Raises ``TraceError`` if the function has control flow and its source can't be found.
    """
    if not isinstance(function, FunctionType):
        raise TypeError(f"convert() takes a Python function, not {function!r}")
    code = function.__code__
    if RUNTIME in code.co_freevars or code.co_flags & _UNTOUCHED:
        return function
    known = _converted.get(id(code))
    if known is None or known[0]() is not code:
        _check_path(code)
        frames.adopt(function)
        new = kept.find(function)
        if new is None:
            new = _rewritten(function)
            if new is not code:
                kept.add(function, new)
        known = _converted[id(code)] = _weak(code), None if new is code else new
    return function if known[1] is None else _bound(function, known[1])


def _check_path(code: CodeType) -> None:
    """MLIR's locations hold UTF-8."""
    path = code.co_filename.encode("utf-8", "backslashreplace").decode()
    if path != code.co_filename:
        raise TraceError(
            f"the path of the file that defines `{code.co_qualname}` is not UTF-8",
            where=Where(path, code.co_firstlineno),
            rule="MLIR keeps the file and line of each op, in UTF-8",
            fix="rename the folder or the file",
        )


def _weak(code: CodeType) -> weakref.ref[CodeType]:
    key, known = id(code), _converted  # while Python ends, its global name may be gone
    return weakref.ref(code, lambda _: known.pop(key, None))


def _call(f: Any) -> Any:
    return calls.resolve(f, convert)


_runtime = SimpleNamespace(call=_call, **{name: getattr(control, name) for name in control.__all__})
_cell = CellType(_runtime)


def _bound(function: FunctionType, code: CodeType) -> FunctionType:
    """A function of ``code`` with everything else that ``function`` has."""
    cells = dict(zip(function.__code__.co_freevars, function.__closure__ or (), strict=True))
    cells[RUNTIME] = _cell
    closure = tuple(cells[name] for name in code.co_freevars)
    new = FunctionType(code, function.__globals__, function.__name__, function.__defaults__, closure)
    new.__kwdefaults__ = function.__kwdefaults__
    new.__qualname__ = function.__qualname__
    new.__module__ = function.__module__
    new.__doc__ = function.__doc__
    new.__dict__.update(function.__dict__)
    if sys.version_info >= (3, 12):
        new.__type_params__ = function.__type_params__
    if sys.version_info >= (3, 14):  # annotations are evaluated when asked for
        new.__annotate__ = function.__annotate__
    else:
        new.__annotations__ = function.__annotations__
    return new


def _rewritten(function: FunctionType) -> CodeType:
    code = function.__code__
    with _parser, warnings.catch_warnings():
        for category in (SyntaxWarning, DeprecationWarning):  # the user's own compilation has given them
            warnings.simplefilter("ignore", category)
        node = source.definition(function)
        if node is None:
            if code.co_name != "<lambda>" and _has_jumps(code):
                raise source.no_source(code, "is not available")
            return code
        try:
            module = _compiled(node, code)
        except RecursionError:
            raise TraceError(
                f"an expression in `{code.co_qualname}` has too many parts",
                where=Where(code.co_filename, code.co_firstlineno),
                rule="a traced function is rewritten part by part, and each part of an expression lies in another one",
                fix="divide it into several statements: `x = a + b`, `x = x + c`",
            ) from None
    inner = _only_code(_only_code(module))
    if not inner.co_flags & inspect.CO_OPTIMIZED:  # a class's code is around the method's
        inner = _only_code(inner)
    new = inner.replace(co_name=code.co_name)  # its lines count from its own first one
    return _requalified(new, inner.co_qualname, code.co_qualname)


def _has_jumps(code: CodeType) -> bool:
    return any(op.opcode in dis.hasjrel for op in dis.get_instructions(code))


def _compiled(node: ast.FunctionDef | ast.Lambda, code: CodeType) -> CodeType:
    """The code of a module with the function ``node`` inside a function that has its free variables as
    parameters, so that they are free again; and, if it is in a class, inside a class, for the sake of
    ``__private`` names.

    The function and the class must not hide the user's: the one gets another name, the other underscores
    before its name, which private names ignore.
    """
    transform(node)
    _strip(node)
    names = [name for name in code.co_freevars if name.isidentifier()]
    owner = _owner(code.co_qualname.split("."))
    inside = f"class ______{owner}: pass" if owner else "pass"
    module = ast.parse(f"def factory({', '.join([RUNTIME, *names])}):\n  {inside}")
    around: Any = module.body[0]
    if isinstance(around.body[0], ast.ClassDef):
        around = around.body[0]
    around.body = [node if isinstance(node, ast.stmt) else place(ast.Expr(node), node)]
    return compile(module, code.co_filename, "exec", flags=code.co_flags & _FUTURE, dont_inherit=True)


def _owner(qualname: list[str]) -> str:
    """The innermost class in a qualified name: a part that is not followed by ``<locals>``."""
    classes = [
        part
        for part, following in zip(qualname, qualname[1:])  # noqa: B905
        if part.isidentifier() and following != "<locals>"
    ]
    return classes[-1] if classes else ""


def _strip(node: ast.FunctionDef | ast.Lambda) -> None:
    """Take away the name, and what is evaluated where the function is defined: that was done once."""
    if isinstance(node, ast.FunctionDef):
        node.name, node.decorator_list, node.returns = "__nv_function__", [], None
        if hasattr(node, "type_params"):
            node.type_params = []
    arguments = node.args
    for part in (*arguments.posonlyargs, *arguments.args, arguments.vararg, *arguments.kwonlyargs, arguments.kwarg):
        if part is not None:
            part.annotation = None
    arguments.defaults = [place(ast.Constant(None), node) for _ in arguments.defaults]
    arguments.kw_defaults = [default and place(ast.Constant(None), default) for default in arguments.kw_defaults]


def _only_code(code: CodeType) -> CodeType:
    (inner,) = (constant for constant in code.co_consts if isinstance(constant, CodeType))
    return inner


def _requalified(code: CodeType, old: str, new: str) -> CodeType:
    """``code`` and the codes in it under the qualified name that the user's function has."""
    constants = (_requalified(c, old, new) if isinstance(c, CodeType) else c for c in code.co_consts)
    return code.replace(co_consts=tuple(constants), co_qualname=new + code.co_qualname.removeprefix(old))
