"""Exceptions of Python's and NumPy's that a traced value causes, said as our own: the line, the rule, what to write.

Python asks an object for an operator, a hash or an index, and says in its own words that there is none. In a function
that is traced, most of these objects are nvdsl's, and something else was meant. What the user's code raises itself
stays as it is.
"""

from __future__ import annotations

import dis
import linecache
import os
import re
import sys
from inspect import signature
from types import FrameType, FunctionType, ModuleType, TracebackType
from typing import Any

from nvdsl.errors import TraceError, frames
from nvdsl.mlir import ir
from nvdsl.trace import elsewhere
from nvdsl.trace.carry import Undefined

_VALUE = (
    "a traced value is a number that exists when the kernel runs; Python and NumPy can't compute with it",
    "operators, nv.min, nv.max, nv.select and nv.math take traced numbers, nv.f32(x) and others convert them",
)
_ACCUMULATOR = (
    "an accumulator is spread over the registers of a warpgroup: each thread holds some of its elements",
    "operators, nv.math and nv.where compute with each element, `for row, column, x in acc.elements():` reads them, "
    "acc.store(...) writes them; nv.fragment(x, (row, col), acc.shape) loads a part of an array to compute with",
)
_TILE = (
    "a tile lies in shared memory: its elements are loaded and stored one by one, and wgmma multiplies whole tiles",
    "tile[i, j] loads, tile[i, j] = x stores, `acc += a @ b` multiplies two tiles",
)
_KINDS = {
    "Value": _VALUE,
    "Unsigned": _VALUE,
    "Array": (
        "an array lies in memory: its elements are loaded and stored one by one",
        "x[i] loads, x[i] = v stores; compute with the elements",
    ),
    "Accumulator": _ACCUMULATOR,
    "Fragment": _ACCUMULATOR,
    "FragmentVector": _ACCUMULATOR,
    "Excerpt": (
        "some threads have some of these elements of a fragment: they can be printed, and nothing else",
        "print(acc[0:8, 0:8]); a part to compute with has whole groups of 8 columns and of 64 rows: acc[:, 0:64]",
    ),
    "Tile": _TILE,
    "TileStack": _TILE,
    "Mbarriers": ("a group of mbarriers has one for each stage", "index it: bars[stage].wait(phase)"),
    "Product": (
        "the product of two tiles goes into an accumulator (PTX ISA, wgmma.mma_async)",
        "acc = nv.accumulator(m, n); acc += a @ b",
    ),
}
_TOOLS = {
    "TMA": (
        "a tensor map copies tiles, and has no elements",
        "tma.load(tile, barrier, (row, col)) and tma.store(tile, (row, col)) copy one; elements are the array's",
    ),
    "Mbarrier": (
        "threads arrive at an mbarrier and wait for it",
        "bar.arrive(), bar.arrive_expect_tx(bytes), bar.wait(parity); a group of them is indexed once: bars[stage]",
    ),
    "Ring": (
        "a ring's slots are named by a PipelineState",
        "full = ring.acquire(state), ring.wait(state), ring.release(state); tiles[state.stage] is the slot's tile",
    ),
    "PipelineState": (
        "a PipelineState is a slot of a ring, and the phase that it is in",
        "state.stage is the slot's number, state.phase its parity, state.next() the one after it",
    ),
    "WarpAccumulator": _ACCUMULATOR,
    "WarpFragment": (
        "an operand of mma.sync lies in the registers of a warp",
        "`acc += a @ b` multiplies, `for row, column, x in a.elements():` reads a thread's elements",
    ),
    "Dim3": ("an id has a number for each axis", "nv.thread_id.x, nv.block_id.y"),
    "Group": (
        "a group of threads computes together: a method is called",
        "nv.warp.sum(x), nv.block.max(x); nv.lane_id(), nv.thread_id.x and nv.warp_id() say which thread this is",
    ),
    "DType": ("a type converts numbers", "nv.f32(x)"),
}
"""What has no value: an error of type is explained so, a name that it does not have by those that it has."""
_INDEX = (
    "a traced value is no index for NumPy",
    "make it an argument of the host function and load the element, or choose with nv.select(i == 0, a[0], a[1])",
)
_ELEMENT = (
    "a NumPy array and NumPy's numbers hold plain numbers",
    "keep traced values in a list; nv.f32(x) converts, and nv.smem holds an array of them",
)
_BRACKETS = (
    "a function is called; a kernel's grid and block are given where it is made",
    "@nv.kernel(grid=blocks, block=threads), and kernel() launches it",
)
_ARGUMENT = (
    "an array argument is a NumPy, torch, CuPy or JAX array; anything else is a number or a compile-time constant",
    "pass the array",
)
_NUMPY = {
    "only integers, slices": _INDEX,
    "setting an array element with a sequence": _ELEMENT,
    "The truth value of an array": _VALUE,
}


