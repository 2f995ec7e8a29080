"""``nv.jit``: from a call with arrays to a traced module, a cubin, an executable, and the launch.

    arguments -> specialization (shapes, dtypes, constants) -> trace -> verify -> lower -> executable -> run

Each specialization is compiled once in a process and found again by a dictionary look-up.
"""

from __future__ import annotations

import functools
import inspect
import time
from collections.abc import Callable, Hashable
from dataclasses import replace
from typing import Any, Generic, ParamSpec, TypeVar, overload

from nvdsl import sim
from nvdsl.call import collect
from nvdsl.call.compiled import Compiled
from nvdsl.call.module import trace_function
from nvdsl.call.signature import constants, glance, keep, learn
from nvdsl.call.specialize import Call, Constant, describe_argument
from nvdsl.errors import ArgumentError, NvdslError, frames
from nvdsl.errors.tracebacks import for_user
from nvdsl.mlir import threads
from nvdsl.mlir.threads import Once
from nvdsl.trace import decorated, effects, source
from nvdsl.trace.dependencies import Dependencies, Guard, compiled
from nvdsl.trace.rewrite import convert

P = ParamSpec("P")
R = TypeVar("R")


_MOST = 1024  # sets of functions and objects as constants that one function keeps compilations of


def _state(key: Any) -> Any:
    """The state in a key: of a call, or with more behind it."""
    while isinstance(key[0], tuple):
        key = key[0]
    return key[0]


