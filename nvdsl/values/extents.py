"""Dynamic extents in a module: which arguments of a host function they are, and which values depend on them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from nvdsl.mlir import ir
from nvdsl.values.tracing import is_tracing

NAME = "nvdsl.extent"
"""Attribute of a host function's argument: the name of the extent that it is; of a memref's, how its axes are named."""

MULTIPLE = "nvdsl.multiple"
"""Attribute of a host function's argument: what it is a multiple of in every call."""


def attributes(name: str, multiple: int) -> ir.DictAttr:
    """The attributes of an argument."""
    found: dict[str, ir.Attribute] = {NAME: ir.StringAttr.get(name)}
    if multiple > 1:
        found[MULTIPLE] = ir.IntegerAttr.get(ir.IntegerType.get_signless(64), multiple)
    return ir.DictAttr.get(found)


def of_argument(value: Any) -> dict[str, Any]:
    """The attributes of ``value``; {} for what is no argument of a host function."""
    block = value.owner
    if not isinstance(block, ir.Block) or block.owner.operation.name != "func.func":
        return {}
    function = block.owner.operation
    if "arg_attrs" not in function.attributes:
        return {}
    entry = ir.DictAttr(ir.ArrayAttr(function.attributes["arg_attrs"])[ir.BlockArgument(value).arg_number])
    return {name: entry[name] for name in (NAME, MULTIPLE) if name in entry}


def name_of(value: Any) -> str | None:
    """The name of the extent that ``value`` is."""
    found = of_argument(value).get(NAME)
    return None if found is None else ir.StringAttr(found).value


def multiple_of(value: Any) -> int:
    """What the argument ``value`` is a multiple of in every call."""
    found = of_argument(value).get(MULTIPLE)
    return 1 if found is None else ir.IntegerAttr(found).value


def arguments_behind(value: Any) -> list[Any]:
    """The named extents that ``value`` is computed from, in the order of the host function's arguments."""
    found = {ir.BlockArgument(one).arg_number: one for one in _behind(value)}
    return [found[number] for number in sorted(found)]


def _behind(value: Any) -> Iterator[Any]:
    seen, waiting = set(), [value]
    while waiting:
        one = waiting.pop()
        if ir.Value.__hash__(one) in seen:
            continue
        seen.add(ir.Value.__hash__(one))
        owner = one.owner
        if not isinstance(owner, ir.Block):
            waiting += [x for x in owner.operation.operands if not isinstance(x.type, ir.MemRefType)]
        elif name_of(one) is not None:
            yield one


def is_computed_from_any(value: Any) -> bool:
    """Whether `arguments_behind` finds one. Where the host function that is traced names none, it does not look: each
    operator asks, and a long chain of them would be followed from each of its links."""
    owner: Any = ir.InsertionPoint.current.block.owner
    while owner is not None and owner.operation.name != "func.func":
        owner = owner.operation.parent
    attributes = owner.operation.attributes if owner is not None else {}
    if "arg_attrs" not in attributes or not any(NAME in entry for entry in ir.ArrayAttr(attributes["arg_attrs"])):
        return False
    return any(True for _ in _behind(value))


def names_behind(*things: Any) -> list[str]:
    """The names of the extents that ``things``, numbers or shapes of them, are computed from; none once nothing is
    traced: an error erases the loop that it leaves, and MLIR would read freed memory of what was computed there."""
    names: dict[str, None] = {}
    for thing in things if is_tracing() else ():
        for one in thing if isinstance(thing, tuple | list) else (thing,):
            if isinstance(one, ir.Value):
                names |= dict.fromkeys(str(name_of(x)) for x in arguments_behind(one))
    return list(names)


def constant_fix(fix: str, *things: Any) -> str:
    """``fix``, and how to make constants of the named extents that ``things`` are computed from."""
    names = [f"`{name}`" for name in names_behind(*things)]
    if not names:
        return fix
    what = f"the extent {names[0]} is" if len(names) == 1 else f"the extents {' and '.join(names)} are"
    return (
        f"{fix}; {what} dynamic: to make {'it' if len(names) == 1 else 'them'} a constant of the compiled kernel, "
        "annotate the axis `...` or with a number"
    )


def shown(value: Any) -> str:
    """A traced number as messages write it: an extent by its name."""
    if not is_tracing():
        return "a traced value"
    names = names_behind(value)
    of = f" of {' and '.join(names)}" if names else ""
    return name_of(value) or f"a traced {value.type}{of}"