def explain(error: Exception) -> TraceError | None:
    """``error``, which left the trace of a function, as a ``TraceError``; None if no traced value caused it."""
    frame, last = _place(error.__traceback__)
    if frame is None or last is None or is_raised(last):
        return None
    where = frames.Where(frame.tb_frame.f_code.co_filename, frame.tb_lineno)
    text = str(error)
    if isinstance(error, AttributeError) and (found := _missing(error, where)) is not None:
        return found
    if isinstance(error, TypeError) and last is frame and (found := _unbound(text, frame.tb_frame, where)) is not None:
        return found
    if isinstance(error, ValueError) and last is frame and "values to unpack" in text:
        return _unpacked(text, frame.tb_frame, where)
    users = frame.tb_frame.f_globals  # whose own class may have such a name
    kinds = _KINDS | _TOOLS if isinstance(error, TypeError) else _KINDS
    if "'function'" in text and (name := _uncalled(frame.tb_frame, where)):
        named: tuple[str, str] | None = (f"`{name}` is a function, and no number", f"call it: {name}()")
    else:
        named = next((kinds[word] for word in re.findall(r"\w+", text) if word in kinds and word not in users), None)
    if named is None and _holds_values(frame.tb_frame):
        named = next((said for start, said in _NUMPY.items() if text.startswith(start)), None)
    if named is None and text == "'function' object is not subscriptable":
        named = _BRACKETS
    if named is None and re.match(r"'(NoneType|str)' object (is not subscriptable|does not support item)", text):
        named = _ARGUMENT
    if named is None and isinstance(error, AttributeError) and _holds_values(frame.tb_frame) and text.startswith("__"):
        named = _KINDS["Array"]  # MLIR's objects say no more
    taken = re.match(r"([\w.<>]+)\(\) (missing|takes|got)", text)
    if named is None and taken and isinstance(error, TypeError) and _called(frame):
        named = f"the arguments do not fit the parameters of `{taken[1]}`", "pass what its `def` takes"
    if named is None and (name := _called(frame)):
        named = f"`{name}` of nvdsl was given something that it does not take", _HELP
    if named is None:
        return None
    rule, fix = named
    return TraceError(f"{type(error).__name__}: {text.strip()}", where=where, rule=rule, fix=fix)


def _missing(error: AttributeError, where: frames.Where) -> TraceError | None:
    """Of a name that one of nvdsl's modules or objects does not have."""
    owner, name = error.obj, str(error.name)
    kind = type(owner)
    if isinstance(owner, ModuleType):
        path = _PUBLIC.get(owner.__name__, owner.__name__.replace("nvdsl", "nv", 1))
        if owner.__name__.partition(".")[0] != "nvdsl":
            return None
    elif kind.__module__.startswith("nvdsl.") and not kind.__module__.startswith("nvdsl.kernels."):
        path = kind.__name__
    else:
        return None
    there = [one for one in dir(owner) if not one.startswith("_") and one not in _OF_MLIR]
    if isinstance(owner, ModuleType):
        fix = elsewhere.instead_of_public(name, owner, path)
        return TraceError(f"`{path}.{name}` does not exist", where=where, rule=f"{path} has no such name", fix=fix)
    close = elsewhere.instead(name, there, 0.75 if kind.__name__ in _KINDS else 0.6)
    if kind.__name__ in _KINDS and not close:
        return None
    rule, all_ = _KINDS.get(kind.__name__, (f"a {path} has {', '.join(there)}", "one of these"))
    return TraceError(f"{type(error).__name__}: {error}", where=where, rule=rule, fix=close or all_)


