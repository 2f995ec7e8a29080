"""nvgpu's tensor maps on the host: encoded when they are needed, and kept by what they describe and by address."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

from nvdsl.driver.cuda import Cuda, EncodedMap
from nvdsl.driver.host.builder import RUN, Builder, Frame, Handler, Layout, Slot, Step, sequence
from nvdsl.errors import ArgumentError, Where
from nvdsl.hopper import arch
from nvdsl.hopper.tensor_maps import TensorMap, listed
from nvdsl.ir.location import where
from nvdsl.ir.operands import has, named
from nvdsl.ir.tensor_copies import PROMOTED_BY_ROWS
from nvdsl.ops.tma import STORED

TENSOR_MAP_TYPE = "!nvgpu.tensormap.descriptor<"
_CACHED_MAPS = 1024  # of one descriptor operation: its arrays' addresses
TENSOR_MAP_TENSOR_ALIGNMENT = 32  # bytes: what is aligned so suits any tensor map that is legal but for its address
_KINDS = 256  # of one whose array's extents or whose box are known in a call only


def _create_descriptor(builder: Builder, op: Any) -> Step:
    source, box = builder.slot(named(op).tensor), builder.slots(named(op).boxDimensions)
    layout = builder.layout(source, op)
    result = builder.define(op.results[0])
    builder.on_device |= builder.root(source)
    modes = _modes(str(op.results[0].type))
    what, line = _array_name(builder, source), where(op)
    by_rows = has(op, PROMOTED_BY_ROWS)

    def of(layout: Layout, sizes: tuple[int, ...]) -> Maps | EmptyMap:
        if not fixed.is_static and min(layout.shape) <= 0:
            return EmptyMap(what, layout.shape, line)
        now = modes
        if by_rows and layout.strides[-2] * layout.dtype.bytes % 256 == 0:
            now = {**modes, "l2promo": "l2promo_256b"}
        tensor_map = TensorMap(layout.element, layout.shape, layout.strides, sizes, **now)
        _require_legal(tensor_map, None, what, line)
        return Maps(tensor_map, what, line)

    fixed = layout
    if builder.known(box) and layout.is_static:
        maps = of(layout, tuple(builder.template[slot] for slot in box))

        def step(frame: Frame) -> None:
            address = frame[source]
            frame[result] = maps.known.get(address) or maps.at(address, frame[RUN].cuda)

    else:
        every = functools.lru_cache(maxsize=_KINDS)(of)
        whole = builder.wholes.get(source, source)
        check_end = has(op, STORED) and not layout.is_static
        found, beyond = builder.new_slot(), builder.new_slot()

        def find(frame: Frame) -> None:
            now = layout.at(frame)
            frame[found] = every(now, tuple([frame[slot] for slot in box]))
            frame[beyond] = builder.layouts[whole].at(frame).end - now.end if check_end else 0

        def step(frame: Frame) -> None:
            maps, address = frame[found], frame[source]
            if check_end:
                maps.check_end(frame[whole] - address + frame[beyond])
            frame[result] = maps.known.get(address) or maps.at(address, frame[RUN].cuda)

        numbers = [n for one in (layout, builder.layouts[whole]) for n in (*one.shape, *one.strides)]
        if builder.settled([*box, *(n for n in numbers if isinstance(n, Slot))]):
            builder.early.append(find)
        else:
            return sequence([find, step])

    return step


class EmptyMap:
    """In place of the tensor map of an array without elements, which the driver encodes none of. A launch of no blocks
    does not ask for it."""

    known: Mapping[int, EncodedMap] = {}

    def __init__(self, what: str, shape: tuple[int, ...], line: Where | None) -> None:
        self._what, self._shape, self._line = what, shape, line

    def at(self, address: int, cuda: Cuda) -> Any:
        return self

    def check_end(self, room: int) -> None:
        pass

    @property
    def address(self) -> int:
        raise ArgumentError(
            f"a kernel is launched with a tensor map of {self._what}, which has no elements (shape {self._shape})",
            where=self._line,
            rule="a tensor map's extents are 1 or more (CUDA driver API, cuTensorMapEncodeTiled)",
            fix="launch no blocks where an extent is 0, or leave the call out",
        )


class Maps:
    """The encoded tensor maps of one descriptor operation, by address. They say nothing of what lies there: that memory
    may be freed, and be another array's when the address comes again."""

    def __init__(self, tensor_map: TensorMap, what: str, line: Where | None) -> None:
        self.known: dict[int, EncodedMap] = {}
        self._map, self._what, self._line = tensor_map, what, line
        self._first: EncodedMap | None = None
        self._past_end = tensor_map.past_end

    def check_end(self, room: int) -> None:
        """Raises ArgumentError where stores can write more than ``room`` bytes behind the tensor's end."""
        if self._past_end > room:
            dims = "x".join(map(str, self._map.shape))
            raise ArgumentError(
                f"a store through this tensor map of {self._what} ({dims} {self._map.element}) can write "
                f"{self._past_end} bytes past the array's end",
                where=self._line,
                rule=f"stores and reductions by TMA clip a row at whole {arch.TMA_STORE_UNIT} bytes (measured on an "
                "H200: docs/hardware.md)",
                fix="promise a multiple in the annotation, or pass a part of an array with wider rows",
            )

    def at(self, address: int, cuda: Cuda) -> EncodedMap:
        """Raises ArgumentError for an address at which there can be none."""
        if address % TENSOR_MAP_TENSOR_ALIGNMENT:
            _require_legal(self._map, address, self._what, self._line)
        if self._first is None:
            encoded = self._first = cuda.encode(self._map, address)
        else:
            encoded = cuda.moved(self._first, self._map, address)
        if len(self.known) >= _CACHED_MAPS:
            self.known.clear()
        self.known[address] = encoded
        return encoded


def _modes(descriptor_type: str) -> dict[str, str]:
    """swizzle, l2promo, oob and interleave out of ``!nvgpu.tensormap.descriptor<tensor = ..., ...>``: the
    bindings have no getters for them. Their values hold no comma, the tensor's type may."""
    fields = descriptor_type.removesuffix(">").split(", ")
    pairs = dict(field.split(" = ", 1) for field in fields if " = " in field)
    return {name: pairs[name] for name in ("swizzle", "l2promo", "oob", "interleave")}


def _array_name(builder: Builder, slot: int) -> str:
    roots = sorted(builder.root(slot))
    names = [builder.names[root - 1] for root in roots if root - 1 < len(builder.names)]
    return " or ".join(names) or "an array of the host function"


def _require_legal(tensor_map: TensorMap, address: int | None, what: str, line: Where | None) -> None:
    problems = tensor_map.check(address)
    if problems:
        dims = "x".join(map(str, tensor_map.shape))
        box = "x".join(map(str, tensor_map.box))
        wrong, fix = listed(problems, "\n    ")
        raise ArgumentError(
            f"no tensor map of {what} ({dims} {tensor_map.element}, box {box}) is possible:\n    {wrong}",
            where=line,
            rule="CUDA driver API, cuTensorMapEncodeTiled",
            fix=fix,
        )


HANDLERS: dict[str, Handler] = {"nvgpu.tma.create.descriptor": _create_descriptor}