def at_call(function: Callable[P, R]) -> Callable[P, R]:
    """Errors leave ``function`` as `tracebacks.for_user` makes them."""

    @functools.wraps(function)
    def located(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return function(*args, **kwargs)
        except NvdslError as error:
            raise for_user(error) from error.__cause__  # NVDSL_TRACEBACK=full shows nvdsl's own lines, too

    return located


class Jit(Generic[P]):
    """A host function: calling it runs it on the arguments' device, compiling it first where needed.

    Positional arguments are run-time values: arrays (by shape, strides and dtype), and scalars (bool; int as
    i32, or i64 where it doesn't fit; float as f32; NumPy scalars as their dtype). Keyword-only parameters, and
    arguments that are neither, are compile-time constants: a new value compiles anew.
    """

    __name__: str
    __wrapped__: Callable[P, Any]

    def __init__(self, function: Callable[P, Any], options: Any = None) -> None:
        decorated.check_host(function)
        functools.update_wrapper(self, function)
        source.keep(function)
        self._function: Any = function
        self._options = options
        self._signature = inspect.signature(function)
        self._keyword_only = {
            name for name, p in self._signature.parameters.items() if p.kind is p.KEYWORD_ONLY
        }
        self._plans: Once[Any] = Once()
        self._prepared: dict[Any, Any] = {}  # by what a glance says
        self._compiled: Once[Compiled] = Once()
        self._reads = Dependencies(function, self._forget)
        self._with: dict[Any, Dependencies] = {}  # of calls with functions or objects as constants

    @overload  # what an editor shows first: the function's own parameters
    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> None: ...

    @overload  # arrays, where they are annotated as what they are in a trace; and these three
    def __call__(
        self, *args: Any, stream: Any = None, target: str | None = None, debug: bool | None = None, **kwargs: Any
    ) -> None: ...

    def __call__(  # type: ignore[misc]  # a parameter of the function that is called as one of these is refused
        self, *args: Any, stream: Any = None, target: str | None = None, debug: bool | None = None, **kwargs: Any
    ) -> None:
        """Run. ``stream``: a CUDA stream (int, torch, CuPy, cuda.core ...); default: the arrays' current one.

        ``target``: "gpu", or "sim" for the simulator; default NVDSL_TARGET, or else the GPU where there is one.
        ``debug``: on the GPU, with waits that end, asserts, and indices checked (docs/debugging.md); default
        NVDSL_DEBUG. Raises WatchdogError in this mode.
        """
        try:
            decorated.no_call(self.__name__)
            known, key = self._prepared, None
            seen = self._glance(args, kwargs) if kwargs else glance(args)
            if seen is not None and not collect.active():
                what, values = seen
                key = what, target, debug
                ready = known.get(key)
                if ready is not None and ready[1]():
                    ready[0](values, stream)
                    return
            call, executable = self._find(args, kwargs, target, debug)
            if executable is None:
                return
            executable(call.values, call.run_time_specs, stream)
            learn(args)
            if key is not None and len(call.run_time) == len(args) and not sim.wanted(target):
                keep(known, key, self._repeatable(call, executable))
        except NvdslError as error:
            raise for_user(error) from error.__cause__  # NVDSL_TRACEBACK=full shows nvdsl's own lines, too

    def prepare(
        self, *args: Any, target: str | None = None, debug: bool | None = None, **kwargs: Any
    ) -> tuple[Any, Guard] | None:
        """What is left of a call with arguments like these, after one was made: a `driver.prepared.Prepared`, which is
        called with addresses and numbers, and whether it is still right, which is asked before. None where there is
        none (`Plan.prepare`), and on the simulator."""
        if sim.wanted(target):
            return None
        return self._repeatable(*self._find(args, kwargs, target, debug))

    @staticmethod
    def _repeatable(call: Call, executable: Any) -> tuple[Any, Guard] | None:
        prepared, reads = executable.prepare(call.values), call.dependencies
        if prepared is None or reads is None:
            return None
        guard = reads.guard  # before the state: another thread may have both changed by now
        return (prepared, compiled(guard)) if reads.state == call.state else None

    @at_call
    def compile(self, *args: Any, debug: bool | None = None, **kwargs: Any) -> Compiled:
        """Trace, verify and lower for these arguments (arrays or `ShapeDtype`), without a GPU."""
        return self._compile(self._describe(args, kwargs), debug)

    @at_call
    def trace(self, *args: Any, **kwargs: Any) -> Any:
        """Only trace and verify; returns the ``ir.Module``."""
        return self._trace(self._describe(args, kwargs))

    def _glance(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Hashable, ...], list[Any]] | None:
        """`glance`, of a call with keyword arguments."""
        seen = glance(args)
        named = constants(kwargs) if kwargs.keys() <= self._keyword_only else None
        return None if seen is None or named is None else ((*seen[0], named), seen[1])

    def _find(
        self, args: tuple[Any, ...], kwargs: dict[str, Any], target: str | None, debug: bool | None
    ) -> tuple[Call, Any]:
        """The arguments described, and the executable for them; no executable where a call shall only compile."""
        call = self._describe(args, kwargs)
        if collect.active():
            self._compile(call, debug)
            return call, None
        options = sim.Options.from_environment() if sim.wanted(target) else None
        key: Any = call.key if options is None else (call.key, options)
        if debug is not None and options is None:
            key = (key, debug)
        try:
            executable = self._plans.get(key)
        except TypeError:
            raise call.unhashable(self.__name__) from None
        if executable is None:
            executable = self._plans.make(
                key,
                lambda: self._compile(call, debug).executable() if options is None else self._simulated(call, options),
            )
        if None in call.values:
            raise ArgumentError(
                f"{self.__name__} was called with a ShapeDtype",
                rule="a ShapeDtype has no elements: it stands for an array where nothing runs",
                fix=f"pass the array, or only compile: {self.__name__}.compile(...)",
            )
        return call, executable

    def _simulated(self, call: Call, options: sim.Options) -> Any:
        module = self._trace(call)
        written = effects.written_arguments(module.body.operations[0])
        names = self._argument_names(call)
        return sim.executable(module, self.__name__, written=written, names=names or None, options=options)

    def _describe(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Call:
        described = []
        try:
            for argument in args:
                described.append(describe_argument(argument))
            for name, argument in kwargs.items():
                constant = name in self._keyword_only
                described.append((Constant(argument), None) if constant else describe_argument(argument))
        except ArgumentError as error:
            every = [self._parameter(i) for i in range(len(args))] + list(kwargs)
            error.message = f"{every[len(described)]} of {self.__name__}: {error.message}"
            raise
        call = Call(described, tuple(kwargs))
        reads = self._dependencies(call)
        call.reads(reads, reads.current(call.objects))
        return call

    def _dependencies(self, call: Call) -> Dependencies:
        objects = call.objects
        if not objects:
            return self._reads
        key = tuple([spec for spec in call.specs if spec.__class__ is Constant])
        try:
            found = self._with.get(key)
        except TypeError:  # a list, say: nothing is found by it
            return Dependencies(self._function, self._forget)
        if found is None:
            while len(self._with) >= _MOST:
                self._with.pop(next(iter(self._with))).drop()
            found = self._with.setdefault(key, Dependencies(self._function, self._forget))
        return found

    def _forget(self, state: int) -> None:
        """Drop what was compiled in a state of what the function reads."""
        for table in (self._plans, self._compiled):
            table.discard(lambda key: _state(key) == state)
        self._prepared.clear()

    def _parameter(self, position: int) -> str:
        """The parameter that a positional argument is passed for."""
        names = list(self._signature.parameters)
        return names[min(position, len(names) - 1)] if names else f"argument {position}"

    def _compile(self, call: Call, debug: bool | None = None) -> Compiled:
        key: Any = call.key if debug is None else (call.key, debug)
        try:
            compiled = self._compiled.get(key)
        except TypeError:
            raise call.unhashable(self.__name__) from None
        return compiled or self._compiled.make(key, lambda: self._lower(call, debug))

    def _lower(self, call: Call, debug: bool | None) -> Compiled:
        from nvdsl.lower import compiler
        from nvdsl.lower.options import Options

        start = time.perf_counter()
        module = self._trace(call)
        seconds = {"trace": time.perf_counter() - start}
        options = self._options or Options.from_environment()
        lowered = compiler.lower(module, options if debug is None else replace(options, debug=debug))
        written = effects.written_arguments(module.body.operations[0])
        names = self._argument_names(call)
        compiled = Compiled(self.__name__, module, lowered, written, names, seconds | lowered.stages)
        collect.add(compiled)
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
                raise ArgumentError(f"{self.__name__}(): {error}", where=frames.caller()) from None
            with decorated.tracing(self._function):
                decorated.no_result(self._function, body(*positional, **keywords), "the host function")

        with threads.mlir:  # until what the trace changed is settled
            try:
                return trace_function(self.__name__, call.run_time_specs, trace_body)
            finally:
                if call.dependencies is not None:
                    call.dependencies.settle(call.state, call.objects)

    def __reduce__(self) -> str:
        """By name, as Python's functions are: a copy is the function itself, another process imports it."""
        return self._function.__qualname__

    def _argument_names(self, call: Call) -> list[str]:
        """The parameter each run-time argument was passed for."""
        every = self._parameters(call)
        return [every[i] for i in call.run_time]

    def _parameters(self, call: Call) -> list[str]:
        """The parameter each argument was passed for."""
        positional = len(call.specs) - len(call.keywords)
        bound = self._signature.bind_partial(*range(positional), **dict.fromkeys(call.keywords)).arguments
        names = {}
        for name, value in bound.items():
            for position in value if isinstance(value, tuple) else (value,):
                if isinstance(position, int):  # keywords stand for themselves
                    names[position] = name
        return [names.get(i, f"argument {i}") for i in range(positional)] + list(call.keywords)


@overload
def jit(function: Callable[P, Any], /, **options: Any) -> Jit[P]: ...


@overload
def jit(function: None = None, /, **options: Any) -> Callable[[Callable[P, Any]], Jit[P]]: ...


def jit(function: Any = None, /, **options: Any) -> Any:
    """Decorate a host function: see `Jit`. Options are those of `nvdsl.lower.Options`, e.g. ``strict=True``."""
    if function is None:
        return functools.partial(jit, **options)
    chosen = None
    if options:
        from nvdsl.lower.options import Options

        chosen = Options.from_environment(**options)
    return Jit(function, chosen)
