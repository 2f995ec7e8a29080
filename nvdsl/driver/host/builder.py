"""From a host function's operations to steps over a frame.

A frame is a list: slot 0 holds the call's ``Run``, every other slot one SSA value. Integers and floats
are Python numbers (see ``elements``), a memref is the address of its first element (an int, its static
offset included), a tensor map is a ``cuda.EncodedMap``. A step is a function of the frame.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from typing import Any

from nvdsl.driver.array_spec import canonical_strides
from nvdsl.driver.launch import KernelBinary, Launch
from nvdsl.errors import LowerError
from nvdsl.errors.records import dataclass
from nvdsl.ir.location import where
from nvdsl.ir.walk import identity
from nvdsl.mlir import ir
from nvdsl.values.dtypes import DType
from nvdsl.values.elements import ELEMENTS

Frame = list[Any]
Step = Callable[[Frame], None]
Handler = Callable[["Builder", Any], "Step | None"]

RUN = 0


class Slot(int):
    """An extent or a stride that only a run knows: the slot of its value."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "?"

    __str__ = __repr__


@dataclass(frozen=True)
class Layout:
    """Element type, shape and strides of a memref, in elements; ``offset`` is None where it is dynamic. Extents and
    strides that are not constants are `Slot`s: see `at`."""

    element: str
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int | None = 0

    @property
    def dtype(self) -> DType:
        return ELEMENTS[self.element]

    @property
    def count(self) -> int:
        return math.prod(self.shape)

    @property
    def nbytes(self) -> int:
        """Bytes of the elements, without gaps."""
        return self.count * self.dtype.bytes

    @functools.cached_property
    def is_static(self) -> bool:
        """Whether all extents and strides are constants."""
        return not any(isinstance(n, Slot) for n in (*self.shape, *self.strides))

    def at(self, frame: Frame) -> Layout:
        """The layout in one run."""
        if self.is_static:
            return self
        shape, strides = ([frame[n] if isinstance(n, Slot) else n for n in part] for part in (self.shape, self.strides))
        return Layout(self.element, tuple(shape), canonical_strides(tuple(shape), tuple(strides)), self.offset)

    @property
    def end(self) -> int:
        """Bytes from the first element to behind the last one."""
        last = sum((extent - 1) * stride for extent, stride in zip(self.shape, self.strides, strict=True))
        return (last + 1) * self.dtype.bytes

    def __str__(self) -> str:
        return f"{'x'.join(map(str, self.shape)) or 'scalar'} {self.element}, strides {self.strides}"


def layout_of(memref_type: Any) -> Layout | None:
    """The layout of a ranked memref type; None where its shape or strides are not all static."""
    if not isinstance(memref_type, ir.MemRefType):
        return None
    dynamic = ir.ShapedType.get_dynamic_stride_or_offset()
    strides, offset = memref_type.get_strides_and_offset()
    element = str(memref_type.element_type)
    if not memref_type.has_static_shape or dynamic in strides or element not in ELEMENTS:
        return None
    shape = tuple(memref_type.shape)
    return Layout(element, shape, canonical_strides(shape, tuple(strides)), None if offset == dynamic else offset)


