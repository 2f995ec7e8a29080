"""What a step works on: a module that is on its way from linalg to a kernel."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from nvdsl.ir.walk import find, walk
from nvdsl.mlir import ir, passmanager
from nvdsl.mlir.dialects import transform
from nvdsl.mlir.dialects.transform import interpreter, structured

CONTRACTIONS = ("linalg.matmul", "linalg.batch_matmul")

_MARK = "nvdsl.mark"


class Refusal(Exception):
    """A step does not fit; `Step` makes a ScheduleError of it."""

    def __init__(self, message: str, rule: str, fix: str = "") -> None:
        super().__init__(message)
        self.message, self.rule, self.fix = message, rule, fix


class Work:
    """A module while a schedule is applied to it.

    ``module``: the ``ir.Module``, whose one function is the payload's; a step changes it in place. `find`, `one` and
    `walk` look for operations. `transform` builds a script of the transform dialect and runs it. `run` runs passes.
    `refuse` is for what a step can't do.
    """

    def __init__(self, module: Any) -> None:
        self.module = module
        self._marks = 0

    def find(self, *names: str) -> list[Any]:
        """The operations called one of ``names``, inner ones before those that hold them, else in program order."""
        return find(self.module, *names)

    def one(self, *names: str, made_by: str) -> Any:
        """The only operation called one of ``names``. Refuses where there is none, or several."""
        found = self.find(*names)
        if len(found) == 1:
            return found[0]
        said = " or ".join(names)
        self.refuse(f"there is {'no' if not found else 'more than one'} {said}", f"it works on one {said}", made_by)

    def refuse(self, message: str, rule: str, fix: str = "") -> Any:
        """Raise what becomes a ScheduleError that names the step: what is wrong, the rule, what to write instead."""
        raise Refusal(message, rule, fix)

    def mark(self, op: Any) -> str:
        """Put a unit attribute on an operation, by which a script finds it, and give its name. It is gone after the
        step."""
        self._marks += 1
        name = f"{_MARK}{self._marks}"
        op.attributes[name] = ir.UnitAttr.get()
        return name

    def unmark(self) -> None:
        """Remove what `mark` left."""
        for op in walk(self.module):
            for name in [one for one in op.attributes if one.startswith(_MARK)]:
                del op.attributes[name]

    def run(self, *passes: str) -> None:
        """Run MLIR passes, given as ``PassManager.parse`` takes them, on the module."""
        passmanager.PassManager.parse(f"builtin.module({','.join(passes)})").run(self.module.operation)

    def clean(self) -> None:
        """Canonicalize, and drop what is computed twice."""
        self.run("canonicalize", "cse")

    @contextmanager
    def transform(self) -> Iterator[Script]:
        """A script of the transform dialect: what is built in the context runs on the module at its end."""
        any_op = transform.AnyOpType.get()
        script = ir.Module.create()
        script.operation.attributes["transform.with_named_sequence"] = ir.UnitAttr.get()
        with ir.InsertionPoint(script.body):
            main = transform.NamedSequenceOp(
                "__transform_main", [any_op], [], arg_attrs=[{"transform.consumed": ir.UnitAttr.get()}]
            )
        with ir.InsertionPoint(main.body):
            yield Script(main.bodyTarget)
            transform.YieldOp()
        try:
            interpreter.apply_named_sequence(self.module.operation, main.operation, script.operation)
        except ValueError as error:
            said = [line.partition("): ")[2] for line in str(error).splitlines() if "loc(" in line]
            self.refuse("; ".join(filter(None, said)) or str(error), "MLIR's transform dialect refuses what it does")


class Script:
    """A script that is being built. ``root``: the handle of the module."""

    any_op = property(lambda self: transform.AnyOpType.get())

    def __init__(self, root: Any) -> None:
        self.root = root

    def match(self, *names: str, marked: str | None = None) -> Any:
        """The handle of the operations called one of ``names``. ``marked``: of those that have this unit attribute."""
        attributes = None if marked is None else {marked: ir.UnitAttr.get()}
        return structured.MatchOp(self.any_op, self.root, ops=list(names), op_attrs=attributes).results_

    def patterns(self, *build: Callable[[], Any]) -> None:
        """Apply patterns to the function: ``build`` makes the ops that name them."""
        apply = transform.ApplyPatternsOp(self.match("func.func"))
        with ir.InsertionPoint(apply.patterns):
            for one in build:
                one()


def mapping(names: Sequence[str]) -> Any:
    """Attributes of the gpu dialect that say what a loop's iterations become, "block<y>" for instance."""
    return ir.ArrayAttr.get([ir.Attribute.parse(f"#gpu.{name}") for name in names])
