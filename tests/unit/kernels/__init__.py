"""For tests of device code: a kernel traced around a function of the test, and what its ops say."""

from __future__ import annotations

import inspect
from collections import deque
from collections.abc import Callable
from typing import Any

import pytest

import nvdsl as nv
from nvdsl.ir.walk import find
from nvdsl.mlir import ir

Body = Callable[..., Any]
_alive: deque[Any] = deque(maxlen=16)  # MLIR's Python objects for ops and values do not keep their module


def array(dtype: nv.DType, *shape: int, strides: tuple[int, ...] | None = None) -> nv.ShapeDtype:
    """An argument; ``strides`` in elements, C-contiguous by default."""
    return nv.ShapeDtype(shape, dtype, strides)


def host(body: Body, *, grid: Any = 1, block: Any = 128, cluster: Any = 1) -> nv.Jit:
    """A host function that launches ``body`` with its own arguments."""

    def launcher(*arguments):
        nv.kernel(grid, block, cluster=cluster)(body)(*arguments)

    return nv.jit(launcher)


def trace(body: Body, *arguments: Any, **launch: Any) -> Any:
    """The module of a kernel with the body ``body``, which gets the traced ``arguments``."""
    module = host(body, **launch).trace(*arguments)
    _alive.append(module)
    return module


def kernel_ops(module: Any) -> list[str]:
    """Names of the ops at the top of the kernel's body, the terminator left out."""
    (launch,) = find(module, "gpu.launch")
    return [op.operation.name for op in launch.regions[0].blocks[0].operations][:-1]


def position(module: Any, op: Any) -> int:
    """The index of ``op`` (with a result) among the ops at the top of the kernel's body."""
    (launch,) = find(module, "gpu.launch")
    results = [op.results[0] if len(op.results) else None for op in launch.regions[0].blocks[0].operations]
    return [None if x is None else hash(x) for x in results].index(hash(op.results[0]))


def inline_ptx(module: Any, name: str) -> list[Any]:
    """The inline PTX ops that have ``name`` in the registry."""
    return [op for op in find(module, "llvm.inline_asm") if op.attributes["nvdsl.ptx"].value == name]


def smem_bytes(module: Any) -> int:
    """Bytes of dynamic shared memory that the launch asks for."""
    (launch,) = find(module, "gpu.launch")
    size = launch.operands[len(launch.operands) - 1].owner
    return int(size.attributes["value"].value)


def refused(function: Callable[[], Any], *sources: Callable[..., Any]) -> nv.NvdslError:
    """The error of nvdsl that ``function()`` raises: with a rule, and a line of one of ``sources`` (of
    ``function`` itself where none is given)."""
    with pytest.raises(nv.NvdslError) as caught:
        function()
    assert ir.Context.current is None, "tracing left something open"
    error = caught.value
    assert error.rule, error
    assert error.where is not None, error
    places = [_lines(source) for source in sources or (function,)]
    assert any(error.where.file == file and error.where.line in lines for file, lines in places), error
    return error


def _lines(function: Callable[..., Any]) -> tuple[str, range]:
    function = inspect.unwrap(function)
    lines, first = inspect.getsourcelines(function)
    return inspect.getsourcefile(function) or "", range(first, first + len(lines))


def refused_body(body: Body, *arguments: Any, **launch: Any) -> nv.NvdslError:
    """The error that tracing ``body`` as a kernel raises, at one of its lines."""
    return refused(lambda: trace(body, *arguments, **launch), body)
