"""From a traced module to an executable on the simulator: outline the kernels, decode each, compile the host body."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from nvdsl.driver.executable import Executable
from nvdsl.driver.executable import build as build_executable
from nvdsl.lower import kernels, passes, prepare, steps
from nvdsl.lower import options as lowering_options
from nvdsl.lower.compiler import outline
from nvdsl.lower.dump import Dump
from nvdsl.mlir import ir, threads
from nvdsl.sim.code import Code
from nvdsl.sim.device import SimDevices, SimKernel
from nvdsl.sim.memory import SHARED_BASE
from nvdsl.sim.options import Options

_WARPGROUP = "nvgpu.warpgroup."
LAST_STEP = "convert-nvgpu-to-nvvm"


def build(
    module: Any, name: str, written: frozenset[int] | None, names: Sequence[str] | None, options: Options
) -> Executable:
    """See `nvdsl.sim.executable`. nvgpu's warpgroup ops are executed after their conversion at either level."""
    lowering = lowering_options.Options()
    dump = Dump(lowering, module)
    with threads.mlir, module.context, ir.Location.unknown():
        host = outline(module, lowering, dump)
        found = kernels.read(host)
        device = prepare.device_module(host)
        composed = any(n.startswith(_WARPGROUP) for k in found.values() for n in k.op_names)
        if options.level == "nvvm" or composed:
            steps.run_all(_lowered_to_nvvm(), device, found, lowering, dump)
        codes = {kernel.symbol: _code(function, kernel) for function, kernel in prepare.functions(device, found)}
        stand_ins = {symbol: _kernel(kernel) for symbol, kernel in found.items()}
        devices = SimDevices(codes, options, name)
        executable = build_executable(host, name, stand_ins, written=written, names=names, devices=devices)
    executable.keeps = (host, device)  # type: ignore[attr-defined]
    executable.simulates = devices  # type: ignore[attr-defined]
    return executable


def _lowered_to_nvvm() -> list[Any]:
    """The device steps up to convert-nvgpu-to-nvvm; asserts and stated indices stay, since they are checked here, and
    instructions under a predicate stay in the ``if`` that says so."""
    wanted = []
    for step in passes.DEVICE:
        if step.name not in ("drop-asserts", "predicate"):
            wanted.append(step)
        if step.name == LAST_STEP:
            break
    return wanted


def _code(function: Any, kernel: Any) -> Code:
    return Code(function, kernel.smem_bytes, SHARED_BASE + kernel.mbarrier_offset, kernel.mbarriers, kernel.tiles)


def _kernel(kernel: Any) -> SimKernel:
    x, y, z = kernel.block or (1024, 1, 1)
    return SimKernel(kernel.name, kernel.symbol, kernel.smem_bytes, x * y * z)
