"""Kernels and host functions that are written as MLIR: `load` makes them callable like traced ones."""

from __future__ import annotations

import itertools
import json
import linecache
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from nvdsl.call import module as modules
from nvdsl.call.specialize import argument_type
from nvdsl.errors import ArgumentError, TraceError, Where, frames
from nvdsl.ir.location import where
from nvdsl.ir.walk import find
from nvdsl.mlir import ir, threads
from nvdsl.mlir.dialects import func
from nvdsl.thin import launches
from nvdsl.thin.host_function import HostFunction
from nvdsl.thin.legal import legalize
from nvdsl.trace.launch import describe_launch

Size = int | Sequence[int]

_numbers = itertools.count(1)


def load(source: str | os.PathLike[str] | ir.Module, *, name: str | None = None) -> Loaded:
    """The host functions and kernels of a module that is written as MLIR.

    ``source``: the text of a module, the path of a file with one, or an ``ir.Module`` of these bindings. It is copied.
    It may hold ``func.func``s whose bodies have ``gpu.launch`` or ``gpu.launch_func`` (with clusters, too), and
    ``gpu.module``s with kernels. A ``memref.global`` in shared memory becomes part of the launch's dynamic shared
    memory, behind what the launch asks for, aligned for a 128-byte swizzle. ``name``: what errors call the text.

        loaded = load(text)
        loaded["main"](a, b)                                   # a host function, with what it launches
        loaded["scale"](x, y, grid=4, block=128)               # a gpu.func that is a kernel, launched from here

    Raises TraceError at the line that MLIR refuses, or that has what can't be launched: a module without any host
    function or kernel, a memref.global in global memory, calls of device functions.
    """
    text, name = _text(source, name)
    with threads.mlir, modules.context():
        module = _parse(text, name)
        for op in find(module, "gpu.launch_func"):
            launches.kernel_of(op, module)  # or an error
        if legalize(module, name) or not isinstance(source, ir.Module):  # each op has its line with the text's name
            text = module.operation.get_asm(enable_debug_info=True).replace('loc("-":', f"loc({json.dumps(name)}:")
        hosts = [_symbol(op) for op in module.body.operations if _is_host(op)]
        kernels = [launches.full_name(op) for op in launches.kernels(module)]
    if not hosts and not kernels:
        raise TraceError(
            f"{name} has neither a host function nor a kernel",
            where=frames.caller(),
            rule="load takes func.func with a body that launches, and gpu.func with the attribute kernel",
            fix="write `gpu.func @name(...) kernel { ... gpu.return }` in a gpu.module",
        )
    return Loaded(text, hosts, kernels)


class Loaded:
    """What `load` found, by name: ``loaded["main"]``, or ``loaded.main``.

    ``functions``: names of host functions. ``kernels``: names of kernels, ``module::kernel``, which may be asked for
    by ``kernel`` alone where only one is called that.
    """

    def __init__(self, text: str, functions: Sequence[str], kernels: Sequence[str]) -> None:
        self.functions, self.kernels = tuple(functions), tuple(kernels)
        self._made: dict[str, LoadedFunction | LoadedKernel] = {
            **{name: LoadedKernel(text, name) for name in kernels},
            **{name: LoadedFunction(text, name) for name in functions},
        }

    def __getitem__(self, name: str) -> LoadedFunction | LoadedKernel:
        found = [name] if name in self._made else [k for k in self.kernels if k.rpartition("::")[2] == name]
        if len(found) == 1:
            return self._made[found[0]]
        raise ArgumentError(
            f"{len(found) or 'nothing'} called {name!r}",
            where=frames.caller(),
            rule=f"this module has {', '.join(self._made)}",
            fix="ask for one of these",
        )

    def __getattr__(self, name: str) -> LoadedFunction | LoadedKernel:
        if name.startswith("__"):
            raise AttributeError(name)
        return self[name]

    def __repr__(self) -> str:
        return f"Loaded({', '.join(self._made)})"


class _LoadedText(HostFunction):
    """Something that a text holds. What was made of it is kept by the arguments' shapes and types."""

    def __init__(self, text: str, name: str) -> None:
        super().__init__(name.rpartition("::")[2])
        self._text, self._symbol = text, name
        self._made: dict[Any, Any] = {}

    def _kept(self, key: Any, make: Any) -> Any:
        if key not in self._made:
            with threads.mlir, modules.context(), ir.Location.unknown():
                module = ir.Module.parse(self._text)
                make(module)
                for op in list(module.body.operations):
                    if _symbol(op) != self.__name__ or op.operation.name != "func.func":
                        op.operation.erase()
                modules.verify_module(module)
            self._made[key] = module
        return self._made[key]