@dataclass
class Builder:
    """Slots, layouts and steps of one host function."""

    handlers: dict[str, Handler]
    foldable: frozenset[str]  # operations without effects, computed now where their operands are known
    template: Frame = field(default_factory=lambda: [None])
    constant: set[int] = field(default_factory=set)  # slots whose value the template holds
    layouts: dict[int, Layout] = field(default_factory=dict)
    arguments: frozenset[int] = frozenset()  # slots of the function's memref arguments
    roots: dict[int, frozenset[int]] = field(default_factory=dict)  # memref -> arguments it may view
    wholes: dict[int, int] = field(default_factory=dict)  # memref -> the array of which it is a view
    on_device: set[int] = field(default_factory=set)  # argument slots that must be device memory
    written: set[int] = field(default_factory=set)  # argument slots that a copy of the host program writes
    kernels: Mapping[str, KernelBinary] = field(default_factory=dict)
    launches: list[Launch] = field(default_factory=list)
    plain: bool = True  # a call does nothing but launches and fills, the same ones each time, and prepares them
    taken: list[Callable[[Frame], int]] = field(default_factory=list)  # bytes of each array of the function's own
    names: Sequence[str] = ()  # of the function's arguments, for messages
    extents: set[int] = field(default_factory=set)  # slots of extents and strides, and of what they alone determine
    early: list[Step] = field(default_factory=list)  # what computes them: the same for all calls of the same shapes
    _depth: int = 0
    _slots: dict[int, int] = field(default_factory=dict)

    # --- slots

    def new_slot(self, value: Any = None) -> int:
        self.template.append(value)
        return len(self.template) - 1

    def define(self, value: Any) -> int:
        """A new slot for an SSA value."""
        slot = self.new_slot()
        self.alias(value, slot)
        layout = layout_of(value.type)
        if layout is not None:
            self.layouts[slot] = layout
        return slot

    def alias(self, value: Any, slot: int) -> None:
        """Let an SSA value live in an existing slot."""
        self._slots[identity(value)] = slot

    def slot(self, value: Any) -> int:
        return self._slots[identity(value)]

    def slots(self, values: Sequence[Any]) -> list[int]:
        return [self.slot(v) for v in values]

    def set_constant(self, value: Any, known: Any) -> int:
        slot = self.define(value)
        self.template[slot] = known
        self.constant.add(slot)
        return slot

    def known(self, slots: Sequence[int]) -> bool:
        return self.constant.issuperset(slots)

    def settled(self, slots: Sequence[int]) -> bool:
        """Whether the shapes of a call's arrays determine them, here outside of loops and branches."""
        return self._depth == 1 and all(slot in self.constant or slot in self.extents for slot in slots)

    def root(self, slot: int) -> frozenset[int]:
        return self.roots.get(slot, frozenset())

    def layout(self, slot: int, op: Any) -> Layout:
        layout = self.layouts.get(slot)
        if layout is None:
            raise unsupported(op, "with a memref whose shape, strides or element type is not known here")
        return layout

    # --- steps

    def block(self, block: Any) -> tuple[list[Step], Any]:
        """The steps of a block, and its terminator."""
        steps: list[Step] = []
        *body, terminator = block.operations
        self._depth += 1
        for op in body:
            step = self.op(op.operation)
            if step is not None:
                steps.append(step)
        self._depth -= 1
        return steps, terminator.operation

    def op(self, op: Any) -> Step | None:
        handler = self.handlers.get(op.name)
        if handler is None:
            raise _element(op) if op.name in _ELEMENTS else unsupported(op)
        step = handler(self, op)
        if step is not None and op.name in self.foldable and self.known(self.slots(op.operands)):
            return self._fold(op, step)
        if step is not None and op.name in self.foldable and self.settled(self.slots(op.operands)):
            self.extents.update(self.slots(op.results))
            self.early.append(step)
            return None
        return step

    def _fold(self, op: Any, step: Step) -> Step | None:
        try:
            step(self.template)
        except (ArithmeticError, ValueError):  # a division by zero that perhaps never runs
            return step
        self.constant.update(self.slots(op.results))
        return None


_ELEMENTS = {
    "memref.load": "read", "vector.load": "read", "memref.store": "written", "vector.store": "written",
}  # fmt: skip


def _element(op: Any) -> LowerError:
    return LowerError(
        f"an element of an array is {_ELEMENTS[op.name]} in a host function ({op.name})",
        where=where(op),
        rule="a host function runs once, while it is traced, and launches kernels: what a call computes of elements, "
        "its kernels compute",
        fix="move it into a kernel; a number that decides about a launch is an argument: f(x, n=int(x[0]))",
    )


def unsupported(op: Any, detail: str = "") -> LowerError:
    """The error for an operation that the host program can't execute."""
    return LowerError(
        f"{op.name} {detail or 'in a host function'} can't be executed",
        where=where(op),
        rule="a host function holds arith on scalars, scf.for and scf.if, memref.cast, subview, "
        "reinterpret_cast and dim, nvgpu.tma.create.descriptor, and gpu.alloc, dealloc, memcpy, memset, "
        "wait and launch_func; gpu.alloc, memcpy and memset of memrefs whose extents are known to the host",
        fix="move the computation into the kernel, or do it in Python before the call",
    )


def sequence(steps: Sequence[Step]) -> Step:
    """One step that runs several."""
    if len(steps) == 1:
        return steps[0]

    def run(frame: Frame) -> None:
        for step in steps:
            step(frame)

    return run
