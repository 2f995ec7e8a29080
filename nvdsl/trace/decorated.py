"""What `nv.jit` and `nv.kernel` may decorate, and whether what they made was used.

A function that can't be traced, a kernel that nobody launches and a value that nobody gets are errors at their lines.
"""

from __future__ import annotations

import ast
import dis
import inspect
import re
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import field
from types import CodeType, FunctionType
from typing import Any

from nvdsl.errors import AdvisoryWarning, TraceError, Where, frames
from nvdsl.errors.records import dataclass
from nvdsl.trace import source
from nvdsl.trace.syntax import walk

# Keyword arguments of a call that are for nvdsl itself.
_OPTIONS = ("stream", "target", "debug")


def place(function: Any) -> Where | None:
    """Where a function is defined; where it is used, if it is none of Python's."""
    code = getattr(function, "__code__", None)
    return Where(code.co_filename, code.co_firstlineno) if isinstance(code, CodeType) else frames.caller()


def _name(x: Any) -> str:
    return getattr(x, "__name__", None) or repr(x)


def check(function: Any, decorator: str) -> None:
    """Raise a ``TraceError`` if ``function`` is nothing that ``decorator`` can decorate."""

    def refuse(what: str, rule: str, fix: str) -> TraceError:
        return TraceError(f"{decorator} of {what}", where=place(function), rule=rule, fix=fix)

    if not isinstance(function, FunctionType):
        wrapped = getattr(function, "__wrapped__", None) or getattr(function, "__func__", None)
        kind = type(function).__name__
        fix = f"write {decorator} right above the `def`"
        if isinstance(wrapped, FunctionType):
            what = f"`{_name(wrapped)}`, which something else decorated: it is a {kind}"
            raise TraceError(
                f"{decorator} of {what}", where=place(wrapped), rule="it decorates a Python function", fix=fix
            )
        raise refuse(f"a {kind}", "it decorates a Python function", fix)
    name = _name(function)
    if function.__code__.co_flags & (inspect.CO_GENERATOR | inspect.CO_ASYNC_GENERATOR):
        raise refuse(
            f"the generator `{name}`",
            "a call of a generator runs nothing: its body would never be traced",
            "write a function without `yield`",
        )
    if function.__code__.co_flags & inspect.CO_COROUTINE:
        raise refuse(
            f"the coroutine `{name}`",
            "a call of an `async def` runs nothing: its body would never be traced",
            "write `def`; launches are asynchronous anyway",
        )


def check_host(function: Any) -> None:
    """`check`, for `nv.jit`: also, that the parameters can be given."""
    check(function, "@nv.jit")
    parameters = inspect.signature(function).parameters
    taken = [p.name for p in parameters.values() if p.name in _OPTIONS and p.kind is not p.POSITIONAL_ONLY]
    if taken:
        raise TraceError(
            f"`{_name(function)}` has a parameter `{taken[0]}`",
            where=place(function),
            rule=f"the keyword arguments {', '.join(_OPTIONS)} of a call are nvdsl's own (where and how it runs): the "
            "function would never get them",
            fix="give the parameter another name",
        )
    if next(iter(parameters), "") in ("self", "cls"):
        raise TraceError(
            f"@nv.jit of the method `{_name(function)}`",
            where=place(function),
            rule="a host function is called with arrays, numbers and compile-time constants; it has no object",
            fix="write a function of the module, and call it in the method: `_run(self.x, tile=self.tile)`",
        )


@dataclass
class _Made:
    """A kernel that was made. ``code``: of the function that made it."""

    function: Any
    code: CodeType | None
    launched: bool = False


@dataclass
class _Host:
    """A host function that is being traced."""

    name: str
    where: Where | None
    kernels: list[_Made] = field(default_factory=list)


current_host: ContextVar[_Host | None] = ContextVar("nvdsl_host", default=None)


@contextmanager
def tracing(function: FunctionType) -> Iterator[None]:
    """Around the trace of a host function: at its end, each kernel that was made was launched."""
    host = _Host(_name(function), place(function))
    before = current_host.get()
    try:
        current_host.set(host)  # within: an interrupt may come as soon as it is set
        yield
    finally:
        current_host.set(before)
    _check_hidden(function)
    left = [made for made in host.kernels if not made.launched]
    for made in left:
        name, heir = made.function.__name__, _heir(made, host.kernels)
        if made.code is not None and (heir is not None or not _mentions(made.code, name)):
            raise TraceError(
                f"the kernel `{name}` is made and never launched"
                + ("" if heir is None else f": its name is another kernel's from {place(heir.function)} on"),
                where=place(made.function),
                rule="@nv.kernel makes a kernel; a call launches it",
                fix=f"write `{name}()` after it, in the host function"
                + ("" if heir is None else ", or give the other one another name"),
            )
    if left and len(left) == len(host.kernels):
        names = ", ".join(f"`{made.function.__name__}`" for made in left)
        text = f"{host.where}: `{host.name}` makes {names} and launches nothing: this call does nothing"
        file, line = (host.where.file, host.where.line) if host.where is not None else ("", 0)
        warnings.warn_explicit(AdvisoryWarning(text), None, file, line)


