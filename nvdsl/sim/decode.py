"""A kernel's ops, decoded once into closures over the slots of a warp's frame.

`HANDLERS` gives for each op a function ``(decoder, op)`` that returns what a warp executes: a function of the
frame, a `Blocking` generator function for what may wait, or None for what needs nothing at run time. ``frame[0]`` is
the warp; every SSA value has a slot of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from nvdsl.errors import SimError, Where
from nvdsl.ir import collectives
from nvdsl.ir.indices import Found
from nvdsl.ir.location import where
from nvdsl.ir.operands import named
from nvdsl.ir.walk import identity
from nvdsl.mlir import ir
from nvdsl.sim import report

Frame = list[Any]
Step = Callable[[Frame], None]
Handler = Callable[["Decoder", Any], Any]

HANDLERS: dict[str, Handler] = {}


def op(*names: str) -> Callable[[Handler], Handler]:
    """Register a handler for ops of these names."""

    def register(handler: Handler) -> Handler:
        for name in names:
            known = HANDLERS.get(name, handler)
            assert known.__module__ == handler.__module__, name  # the same one: after an import that was interrupted
            HANDLERS[name] = handler
        return handler

    return register


class Blocking:
    """A step that may wait: a generator function of the frame, which yields `machine.Waiting`."""

    __slots__ = ("run",)

    def __init__(self, run: Callable[[Frame], Iterator[Any]]) -> None:
        self.run = run


class Body:
    """The steps of one block. ``blocking``: call `run`; otherwise the body itself is a step."""

    __slots__ = ("_items", "blocking")

    def __init__(self, steps: Iterable[Any]) -> None:
        items: list[Any] = []
        for step in steps:
            if isinstance(step, Blocking):
                items.append(step.run)
            elif items and isinstance(items[-1], list):
                items[-1].append(step)
            else:
                items.append([step])
        self._items: Any = [tuple(i) if isinstance(i, list) else i for i in items]
        self.blocking = any(not isinstance(i, tuple) for i in self._items)
        if not self.blocking:
            self._items = self._items[0] if self._items else ()

    def __call__(self, frame: Frame) -> None:
        for step in self._items:
            step(frame)

    def run(self, frame: Frame) -> Iterator[Any]:
        if not self.blocking:
            self(frame)
            return
        for item in self._items:
            if item.__class__ is tuple:
                for step in item:
                    step(frame)
            else:
                yield from item(frame)


class Decoder:
    """Slots and constants of one kernel. ``mbarrier_at``: address where its next mbarrier group lies. ``guarded``: what
    a step becomes that may use registers which a wgmma in flight reads (`dialects.fragments`)."""

    undefined: Any  # of `nvdsl.sim.undefined`

    def __init__(self, mbarrier_at: int, guarded: Callable[[Decoder, Any, Any], Any]) -> None:
        self._guarded = guarded
        self._slots: dict[int, int] = {}
        self.template: Frame = [None]
        self.mbarrier_at = mbarrier_at
        self.names: dict[int, str] = {}
        self.places: Found = {}  # of `nvdsl.ir.indices`
        self.fragments: dict[int, list[Any]] = {}  # of `dialects.fragments`: the wgmmas that read a register

    def slot(self, value: Any) -> int:
        """The slot of a value that was defined; an operand."""
        return self._slots[identity(value)]

    def find(self, value: Any) -> int | None:
        """The slot of a value, None where it has none."""
        return self._slots.get(identity(value))

    def operands(self, op: Any) -> list[int]:
        slots = self._slots
        return [slots[identity(value)] for value in op.operands]

    def named(self, op: Any, *names: str) -> list[Any]:
        """The slots of the operands that the dialect calls so: None for one that is not there, a list for a group."""
        view = named(op)
        return [self._slot_of(getattr(view, name)) for name in names]

    def _slot_of(self, operand: Any) -> Any:
        if operand is None:
            return None
        return self.slot(operand) if isinstance(operand, ir.Value) else [self.slot(value) for value in operand]

    def define(self, value: Any, constant: Any = None) -> int:
        """A slot for a result or a block argument."""
        slot = self._slots[identity(value)] = len(self.template)
        self.template.append(constant)
        return slot

    def result(self, op: Any) -> int:
        return self.define(op.results[0])

    def alias(self, value: Any, source: Any) -> None:
        """``value`` is the same as ``source``."""
        self._slots[identity(value)] = self._slots[identity(source)]

    def block(self, block: Any) -> tuple[Body, Any]:
        """The body of a block, and its terminator."""
        steps, terminator = [], None
        for one in block.operations:
            terminator = one.operation
            if terminator.name in TERMINATORS:
                break
            step = self.decode(terminator)
            if step is not None:
                steps.append(step)
        return Body(steps), terminator

    def decode(self, op: Any) -> Any:
        name = op.name
        handler = HANDLERS.get(name)
        if handler is None:
            raise unknown(op)
        try:
            step = handler(self, op)
        except ValueError as error:
            raise unknown(op, str(error)) from error
        if name in collectives.MAYBE_ALIGNED and (instruction := collectives.aligned(op)) is not None:
            step = aligned(instruction[0], where(op), step)
        if self.fragments and name not in _REGIONS:
            return self._guarded(self, op, step)
        return step


_REGIONS = ("scf.for", "scf.if", "scf.while", "llvm.inline_asm")
"""What uses no register itself (the ops within it do), or is a wgmma."""


def aligned(what: str, at: Where | None, step: Any) -> Any:
    """The step of an instruction that all lanes of a warp execute together."""
    of = what.partition(".")[0]
    kind = {"barrier": "divergent-barrier", "wgmma": "wgmma-converged"}.get(of, "divergent-collective")

    def check(w: Any) -> None:
        if w.bits != w.everyone:
            raise report.error(
                kind,
                f"{w.name} executes {what} with {len(w.active)} of its {w.count} lanes",
                at,
                f"all threads of a warp execute it together (PTX ISA, {what})",
                "move it out of the `if` that only some threads take, or branch on whole warps",
            )

    if isinstance(step, Blocking):
        run = step.run

        def guarded(v: Frame) -> Iterator[Any]:
            check(v[0])
            return run(v)

        return Blocking(guarded)

    def both(v: Frame) -> None:
        check(v[0])
        step(v)

    return both


TERMINATORS = frozenset(
    ("gpu.return", "gpu.terminator", "scf.yield", "scf.condition", "func.return", "scf.reduce", "cf.br", "cf.cond_br",
     "memref.atomic_yield")
)


def unknown(op: Any, why: str = "") -> SimError:
    text = str(op).strip().partition("\n")[0][:200]
    return SimError(
        f"the simulator has no semantics for `{op.name}`" + (f" ({why})" if why else "") + f": {text}",
        kind="unknown-op",
        where=where(op),
        rule="nvdsl/sim/dialects has one file a dialect, and in it one function an op",
        fix="add the op there, or run the kernel on a GPU",
    )


def is_shared(memref_type: Any) -> bool:
    space = str(memref_type.memory_space)
    return "workgroup" in space or space.startswith("3")