class LoadedFunction(_LoadedText):
    """A host function of a text: ``function(*arguments, stream=None, target=None)``.

    Arguments are as its parameters say: NumPy or device arrays for memrefs of static shape, numbers for scalars.
    """

    def _module(self, specs: list[Any], **kwargs: Any) -> Any:
        if kwargs:
            raise _unexpected(kwargs, f"{self.__name__} takes no keyword arguments but stream and target")
        return self._kept((), self._prepare)

    def _prepare(self, module: Any) -> None:
        for function in list(module.body.operations):
            if _is_host(function) and _symbol(function) != self._symbol:
                function.operation.erase()
        launches.inline(module)


class LoadedKernel(_LoadedText):
    """A kernel of a text: ``kernel(*arguments, grid=, block=, cluster=1, smem=0, stream=None, target=None)``.

    Arguments: for each parameter of the ``gpu.func``, an array for a memref or an ``!llvm.ptr``, a number for a scalar.
    A memref of dynamic shape takes the shape of the array. ``grid``: blocks. ``block``: threads, and ``cluster``:
    blocks of a cluster; where they are left out, the kernel's known_block_size and known_cluster_size count.
    ``smem``: bytes of dynamic shared memory that the kernel lays out itself.

    Raises ArgumentError for arguments that don't fit, TraceError for a launch that the hardware doesn't have.
    """

    def _module(
        self,
        specs: list[Any],
        *,
        grid: Size | None = None,
        block: Size | None = None,
        cluster: Size | None = None,
        smem: int = 0,
        **kwargs: Any,
    ) -> Any:
        if kwargs:
            raise _unexpected(kwargs, "a kernel takes grid, block, cluster, smem, stream and target by keyword")
        key = (*map(_key, specs), str((grid, block, cluster, smem)))
        return self._kept(key, lambda module: self._launched(module, specs, grid, block, cluster, smem))

    def _launched(self, module: Any, specs: Sequence[Any], grid: Any, block: Any, cluster: Any, smem: int) -> None:
        """Put a host function into ``module`` that launches the kernel."""
        (kernel,) = [op for op in launches.kernels(module) if launches.full_name(op) == self._symbol]
        block = launches.known(kernel, "block") if block is None else block
        cluster = (launches.known(kernel, "cluster") or 1) if cluster is None else cluster
        if grid is None or block is None:
            raise ArgumentError(
                f"kernel {self.__name__} without a {'grid' if grid is None else 'block'}",
                where=frames.caller(),
                rule="a kernel is launched for a number of blocks and a number of threads",
                fix=f"write {self.__name__}(..., grid=blocks, block=threads)",
            )
        info = describe_launch(self.__name__, grid, block, cluster)
        if not isinstance(smem, int) or smem < 0:
            raise ArgumentError(
                f"kernel {self.__name__} with smem={smem!r}",
                where=frames.caller(),
                rule="it is how many bytes of shared memory the kernel lays out itself, 0 or more",
            )
        parameters = launches.parameters(kernel)
        if len(parameters) != len(specs):
            raise ArgumentError(
                f"kernel {self.__name__} takes {len(parameters)} arguments, {len(specs)} were given",
                where=frames.caller(),
                rule="one for each parameter of the gpu.func",
                fix=f"its parameters are ({', '.join(map(str, parameters))})",
            )
        types = [
            self._type(type, spec, number, kernel)
            for number, (type, spec) in enumerate(zip(parameters, specs, strict=True))
        ]
        for op in list(module.body.operations):
            if _is_host(op):
                op.operation.erase()
        with ir.InsertionPoint.at_block_begin(module.body), kernel.location:
            host = func.FuncOp(self.__name__, (types, []))
            with ir.InsertionPoint(host.add_entry_block()):
                if 0 not in info.grid:
                    launches.launch(kernel, info, list(host.arguments), smem)
                func.ReturnOp([])
        launches.inline(module)

    def _type(self, parameter: Any, spec: Any, number: int, kernel: Any) -> Any:
        """The type of the host function's argument for a parameter: an array's own where that is open."""
        text, is_array = str(parameter), hasattr(spec, "shape")
        if text.startswith("!nvgpu.tensormap"):
            raise ArgumentError(
                f"parameter {number} of kernel {self.__name__} is a tensor map",
                where=where(kernel),
                rule="a tensor map is made by nvgpu.tma.create.descriptor in a host function",
                fix="write a func.func that makes it and launches the kernel, and call that",
            )
        if is_array != (text.startswith(("memref", "!llvm.ptr"))):
            raise ArgumentError(
                f"argument {number} of kernel {self.__name__} is {'an array' if is_array else 'a number'}",
                where=frames.caller(),
                rule=f"its parameter is a {text}",
                fix="pass an array for a memref or a pointer, and a number for a scalar",
            )
        if not is_array:
            return parameter
        given = argument_type(spec)
        if text.startswith("!llvm.ptr"):
            return given
        if isinstance(parameter, ir.MemRefType) and not _open(parameter):
            return parameter  # the call compares it with the array
        if str(given.element_type) != str(parameter.element_type):
            raise ArgumentError(
                f"argument {number} of kernel {self.__name__} has elements {given.element_type}",
                where=frames.caller(),
                rule=f"its parameter is a {text}",
                fix=f"pass an array of {parameter.element_type}",
            )
        if isinstance(parameter, ir.MemRefType) and not _fits(given, parameter):
            raise ArgumentError(
                f"argument {number} of kernel {self.__name__} is a {given}",
                where=frames.caller(),
                rule=f"its parameter is a {text}: the array has the extents and strides that are numbers there",
                fix="pass an array of that shape and these strides",
            )
        return given


