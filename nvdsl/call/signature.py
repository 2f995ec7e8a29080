"""The signature of a call: what its arguments are, as far as a repeated call is told by it, and where they lie.

Arrays by dtype, shape, strides, device, and the lowest bits of the address; numbers by type; None by itself. Arguments
of the same classes are looked at by one function, which is written for these classes. What takes a longer look (host
arrays, JAX's, positional constants) has no signature: a call with such an argument is described by `specialize`.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Hashable, Sequence
from typing import Any

from nvdsl.call.specialize import number
from nvdsl.driver import arrays
from nvdsl.errors import ArgumentError
from nvdsl.trace.tokens import token

ALIGNMENT = 16
"""Bytes by which addresses are told apart: what TMA and the widest loads need."""

Signature = tuple[Hashable, tuple[Any, ...]]
"""What the arguments are, and the value of each: the address of an array, a number, 0 for None."""

Look = Callable[[Sequence[Any]], Signature | None]
"""Gives arguments' signature; None for arguments of other classes. It may raise RuntimeError for a tensor without plain
memory, ArgumentError for a number that no kernel takes."""

_MOST = 1024  # functions that look at arguments, before that starts again: a program may make classes without end
_looks: dict[tuple[type, ...], Look] = {}
_numbers = itertools.count()


def look_at(arguments: Sequence[Any]) -> Look:
    """The function that looks at arguments of these classes; `nothing` where one of them takes a longer look."""
    classes = tuple(map(type, arguments))
    look = _looks.get(classes)
    if look is None:
        if len(_looks) >= _MOST:
            _looks.clear()
        look = _looks[classes] = _written(arguments) or nothing
    return look


def nothing(arguments: Sequence[Any]) -> None:
    """The look that sees nothing."""


def signature(arguments: Sequence[Any]) -> Signature | None:
    """None where one of the arguments takes a longer look."""
    try:
        return look_at(arguments)(arguments)
    except (RuntimeError, ArgumentError):
        return None


def constants(named: dict[str, Any]) -> Hashable:
    """What tells compile-time arguments apart. None where one can't be hashed."""
    what = tuple([(name, token(x)) for name, x in named.items()])
    try:
        hash(what)
    except TypeError:
        return None
    return what


def _written(arguments: Sequence[Any]) -> Look | None:
    """The function for arguments of these classes. None where a class has no signature.

    Of two tensors, a number and None:

        def look(arguments):
            if len(arguments) != 4: return None
            x0, x1, x2, x3 = arguments
            if not (type(x0) is c0 and type(x1) is c1 and type(x2) is c2 and type(x3) is c3): return None
            p0 = x0.data_ptr()
            p1 = x1.data_ptr()
            low = (p0 | p1) & 15
            return (7, x0.dtype, ..., x1.dtype, ..., low and (p0 & 15, p1 & 15)), (p0, p1, x2, 0)
    """
    key, values, lines, addresses = [str(next(_numbers))], [], [], []
    for i, argument in enumerate(arguments):
        x, p, kind = f"x{i}", f"p{i}", type(argument)
        if kind is int:
            key.append(f"-0x80000000 <= {x} < 0x80000000 or kind({x})")
            values.append(x)
        elif kind is bool or kind is float:
            values.append(x)
        elif argument is None:
            values.append("0")
        elif (library := arrays.library_of(argument)) is not None and library.signature:
            lines.append(f"{p} = {library.address.format(x=x)}")
            key += [part.format(x=x) for part in library.signature]
            values.append(p)
            addresses.append(p)
        else:
            return None
    if addresses:
        lines.append(f"low = ({' | '.join(addresses)}) & {ALIGNMENT - 1}")
        key.append(f"low and ({', '.join(f'{p} & {ALIGNMENT - 1}' for p in addresses)},)")
    count = len(arguments)
    classes = " and ".join(f"type(x{i}) is c{i}" for i in range(count))
    first = [f"if len(arguments) != {count}: return None"]
    if count:
        first += [f"{''.join(f'x{i}, ' for i in range(count))}= arguments", f"if not ({classes}): return None"]
    last = f"return ({', '.join(key)},), ({''.join(f'{value}, ' for value in values)})"
    parameters = ", ".join(["arguments", *(f"c{i}=c{i}" for i in range(count))])
    text = f"def look({parameters}):\n" + "".join(f"    {line}\n" for line in [*first, *lines, last])
    scope: dict[str, Any] = {f"c{i}": type(x) for i, x in enumerate(arguments)}
    scope["kind"] = lambda x: number(x)[0].dtype
    exec(compile(text, "<nvdsl signature>", "exec"), scope)
    look: Look = scope["look"]
    return look
