"""``nv.jit``: from a call with arrays to a traced module, a cubin, a plan, and the launch.

    arguments -> specialization (shapes, dtypes, constants) -> trace -> verify -> lower -> plan -> run

Each specialization is compiled once in a process and found again by a dictionary look-up.
"""

from __future__ import annotations

import collections
import functools
import inspect
import math
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import nvdsl.array  # noqa: F401  (registers the value class of memrefs)
from nvdsl import dtypes, sim
from nvdsl.driver import arrays
from nvdsl.driver.spec import packed_strides
from nvdsl.errors import ArgumentError, NvdslError, TraceError
from nvdsl.mlir import ir
from nvdsl.mlir.dialects import func
from nvdsl.trace import effects, location
from nvdsl.trace.rewrite import convert
from nvdsl.values import wrap


@dataclass(frozen=True)
class ShapeDtype:
    """Stands for an array where only its shape and dtype matter: ``f.compile(nv.ShapeDtype((512, 64), nv.f16))``."""

    shape: tuple[int, ...]
    dtype: dtypes.DType
    strides: tuple[int, ...] | None = None


@dataclass(frozen=True)
class ScalarSpec:
    """A run-time scalar argument of a host function."""

    dtype: dtypes.DType


@dataclass(frozen=True, eq=False)
class Constant:
    """An argument whose value is part of the specialization."""

    value: Any

    def __eq__(self, other: Any) -> bool:
        return other.__class__ is Constant and _alike(self.value, other.value)

    def __hash__(self) -> int:
        return hash(self.value)


def _alike(a: Any, b: Any) -> bool:
    """Equal, and the same to a trace: 1, 1.0 and True are three constants, as are 0.0 and -0.0."""
    if a is b:
        return True
    if a.__class__ is not b.__class__ or a != b:
        return False
    if isinstance(a, tuple):
        return all(map(_alike, a, b))
    return a.__class__ is not float or math.copysign(1.0, a) == math.copysign(1.0, b)


@dataclass
class Compiled:
    """One specialization: the traced module, its kernels, and the seconds each stage took.

    ``module``: the traced ``ir.Module``. ``kernels``: name -> `lower.KernelBinary` (``ptx``, ``cubin``, ``resources``,
    ``sass()``). ``seconds``: stage -> time.
    """

    name: str
    module: Any
    lowered: Any
    written: frozenset[int]
    arguments: list[str] = field(default_factory=list)
    seconds: dict[str, float] = field(default_factory=dict)
    _plan: Any = None

    @property
    def kernels(self) -> dict[str, Any]:
        return self.lowered.kernels

    @property
    def mlir(self) -> str:
        """The traced module as text."""
        return str(self.module)

    @property
    def ptx(self) -> str:
        return "\n".join(k.ptx for k in self.kernels.values())

    def report(self) -> str:
        """A table of what each kernel uses, and where the compile time went."""
        lines = []
        for kernel in self.kernels.values():
            r = kernel.resources
            lines.append(
                f"{kernel.name}: {r.registers} registers a thread, {kernel.smem_bytes:,} bytes of shared memory, "
                f"{kernel.max_threads} threads, {r.stack} bytes of stack, "
                f"{r.spill_stores + r.spill_loads} bytes spilled, {len(kernel.cubin):,} bytes of cubin"
            )
        total = sum(self.seconds.values())
        parts = ", ".join(f"{stage} {1e3 * seconds:.0f} ms" for stage, seconds in self.seconds.items())
        lines.append(f"compiled in {1e3 * total:.0f} ms ({parts})")
        return "\n".join(lines)

    def plan(self) -> Any:
        """The executable host body (made at the first launch)."""
        if self._plan is None:
            from nvdsl.driver import plan

            self._plan = plan.build(
                self.lowered.host, self.name, self.kernels, written=self.written, names=self.arguments or None
            )
        return self._plan


def at_call(function: Callable[..., Any]) -> Callable[..., Any]:
    """Errors that know no line of the user's get the line of the call."""

    @functools.wraps(function)
    def located(*args: Any, **kwargs: Any) -> Any:
        try:
            return function(*args, **kwargs)
        except NvdslError as error:
            error.where = error.where or location.caller()
            raise

    return located