def _numbers_of(type: Any) -> list[int]:
    """Extents, strides and offset of a memref type."""
    strides, offset = type.get_strides_and_offset()
    return [*type.shape, *strides, offset]


def _open(type: Any) -> bool:
    """Whether an extent, a stride or the offset is `?`."""
    return not type.has_static_shape or _ANY in _numbers_of(type)


def _fits(given: Any, parameter: Any) -> bool:
    """Whether an array's own type is one that ``parameter`` stands for."""
    if given.rank != parameter.rank:
        return False
    return all(n in (ir.ShapedType.get_dynamic_size(), _ANY, m)
               for m, n in zip(_numbers_of(given), _numbers_of(parameter), strict=True))  # fmt: skip


_ANY = ir.ShapedType.get_dynamic_stride_or_offset()


def _key(spec: Any) -> Any:
    return (spec.shape, spec.strides, spec.dtype.name) if hasattr(spec, "shape") else spec.dtype.name


def _unexpected(kwargs: dict[str, Any], rule: str) -> ArgumentError:
    return ArgumentError(f"unexpected {', '.join(kwargs)}", where=frames.caller(), rule=rule, fix="leave it out")


def _text(source: Any, name: str | None) -> tuple[str, str]:
    """The text of a module, and what to call it. Python's `linecache` learns text that is in no file, so that reports
    can show its lines."""
    if isinstance(source, ir.Module):
        return source.operation.get_asm(enable_debug_info=True), name or "the module"
    if isinstance(source, os.PathLike):
        return Path(source).read_text(), name or os.fspath(source)
    if not isinstance(source, str):
        raise ArgumentError(
            f"load of {source!r}",
            where=frames.caller(),
            rule="what is loaded is the text of a module, a pathlib.Path of a file with one, or an ir.Module",
            fix="text of bytes: source.decode()",
        )
    if "\n" not in source and source.rstrip().endswith(".mlir"):
        raise TraceError(
            f"load of the text {source!r}",
            where=frames.caller(),
            rule="a str is the text of a module, and a path is a pathlib.Path",
            fix=f"thin.load(pathlib.Path({source!r}))",
        )
    name = name or f"<mlir {next(_numbers)}>"
    linecache.cache[name] = (len(source), None, source.splitlines(keepends=True), name)
    return source, name


def _parse(text: str, name: str) -> Any:
    try:
        return ir.Module.parse(text)
    except ir.MLIRError as error:
        first = error.error_diagnostics[0]
        place = where(ir.Location.from_attr(first.location.attr))  # a diagnostic's own has no subclass
        line = place.line if place is not None else 0
        shown = text.splitlines()[line - 1].strip() if 0 < line <= len(text.splitlines()) else ""
        raise TraceError(
            f"{first.message}\n    {shown}" if shown else first.message,
            where=Where(name, line) if place is None or place.file == "-" else place,
            rule="MLIR's parser and verifier refuse the module",
            fix="write it as `mlir-opt` of this LLVM takes it; NVDSL_MLIR=mlir chooses the bindings of another",
        ) from None


def _symbol(op: Any) -> str:
    return ir.StringAttr(op.attributes["sym_name"]).value if "sym_name" in op.attributes else ""


def _is_host(op: Any) -> bool:
    return op.operation.name == "func.func" and bool(len(op.regions[0].blocks))
