"""gpu and nvgpu on the host: memory, copies, tensor maps, launches. Everything runs on one stream, in the
order of the program, so that async tokens need no work of their own."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any

from nvdsl.driver.array_spec import packed_strides
from nvdsl.driver.cuda import Cuda, EncodedMap
from nvdsl.driver.host.builder import RUN, Builder, Frame, Handler, Layout, Slot, Step, sequence, unsupported
from nvdsl.driver.launch import KernelBinary, Launch, Parameter
from nvdsl.errors import ArgumentError, LowerError, Where
from nvdsl.hopper import arch
from nvdsl.hopper.tensor_maps import TensorMap
from nvdsl.ir.location import where
from nvdsl.ir.operands import has, launch_sizes, named
from nvdsl.ir.tensor_copies import PROMOTED_BY_ROWS
from nvdsl.lang.scratch import ARBITRARY
from nvdsl.mlir import ir
from nvdsl.ops.tma import STORED
from nvdsl.values.elements import ELEMENTS, bit_pattern

TENSOR_MAP_TYPE = "!nvgpu.tensormap.descriptor<"
PROGRAMMATIC_LAUNCH = "nvdsl.programmatic_launch"
_CACHED_MAPS = 1024  # of one descriptor operation: its arrays' addresses
TENSOR_MAP_TENSOR_ALIGNMENT = 32  # bytes: what is aligned so suits any tensor map that is legal but for its address
_KINDS = 256  # of one whose array's extents or whose box are known in a call only


def _define_results(builder: Builder, op: Any) -> list[int]:
    return [builder.define(result) for result in op.results]


def _packed(builder: Builder, op: Any, slot: int) -> Layout:
    layout = builder.layout(slot, op)
    if layout.is_static:
        _check_packed(layout, op)
    return layout


def _check_packed(layout: Layout, op: Any) -> None:
    if layout.strides != packed_strides(layout.shape):
        raise unsupported(op, f"on a memref with gaps ({layout})")


def _nbytes(layout: Layout, op: Any) -> Callable[[Frame], int]:
    """Bytes of a packed memref, in one run."""
    if layout.is_static:
        size = layout.nbytes
        return lambda frame: size

    def nbytes(frame: Frame) -> int:
        now = layout.at(frame)
        _check_packed(now, op)
        return now.nbytes

    return nbytes


def _alloc(builder: Builder, op: Any) -> Step:
    if has(op, "hostShared"):
        raise unsupported(op, "with host_shared memory")
    result = _define_results(builder, op)[0]
    builder.plain = False
    kind = op.results[0].type
    if not kind.has_static_shape:
        if kind.rank != 1:
            raise unsupported(op, "of dynamic extents along several axes")
        builder.layouts[result] = Layout(str(kind.element_type), (Slot(builder.slot(named(op).dynamicSizes[0])),), (1,))
    size = _nbytes(builder.layout(result, op), op)

    def step(frame: Frame) -> None:
        frame[result] = frame[RUN].alloc(size(frame))

    def step_arbitrary(frame: Frame) -> None:
        run = frame[RUN]
        frame[result] = run.alloc(size(frame))
        run.cuda.leave_arbitrary(frame[result], size(frame))

    return step_arbitrary if has(op, ARBITRARY) else step


def _dealloc(builder: Builder, op: Any) -> Step:
    builder.plain = False
    memory = builder.slot(named(op).memref)
    _define_results(builder, op)

    def step(frame: Frame) -> None:
        frame[RUN].free(frame[memory])

    return step


def _memcpy(builder: Builder, op: Any) -> Step:
    builder.plain = False
    target, source = builder.slots([named(op).dst, named(op).src])
    _define_results(builder, op)
    to, of = _packed(builder, op, target), _packed(builder, op, source)
    if to.is_static and of.is_static and to.nbytes != of.nbytes:
        raise unsupported(op, "between memrefs of different size")
    size, other = _nbytes(to, op), _nbytes(of, op)
    builder.written |= builder.root(target)

    def step(frame: Frame) -> None:
        run = frame[RUN]
        if size(frame) != other(frame):
            raise unsupported(op, "between memrefs of different size")
        run.cuda.copy(frame[target], frame[source], size(frame), run.stream)

    return step


def _memset(builder: Builder, op: Any) -> Step:
    builder.plain = False
    target, value = builder.slots([named(op).dst, named(op).value])
    _define_results(builder, op)
    layout = _packed(builder, op, target)
    nbytes = _nbytes(layout, op)
    builder.on_device |= builder.root(target)
    builder.written |= builder.root(target)
    bits, size, line = bit_pattern(layout.dtype), layout.dtype.bytes, where(op)

    def step(frame: Frame) -> None:
        run, pattern, count = frame[RUN], bits(frame[value]), nbytes(frame) // size
        if size < 8:
            run.cuda.fill(frame[target], pattern, size, count, run.stream)
        elif pattern & 0xFFFFFFFF == pattern >> 32:
            run.cuda.fill(frame[target], pattern >> 32, 4, 2 * count, run.stream)
        else:
            raise ArgumentError(
                f"gpu.memset of 8-byte elements with {frame[value]}",
                where=line,
                rule="the driver fills with patterns of 1, 2 or 4 bytes: both halves must be equal",
                fix="fill with 0, or in a kernel",
            )

    return step


def _wait(builder: Builder, op: Any) -> Step | None:
    builder.plain = False
    if _define_results(builder, op):
        return None

    def step(frame: Frame) -> None:
        run = frame[RUN]
        run.cuda.synchronize(run.stream)

    return step


# --- tensor maps


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
        raise ArgumentError(
            f"no tensor map of {what} ({dims} {tensor_map.element}, box {box}) is possible:\n    "
            + "\n    ".join(problems),
            where=line,
            rule="CUDA driver API, cuTensorMapEncodeTiled",
            fix="pass a contiguous, 16-byte aligned array whose rows are a multiple of 16 bytes, or change "
            "the box or the swizzle",
        )


# --- launches


def _launch_func(builder: Builder, op: Any) -> Step:
    _define_results(builder, op)
    shape = builder.slots([size for sizes in launch_sizes(op) for size in sizes])
    values = list(named(op).kernelOperands)
    launch = Launch(
        len(builder.launches),
        _kernel(builder, op),
        [_parameter(builder, op, builder.slot(value), value) for value in values],
        shape,
        tuple(builder.template[slot] for slot in shape) if builder.known(shape) else None,
        programmatic=has(op, PROGRAMMATIC_LAUNCH),
        where=where(op),
    )
    builder.launches.append(launch)
    return launch


def _kernel(builder: Builder, op: Any) -> KernelBinary:
    """By "module::kernel", or by "kernel": outlining gives the kernels of two launches in one function the
    same name in two modules."""
    symbol = str(op.attributes["kernel"]).replace("@", "")
    for key in (symbol, symbol.rsplit("::", 1)[-1]):
        if key in builder.kernels:
            return builder.kernels[key]
    raise LowerError(
        f"no binary for kernel {symbol}; there are {', '.join(builder.kernels) or 'none'}", where=where(op)
    )


def _parameter(builder: Builder, op: Any, slot: int, value: Any) -> Parameter:
    name = str(value.type)
    if name.startswith(TENSOR_MAP_TYPE):
        return Parameter(slot, is_map=True)
    if slot in builder.layouts:
        builder.on_device |= builder.root(slot)
        if not builder.layouts[slot].is_static:
            raise unsupported(op, "with a memref whose extents only a run knows")
        return Parameter(slot, bits=_base(value.type, builder.layouts[slot]))
    if name not in ELEMENTS:
        raise unsupported(op, f"with an argument of type {name}")
    return Parameter(slot, bits=bit_pattern(ELEMENTS[name]))


def _base(memref_type: Any, layout: Layout) -> Callable[[int], int] | None:
    """A kernel gets a bare pointer, to which it adds the static offset of its parameter's type: so the
    pointer is that of the array's base, not of the view's first element."""
    offset = memref_type.get_strides_and_offset()[1]
    if offset in (0, ir.ShapedType.get_dynamic_stride_or_offset()):
        return None
    shift = offset * layout.dtype.bytes
    return lambda address: address - shift


HANDLERS: dict[str, Handler] = {
    "gpu.alloc": _alloc,
    "gpu.dealloc": _dealloc,
    "gpu.memcpy": _memcpy,
    "gpu.memset": _memset,
    "gpu.wait": _wait,
    "gpu.launch_func": _launch_func,
    "nvgpu.tma.create.descriptor": _create_descriptor,
}
