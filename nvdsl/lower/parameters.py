"""The order of a kernel's parameters."""

from __future__ import annotations

from typing import Any

from nvdsl.ir.operands import named
from nvdsl.lower import kernels
from nvdsl.lower.prepare import parameter_count
from nvdsl.mlir import ir


def numbers_first(host: Any, _kernels: Any, _options: Any) -> None:
    """Numbers and pointers before tensor maps of 128 bytes, so that few lines of the constant cache hold all numbers: a
    launch finds none of its parameters there, and waits for each line."""
    launches = kernels.launches_of(host)
    for module, function in kernels.kernels_of(host):
        entry, count = function.regions[0].blocks[0], parameter_count(function)
        given = list(entry.arguments)
        order = sorted(range(count), key=lambda i: _is_map(given[i].type))
        if order == list(range(count)) or len(given) > count:
            continue
        for i in order:
            given[i].replace_all_uses_with(entry.add_argument(given[i].type, function.location))
        for _ in range(count):
            entry.erase_argument(0)
        types = [argument.type for argument in entry.arguments]
        function.attributes["function_type"] = ir.TypeAttr.get(ir.FunctionType.get(types, []))
        symbol = f"{kernels.symbol_name(module)}::{kernels.symbol_name(function)}"
        for launch in launches.get(symbol, []):
            operands = list(named(launch).kernelOperands)
            first = len(launch.operands) - len(operands)
            for place, i in enumerate(order):
                launch.operands[first + place] = operands[i]


def _is_map(type: Any) -> bool:
    return str(type).startswith("!nvgpu.tensormap")
