"""Debug mode: every wait of a kernel is bounded or announced, so that a hang becomes a report.

An mbarrier wait gets a deadline. Barriers of the block, of the cluster, and setmaxnreg can't be left once entered:
there the warp says in the log where it is before it may stop, and the host, which watches (`nvdsl.driver.watchdog`),
reads it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from nvdsl.ir.location import mbarrier_group, where
from nvdsl.ir.operands import has, integer, mbarriers, named, word
from nvdsl.ir.walk import identity, walk
from nvdsl.lower import debug_ptx, device_log
from nvdsl.lower.device_log import Site
from nvdsl.lower.kernels import Kernel
from nvdsl.lower.prepare import Kernels, functions, new
from nvdsl.mlir import ir
from nvdsl.ops.mbarrier import ACQUIRE_CLUSTER


def declare_log(device: Any, _kernels: Kernels, _: Any) -> None:
    """The variables in each ``gpu.module``: where the log is, and which mbarriers some warp has read already."""
    i64, i32 = _int(64), _int(32)
    claims = ir.Type.parse(f"!llvm.array<{device_log.CLAIMS} x i32>")
    for module in device.body.operations:
        with ir.InsertionPoint.at_block_begin(module.regions[0].blocks[0]), module.operation.location:
            _variable(device_log.SYMBOL, i64, ir.IntegerAttr.get(i64, 0))
            zeros = ir.DenseElementsAttr.get_splat(
                ir.RankedTensorType.get([device_log.CLAIMS], i32), ir.IntegerAttr.get(i32, 0)
            )
            _variable(device_log.CLAIMED, claims, zeros)


def _variable(name: str, type: Any, value: Any) -> None:
    attributes = {
        "sym_name": ir.StringAttr.get(name),
        "global_type": ir.TypeAttr.get(type),
        "linkage": ir.Attribute.parse("#llvm.linkage<external>"),
        "addr_space": ir.IntegerAttr.get(_int(32), 1),
        "alignment": ir.IntegerAttr.get(_int(64), 8),
        "value": value,
    }
    ir.Operation.create("llvm.mlir.global", [], [], attributes, regions=1)


def enter_and_return(device: Any, kernels: Kernels, _: Any) -> None:
    """Each warp says that it has begun, each lane that it has left."""
    for function, kernel in functions(device, kernels):
        site = add_site(kernel, Site("entry", where(function)))
        with ir.InsertionPoint.at_block_begin(function.regions[0].blocks[0]), function.location:
            debug_ptx.emit(debug_ptx.mark(device_log.BEFORE, site))
        for op in walk(function):
            if op.name == "gpu.return":
                with ir.InsertionPoint(op), op.location:
                    debug_ptx.emit(debug_ptx.returned())


def bound_waits(device: Any, kernels: Kernels, options: Any) -> None:
    """``try_wait`` loops with a deadline instead of those without one."""
    for function, kernel in functions(device, kernels):
        ops = walk(function)
        names = mbarrier_names(ops)
        for op in ops:
            if op.name == "nvgpu.mbarrier.try_wait.parity":
                _bound_group_wait(op, kernel, names, options.debug_timeout)
            elif op.name == "nvvm.mbarrier.try_wait.parity":
                _bound_pointer_wait(op, kernel, options.debug_timeout)


def mbarrier_names(ops: list[Any]) -> dict[Any, str]:
    """The names of the mbarrier groups, by their value: the variables that they were assigned to."""
    names: dict[Any, str] = {}
    for op in ops:
        if op.name == "nvgpu.mbarrier.create":
            names[identity(op.results[0])] = mbarrier_group(where(op), names.values())
    return names


def _bound_group_wait(op: Any, kernel: Kernel, names: dict[Any, str], timeout: float) -> None:
    view = named(op)
    group, parity, index = view.barriers, view.phaseParity, view.mbarId
    name = names.get(identity(group), "an mbarrier")
    count = mbarriers(group)
    site = add_site(kernel, Site("mbarrier", where(op), name, count=count))
    with ir.InsertionPoint(op), op.location:
        address = new("nvgpu.mbarrier.get", _int(64), group, index)
        operands = (to_i32(address), to_i32(parity), to_i32(index))
        order = ".acquire.cluster" if has(op, ACQUIRE_CLUSTER) else ""
        debug_ptx.emit(debug_ptx.wait(site, timeout, order), *operands)
    op.erase()


def _bound_pointer_wait(op: Any, kernel: Kernel, timeout: float) -> None:
    pointer, parity = named(op).addr, named(op).phase
    site = add_site(kernel, Site("mbarrier", where(op), "at byte"))
    with ir.InsertionPoint(op), op.location:
        if str(pointer.type) != "!llvm.ptr<3>":
            pointer = new("llvm.addrspacecast", ir.Type.parse("!llvm.ptr<3>"), pointer)
        address = new("llvm.ptrtoint", _int(32), pointer)
        debug_ptx.emit(debug_ptx.wait(site, timeout), address, to_i32(parity), address)
    op.erase()


def announce_waits(device: Any, kernels: Kernels, _: Any) -> None:
    """Say before and after each op that may stop for ever where the warp is."""
    for function, kernel in functions(device, kernels):
        for op in walk(function):
            described = _STOPS[op.name](op) if op.name in _STOPS else None
            if described is None:
                continue
            site = add_site(kernel, described[0])
            with ir.InsertionPoint(op), op.location:
                number = [to_i32(value) for value in described[1:]]
                debug_ptx.emit(debug_ptx.mark(device_log.BEFORE, site, "$0" if number else "0"), *number)
            with ir.InsertionPoint.after(op), op.location:
                debug_ptx.emit(debug_ptx.mark(device_log.PAST, site))


def _setmaxnreg(op: Any) -> tuple[Any, ...] | None:
    if word(op, "action") != "increase":
        return None
    return (Site("setmaxnreg", where(op), count=integer(op, "regCount")),)


def _named_barrier(op: Any) -> tuple[Any, ...]:
    number = named(op).barrierId
    if number is None:
        return (Site("barrier", where(op)),)
    return Site("named-barrier", where(op)), number


def _griddep(op: Any) -> tuple[Any, ...] | None:
    return (Site("grid", where(op)),) if word(op, "kind") == "wait" else None


_STOPS: dict[str, Callable[[Any], tuple[Any, ...] | None]] = {
    "gpu.barrier": lambda op: (Site("barrier", where(op)),),
    "nvvm.barrier": _named_barrier,
    "nvvm.cluster.wait": lambda op: (Site("cluster", where(op)),),
    "nvvm.bar.warp.sync": lambda op: (Site("warp", where(op)),),
    "nvvm.griddepcontrol": _griddep,
    "nvvm.setmaxregister": _setmaxnreg,
}
"""For each op that may stop for ever: its site, and a number that only the kernel knows."""


def add_site(kernel: Kernel, site: Site) -> int:
    """Its number."""
    kernel.sites.append(site)
    return len(kernel.sites) - 1


def _int(width: int) -> Any:
    return ir.IntegerType.get_signless(width)


def to_i32(value: Any) -> Any:
    """An index or integer value as an i32; a narrower one is taken as unsigned."""
    return _resized(value, 32)


def to_i64(value: Any) -> Any:
    """The bits of an index, integer or float value as an i64; above those of a narrower one are zeros."""
    if isinstance(value.type, ir.FloatType):
        value = new("arith.bitcast", _int(value.type.width), value)
    return _resized(value, 64)


def _resized(value: Any, width: int) -> Any:
    if isinstance(value.type, ir.IndexType):
        return new("arith.index_cast", _int(width), value)
    if value.type.width == width:
        return value
    return new("arith.extui" if value.type.width < width else "arith.trunci", _int(width), value)