def _heir(made: _Made, kernels: list[_Made]) -> _Made | None:
    """Another kernel that takes the name of one in the same function."""
    later = kernels[kernels.index(made) + 1 :]
    name, code = made.function.__name__, made.function.__code__
    return next(
        (k for k in later if k.code is made.code and k.function.__name__ == name and k.function.__code__ is not code),
        None,
    )


def _check_hidden(function: FunctionType) -> None:
    """Raise a ``TraceError`` for a parameter of a host function that nobody uses, if a kernel assigns to its name."""
    code = function.__code__
    names = {*code.co_varnames[: code.co_argcount]} - {*code.co_cellvars}
    inner = [one for one in code.co_consts if isinstance(one, CodeType)]
    while inner:
        one = inner.pop()
        inner += [deeper for deeper in one.co_consts if isinstance(deeper, CodeType)]
        taken = one.co_argcount + one.co_kwonlyargcount
        for name in names.intersection(one.co_varnames[taken:]) if one.co_name[0] != "<" else ():
            if not _mentions(code, name):
                at = next((i.positions.lineno for i in dis.get_instructions(one)
                           if i.opname.startswith("STORE") and i.positions is not None
                           and name in (i.argval if isinstance(i.argval, tuple) else (i.argval,))), None)  # fmt: skip
                raise TraceError(
                    f"`{name} = ...` in `{one.co_name}` makes a new variable: `{_name(function)}` gets a `{name}` that "
                    "nobody uses",
                    where=Where(one.co_filename, at or one.co_firstlineno),
                    rule="an assignment to a name makes a variable of the function that it is in",
                    fix=f"{name}[i] = ... stores into an array; give the variable another name",
                )


def no_call(name: str) -> None:
    """Raise a ``TraceError`` if a host function is being traced: another one can't be called there."""
    host = current_host.get()
    if host is not None:
        raise TraceError(
            f"`{name}` is called while `{host.name}` is traced",
            where=frames.caller(kernels=False),
            rule="a host function runs once, while it is traced, and its kernels each time: another host function that "
            "it calls would run once, on arrays that have no elements yet",
            fix="call it before or after; what both need goes into a plain function without @nv.jit",
        )


def made(function: Any) -> Callable[[], None]:
    """A kernel was made. What is returned says that it is launched."""
    host = current_host.get()
    if host is None:
        return lambda: None
    frame = frames.innermost(sys._getframe(1))
    entry = _Made(function, frame.f_code if frame is not None else None)
    host.kernels.append(entry)
    return lambda: setattr(entry, "launched", True)


_VARIABLE = re.compile("LOAD_(FAST|DEREF|CLOSURE|CLASSDEREF|NAME|GLOBAL)")


def _mentions(code: CodeType, name: str) -> bool:
    """Does a function use a variable, but for a statement that is only its name?"""
    instructions = list(dis.get_instructions(code))
    for instruction, following in zip(instructions, [*instructions[1:], instructions[-1]], strict=True):
        names = instruction.argval if isinstance(instruction.argval, tuple) else (instruction.argval,)
        if _VARIABLE.match(instruction.opname) and name in names and following.opname != "POP_TOP":
            return True
    return False


def no_result(function: FunctionType, result: Any, what: str) -> None:
    """Raise a ``TraceError`` if a host function or kernel returned something."""
    if result is not None:
        raise TraceError(
            f"{what} `{_name(function)}` returns a value ({type(result).__name__}), which nobody gets",
            where=_return(function),
            rule="a host function and a kernel return nothing: their results are what they write into arrays",
            fix="pass an array for the result and write into it; `return` without a value is fine",
        )


def _return(function: FunctionType) -> Where | None:
    """The first statement that returns a value."""
    node = source.definition(function)
    statements = node.body if isinstance(node, ast.FunctionDef) else []
    lines = [x.lineno for x in walk(statements) if isinstance(x, ast.Return) and x.value is not None]
    return Where(function.__code__.co_filename, min(lines)) if lines else place(function)