class Jit:
    """A host function: calling it runs it on the arguments' device, compiling it first where needed.

    Positional arguments are run-time values: arrays (by shape, strides and dtype), and scalars (bool; int as
    i32, or i64 where it doesn't fit; float as f32; NumPy scalars as their dtype). Keyword-only parameters, and
    arguments that are neither, are compile-time constants: a new value compiles anew.
    """

    __name__: str

    def __init__(self, function: Callable[..., Any], options: Any = None) -> None:
        functools.update_wrapper(self, function)
        self._function = function
        self._options = options
        self._signature = inspect.signature(function)
        self._keyword_only = {
            name for name, p in self._signature.parameters.items() if p.kind is p.KEYWORD_ONLY
        }
        self._plans: dict[Any, Any] = {}
        self._compiled: dict[Any, Compiled] = {}
        self._lock = threading.RLock()

    @at_call
    def __call__(self, *args: Any, stream: Any = None, target: str | None = None, **kwargs: Any) -> None:
        """Run. ``stream``: a CUDA stream (int, torch, CuPy, cuda.core ...); default: the arrays' current one.

        ``target``: "gpu", or "sim" for the simulator; default NVDSL_TARGET, or else the GPU where there is one.
        """
        call = self._describe(args, kwargs)
        options = sim.Options.from_environment() if sim.wanted(target) else None
        key = call.key if options is None else (call.key, options)
        try:
            plan = self._plans.get(key)
        except TypeError:
            raise call.unhashable(self.__name__) from None
        if plan is None:
            plan = self._compile(call).plan() if options is None else self._simulated(call, options)
            self._plans[key] = plan
        if None in call.values:
            raise ArgumentError(
                f"{self.__name__} was called with a ShapeDtype",
                rule="a ShapeDtype has no elements: it stands for an array where nothing runs",
                fix=f"pass the array, or only compile: {self.__name__}.compile(...)",
            )
        plan(call.values, call.run_time_specs, stream)

    @at_call
    def compile(self, *args: Any, **kwargs: Any) -> Compiled:
        """Trace, verify and lower for these arguments (arrays or `ShapeDtype`), without a GPU."""
        return self._compile(self._describe(args, kwargs))

    @at_call
    def trace(self, *args: Any, **kwargs: Any) -> Any:
        """Only trace and verify; returns the ``ir.Module``."""
        return self._trace(self._describe(args, kwargs))

    def _simulated(self, call: Call, options: sim.Options) -> Any:
        module = self._trace(call)
        written = effects.written_arguments(module.body.operations[0])
        names = self._argument_names(call)
        return sim.plan(module, self.__name__, written=written, names=names or None, options=options)

    def _describe(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Call:
        described = [_describe_argument(argument) for argument in args]
        for name, argument in kwargs.items():
            constant = name in self._keyword_only
            described.append(
                (Constant(argument), None) if constant else _describe_argument(argument)
            )
        return Call(described, tuple(kwargs))

    def _compile(self, call: Call) -> Compiled:
        from nvdsl import lower

        key = call.key
        with self._lock:
            try:
                if key in self._compiled:
                    return self._compiled[key]
            except TypeError:
                raise call.unhashable(self.__name__) from None
            start = time.perf_counter()
            module = self._trace(call)
            seconds = {"trace": time.perf_counter() - start}
            lowered = lower.lower(module, self._options or lower.Options.from_environment())
            written = effects.written_arguments(module.body.operations[0])
            names = self._argument_names(call)
            compiled = Compiled(self.__name__, module, lowered, written, names, seconds | lowered.stages)
            self._compiled[key] = compiled
            return compiled

    def _trace(self, call: Call) -> Any:
        body = convert(self._function)

        def trace_body(traced: list[Any]) -> None:
            values = [s.value if isinstance(s, Constant) else None for s in call.specs]
            for position, value in zip(call.run_time, traced, strict=True):
                values[position] = value
            positional = values[: len(values) - len(call.keywords)]
            keywords = dict(zip(call.keywords, values[len(positional) :], strict=True))
            try:
                self._signature.bind(*positional, **keywords)
            except TypeError as error:
                raise ArgumentError(f"{self.__name__}(): {error}", where=location.caller()) from None
            body(*positional, **keywords)

        return trace_function(self.__name__, call.run_time_specs, trace_body)

    def _argument_names(self, call: Call) -> list[str]:
        """The parameter each run-time argument was passed for."""
        positional = len(call.specs) - len(call.keywords)
        bound = self._signature.bind(*range(positional), **dict.fromkeys(call.keywords)).arguments
        names = {}
        for name, value in bound.items():
            for position in value if isinstance(value, tuple) else (value,):
                if isinstance(position, int):  # keywords stand for themselves
                    names[position] = name
        every = [names.get(i, f"argument {i}") for i in range(positional)] + list(call.keywords)
        return [every[i] for i in call.run_time]


class Call:
    """The arguments of one call: what each is specialized on (``specs``), and the run-time ones' ``values``
    (a number, or where an array lies)."""

    __slots__ = ("key", "keywords", "run_time", "run_time_specs", "specs", "values")

    def __init__(self, described: list[tuple[Any, Any]], keywords: tuple[str, ...]) -> None:
        self.specs = [spec for spec, _ in described]
        self.keywords = keywords
        self.key = (*self.specs, keywords) if keywords else tuple(self.specs)
        self.run_time = [i for i, spec in enumerate(self.specs) if spec.__class__ is not Constant]
        self.run_time_specs = [self.specs[i] for i in self.run_time]
        self.values = [described[i][1] for i in self.run_time]

    def unhashable(self, name: str) -> ArgumentError:
        constants = [s.value for s in self.specs if isinstance(s, Constant)]
        return ArgumentError(
            f"{name} was given a constant that can't be hashed, among {constants}",
            where=location.caller(),
            rule="compile-time arguments are part of what a compilation is found by",
            fix="pass a tuple instead of a list, a frozen dataclass instead of a dict",
        )


def jit(function: Callable[..., Any] | None = None, **options: Any) -> Any:
    """Decorate a host function: see `Jit`. Options are those of `nvdsl.lower.Options`, e.g. ``strict=True``."""
    if function is None:
        return functools.partial(jit, **options)
    chosen = None
    if options:
        from nvdsl import lower

        chosen = lower.Options.from_environment(**options)
    return Jit(function, chosen)


_BOOL, _F32, _I32, _I64 = (ScalarSpec(t) for t in (dtypes.bool_, dtypes.f32, dtypes.i32, dtypes.i64))


def _describe_argument(argument: Any) -> tuple[Any, Any]:
    """(what to specialize on, run-time value) of one argument."""
    kind = argument.__class__
    if kind is bool:
        return _BOOL, argument
    if kind is int:
        return (_I32 if -(1 << 31) <= argument < 1 << 31 else _I64), argument
    if kind is float:
        return _F32, argument
    if kind is ShapeDtype:
        return arrays.spec_of(argument.shape, argument.dtype, argument.strides), None
    if isinstance(argument, np.generic):
        try:
            return ScalarSpec(dtypes.from_numpy(argument.dtype)), argument
        except TypeError as error:
            raise ArgumentError(f"an argument is {argument!r}: {error}", fix="convert it to one of these") from None
    described = arrays.describe(argument)
    if described is not None:
        return described
    return Constant(argument), None


# A value that outlives its module is a dangling pointer inside MLIR, and using one ends the process. Whoever keeps
# a traced value too long (in a global list, say) shall get an error: so the latest modules stay alive.
_latest: collections.deque[Any] = collections.deque(maxlen=256)

_tracing = threading.RLock()  # MLIR's switch for locations from tracebacks belongs to the process, not to a thread


def trace_function(name: str, specs: list[Any], body: Callable[[list[Any]], None]) -> Any:
    """A module with ``func.func @name`` whose arguments have ``specs`` and whose body ``body`` traces."""
    with _tracing, context(), location.tracebacks(), ir.Location.unknown():
        module = ir.Module.create()
        _latest.append(module)
        with ir.InsertionPoint(module.body):
            function = func.FuncOp(name, ([argument_type(s) for s in specs], []))
            with ir.InsertionPoint(function.add_entry_block()):
                body([_argument(a, s) for a, s in zip(function.arguments, specs, strict=True)])
                func.ReturnOp([])
        verify_module(module)
        return module


def argument_type(spec: Any) -> Any:
    """The MLIR type of a specialized argument: a static memref, or a scalar."""
    if isinstance(spec, ScalarSpec):
        return spec.dtype.ir
    layout = None
    if spec.strides != packed_strides(spec.shape):
        layout = ir.StridedLayoutAttr.get(0, list(spec.strides))
    return ir.MemRefType.get(list(spec.shape), spec.dtype.ir, layout=layout)


def _argument(value: Any, spec: Any) -> Any:
    if isinstance(spec, ScalarSpec):
        return wrap(value, spec.dtype)
    return value.remember_dtype(spec.dtype)


def verify_module(module: Any) -> None:
    """MLIR's own verifier, then Hopper's rules. Raises VerifyError or TraceError with the user's line."""
    from nvdsl import verify

    try:
        module.operation.verify()
    except ir.MLIRError as error:
        verify.tensor_maps.check(module)  # says more about a box that nvgpu refuses, too
        raise _explain(error) from None
    verify.check(module)


def _explain(error: Any) -> TraceError:
    first = error.error_diagnostics[0]
    where = location.where(ir.Location.from_attr(first.location.attr))  # a diagnostic's own has no subclass
    message = first.message
    if "outside the region" in message:
        return TraceError(
            f"a traced value is used in a trace that did not make it ({message})",
            where=where,
            rule="a traced value lives as long as the trace of the call that made it",
            fix="don't keep traced values in globals or objects between calls; make them anew in the function",
        )
    if "dominate" in message:
        return TraceError(
            f"a traced value is used outside of the `if` or loop that made it ({message})",
            where=where,
            rule="a value made under traced control flow leaves it only through a variable that is assigned there",
            fix="assign it to a local variable that has a value before the `if` or loop",
        )
    return TraceError(f"the traced module is not valid: {message}", where=where, rule="MLIR's verifier")


_context: Any = None


def context() -> Any:
    """The process's MLIR context, made at the first trace and entered only while tracing or lowering."""
    global _context
    if _context is None:
        _context = ir.Context()
    return _context