def _unbound(text: str, frame: FrameType, where: frames.Where) -> TraceError | None:
    """Of a call whose arguments are not what a function of nvdsl takes, so that it was not entered."""
    said = re.match(r"([\w.]+)\(\) (missing|takes|got)", text)
    if said is None:
        return None
    modules = [m for name, m in sys.modules.items() if name.partition(".")[0] == "nvdsl"]
    for module in sorted(modules, key=lambda m: m.__name__ != "nvdsl"):  # a name that is public is that one
        found: Any = module
        for name in said[1].split("."):
            found = getattr(found, name, None)
        if isinstance(found, FunctionType) and found.__module__.startswith("nvdsl.") and said[1] not in frame.f_globals:
            parameters = [one.replace(annotation=one.empty) for one in signature(found).parameters.values()]
            shown = ", ".join(str(one) for one in parameters if one.name != "self")
            name = said[1] if "." in said[1] else f"nv.{said[1]}"
            rule = f"it takes {found.__name__}({shown})"
            return TraceError(f"TypeError: {text}", where=where, rule=rule, fix=f"help({name}) says more")
    return None


def _unpacked(text: str, frame: FrameType, where: frames.Where) -> TraceError | None:
    """Of a shape that has other axes than the names it is given to."""
    line = linecache.getline(where.file, where.line)
    arrays = {name: x for name, x in frame.f_locals.items() if hasattr(x, "shape") and f"{name}.s" in line}
    if not arrays:
        return None
    shapes = ", ".join(f"{name} has the shape {tuple(x.shape)}" for name, x in arrays.items())
    rule = "a shape has one extent for each axis, and so have strides"
    return TraceError(f"{text}: {shapes}", where=where, rule=rule, fix="pass arrays with as many axes")


def _uncalled(frame: FrameType, where: frames.Where) -> str:
    """A function of nvdsl that the line names and does not call; "" where there is none."""
    for name in re.findall(r"\b[A-Za-z_][\w.]*\b(?!\s*\()", linecache.getline(where.file, where.line)):
        first, *rest = name.split(".")
        found = frame.f_locals.get(first, frame.f_globals.get(first))
        for one in rest:
            found = getattr(found, one, None)
        if isinstance(found, FunctionType) and found.__module__.startswith("nvdsl."):
            return name
    return ""


def _called(frame: TracebackType) -> str:
    """The function of nvdsl that the user's ``frame`` called, and that did not come back; "" where it called none."""
    below = frame.tb_next
    while below is not None:
        code = below.tb_frame.f_code
        if code.co_filename.startswith(_PACKAGE) and not code.co_filename.startswith(_DISPATCH):
            wrapped = below.tb_frame.f_locals.get("fn") if "<locals>" in code.co_qualname else None
            return getattr(wrapped, "__name__", code.co_qualname.rpartition("<locals>.")[2])
        below = below.tb_next
    return ""


_PUBLIC = {"nvdsl": "nv", "nvdsl.values.math": "nv.math", "nvdsl.lang.specs": "nv.spec"}
"""What users call a module, where it is not its place."""
_OF_MLIR = frozenset(dir(ir.Value))
_HELP = "help(nv) says what it takes; NVDSL_TRACEBACK=full shows where it stopped"
_PACKAGE = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "")
_DISPATCH = tuple(os.path.join(_PACKAGE, room, "") for room in ("trace", "call", "errors"))
"""The rooms whose frames lie between the user's code and what it calls."""


def _place(traceback: TracebackType | None) -> tuple[TracebackType | None, TracebackType | None]:
    """The innermost frame of user code, and the innermost of all."""
    users = last = None
    while traceback is not None:
        last = traceback
        if frames.is_user(traceback.tb_frame.f_code.co_filename) and not frames.is_installed(
            traceback.tb_frame.f_code.co_filename
        ):
            users = traceback
        traceback = traceback.tb_next
    return users, last


def is_raised(last: TracebackType) -> bool:
    """Did a `raise` of the user's make the exception?"""
    code = last.tb_frame.f_code
    raised = code.co_code[last.tb_lasti] == dis.opmap["RAISE_VARARGS"]
    return raised and frames.is_user(code.co_filename) and not frames.is_installed(code.co_filename)


def _holds_values(frame: FrameType) -> bool:
    """Does a variable of the function hold a traced value?"""
    return any(_is_value(x) for x in frame.f_locals.values())


def _is_value(x: Any) -> bool:
    return type(x) is not Undefined and isinstance(x, ir.Value)
