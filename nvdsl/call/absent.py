"""Arguments that are None where a kernel uses them as arrays: said at the call that gave them."""

from __future__ import annotations

import ast
import inspect
import linecache
import re
from collections.abc import Collection
from types import CodeType, TracebackType

from nvdsl.call.specialize import Call, Constant
from nvdsl.errors import ArgumentError, frames
from nvdsl.trace.explain import is_raised


def parameters(signature: inspect.Signature, call: Call) -> set[str]:
    """The parameters of a function that are None in a call."""
    given = dict(zip(call.parameters(signature), call.specs, strict=True))
    nothing = {name for name, spec in given.items() if spec.__class__ is Constant and spec.value is None}
    return nothing | {name for name, one in signature.parameters.items() if one.default is None and name not in given}


def explain(error: Exception, host: CodeType, absent: Collection[str]) -> ArgumentError | None:
    """The ``error`` that left a trace of ``host``, as one of the call's, where parameters of it that are None
    (``absent``) caused it; None where they did not."""
    message, used = getattr(error, "message", str(error)), _users(error.__traceback__)
    if "None" not in message or not used or is_raised(used[0]):
        return None
    guilty = _parameters(used, host) & set(absent)
    if not guilty:
        return None
    names = " and ".join(f"`{name}`" for name in sorted(guilty))
    are, arrays, they = ("is", "an array", "it") if len(guilty) == 1 else ("are", "arrays", "they")
    place = frames.Where(used[0].tb_frame.f_code.co_filename, used[0].tb_lineno)
    return ArgumentError(
        f"{names} of {host.co_name} {are} None in this call, and used at {place}: {message}",
        where=frames.caller(),
        rule="None is a compile-time constant: a function that is traced can ask whether a parameter is None",
        fix=f"pass {arrays} for {names}; if {they} may be missing, guard the use: `if {min(guilty)} is not None:`",
    ).with_traceback(error.__traceback__)


def _users(traceback: TracebackType | None) -> list[TracebackType]:
    """Those of user code, the innermost first."""
    found = []
    while traceback is not None:
        name = traceback.tb_frame.f_code.co_filename
        if frames.is_user(name) and not frames.is_installed(name):
            found.append(traceback)
        traceback = traceback.tb_next
    return found[::-1]


def _parameters(used: list[TracebackType], host: CodeType) -> set[str]:
    """The parameters of ``host`` that are None in what was evaluated last, also where helpers passed them on."""
    names = _absent(used[0])
    for at, outer in zip(used, [*used[1:], None], strict=True):
        code = at.tb_frame.f_code
        own = set(code.co_varnames[: code.co_argcount + code.co_kwonlyargcount])
        if outer is None:
            return names & own if code.co_name == host.co_name else set()
        names = (names & set(code.co_freevars)) | _passed(outer, names & own, code.co_varnames)
    return set()


def _passed(at: TracebackType, wanted: set[str], parameters: tuple[str, ...]) -> set[str]:
    """The variables that are None and that a call, at which a frame stands, passes for the ``wanted`` parameters."""
    try:
        call = ast.parse(_text(at).strip(), mode="eval").body
    except SyntaxError:
        return set()
    if not wanted or not isinstance(call, ast.Call):
        return set()
    given = list(
        zip(parameters[isinstance(call.func, ast.Attribute) and parameters[0] == "self" :], call.args, strict=False)
    )
    given += [(keyword.arg or "", keyword.value) for keyword in call.keywords]
    names = {value.id for parameter, value in given if parameter in wanted and isinstance(value, ast.Name)}
    return names & _absent(at)


def _absent(at: TracebackType) -> set[str]:
    """The variables that are None in the expression that a frame stands at."""
    variables, text = at.tb_frame.f_locals, _text(at)
    return {name for name in re.findall(r"(?<![\w.])[A-Za-z_]\w*", text) if variables.get(name, text) is None}


def _text(at: TracebackType) -> str:
    """The expression that a frame stands at."""
    code = at.tb_frame.f_code
    line, last, start, end = list(code.co_positions())[at.tb_lasti // 2]
    if line is None or last is None or start is None or end is None:
        return ""
    lines = [linecache.getline(code.co_filename, i).encode() for i in range(line, last + 1)]
    lines[-1] = lines[-1][:end]
    lines[0] = lines[0][start:]
    return b"".join(lines).decode(errors="replace")
