"""gpu on the host: memory, copies, launches. Everything runs on one stream, in the
order of the program, so that async tokens need no work of their own."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from nvdsl.driver.array_spec import packed_strides
from nvdsl.driver.cuda import CudaError
from nvdsl.driver.host.builder import RUN, Builder, Frame, Handler, Layout, Slot, Step, unsupported
from nvdsl.driver.host.tensor_maps import TENSOR_MAP_TYPE
from nvdsl.driver.launch import KernelBinary, Launch, Parameter, Recorded
from nvdsl.errors import ArgumentError, DeviceError, LowerError, Where
from nvdsl.ir.location import where
from nvdsl.ir.operands import has, launch_sizes, named
from nvdsl.lang.scratch import ARBITRARY, IN_TURN, RESTORED
from nvdsl.mlir import ir
from nvdsl.values.elements import ELEMENTS, bit_pattern

PROGRAMMATIC_LAUNCH = "nvdsl.programmatic_launch"


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

    line = where(op)

    def nbytes(frame: Frame) -> int:
        now = layout.at(frame)
        _check_packed(now, op)
        if now.nbytes < 0:
            raise ArgumentError(
                f"an array of {now.count:,} elements", where=line, rule="an extent is 0 or more",
                fix="check what it is computed from in the host function: nv.require(n >= 0, ...)",
            )  # fmt: skip
        return now.nbytes

    return nbytes


def _alloc(builder: Builder, op: Any) -> Step:
    if has(op, "hostShared"):
        raise unsupported(op, "with host_shared memory")
    result = _define_results(builder, op)[0]
    kind = op.results[0].type
    if not kind.has_static_shape:
        if kind.rank != 1:
            raise unsupported(op, "of dynamic extents along several axes")
        extent = builder.slot(named(op).dynamicSizes[0])
        builder.layouts[result] = Layout(str(kind.element_type), (Slot(extent),), (1,))
        builder.plain &= builder.settled([extent])
    size = _nbytes(builder.layout(result, op), op)
    builder.taken.append(size)

    def step(frame: Frame) -> None:
        frame[result] = frame[RUN].alloc(size(frame))

    def step_declared(frame: Frame) -> None:
        run = frame[RUN]
        frame[result] = run.alloc(size(frame))
        if arbitrary:
            run.cuda.leave_arbitrary(frame[result], size(frame))
        if in_turn:
            run.cuda.expect_turns(frame[result])

    arbitrary, in_turn = has(op, ARBITRARY), has(op, IN_TURN)
    return step_declared if arbitrary or in_turn else step


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
    target, value = builder.slots([named(op).dst, named(op).value])
    _define_results(builder, op)
    layout = _packed(builder, op, target)
    nbytes = _nbytes(layout, op)
    builder.on_device |= builder.root(target)
    builder.written |= builder.root(target)
    return Fill(target, value, layout.dtype, nbytes, where(op), restored=has(op, RESTORED))


class Fill:
    """One gpu.memset: elements of ``dtype`` in ``nbytes`` bytes at ``target``. ``target``, ``value``: slots.
    ``restored``: they are zeros, and the kernels of the call leave them so."""

    def __init__(
        self, target: int, value: int, dtype: Any, nbytes: Callable[[Frame], int], line: Where | None, restored: bool
    ) -> None:
        self.restored = restored
        self._target, self._value, self._nbytes, self._line = target, value, nbytes, line
        self._bits, self._size = bit_pattern(dtype), dtype.bytes

    def __call__(self, frame: Frame) -> None:
        self._fill(frame).again()
        if self.restored:
            frame[RUN].restored.append((frame[self._target], self._nbytes(frame), self._line))

    def recorded(self, frame: Frame) -> Recorded | None:
        """A fill to be repeated at the very same address on the same stream. None where the array is put where zeros
        are, and are left."""
        if self.restored and (zeros := frame[RUN].zeros(self._nbytes(frame))) is not None:
            frame[self._target] = zeros
            return None
        return self._fill(frame)

    def _fill(self, frame: Frame) -> Recorded:
        run, pattern, size = frame[RUN], self._bits(frame[self._value]), self._size
        count = self._nbytes(frame) // size
        if size == 8:
            if pattern & 0xFFFFFFFF != pattern >> 32:
                raise ArgumentError(
                    f"gpu.memset of 8-byte elements with {frame[self._value]}",
                    where=self._line,
                    rule="the driver fills with patterns of 1, 2 or 4 bytes: both halves must be equal",
                    fix="fill with 0, or in a kernel",
                )
            pattern, size, count = pattern >> 32, 4, 2 * count
        fill = functools.partial(run.cuda.fill, frame[self._target], pattern, size, count, run.stream)
        return Recorded(fill, self._failure)

    def _failure(self, error: CudaError) -> DeviceError:
        return DeviceError(f"an array could not be filled: {error.message}", where=self._line, fix=error.fix)


def _wait(builder: Builder, op: Any) -> Step | None:
    builder.plain = False
    if _define_results(builder, op):
        return None

    def step(frame: Frame) -> None:
        run = frame[RUN]
        run.cuda.synchronize(run.stream)

    return step


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
    return Parameter(slot, bits=bit_pattern(ELEMENTS[name]), settled=builder.settled([slot]))


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
}
