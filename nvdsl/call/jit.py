"""``nv.jit``: from a call with arrays to a traced module, a cubin, an executable, and the launch.

    signature -> launch                                                              a call like one before
    arguments -> specialization (shapes, dtypes, constants) -> trace -> verify -> lower -> executable -> launch

Each specialization is compiled once in a process. What a call launched is found again by its signature (`launches`).
"""

from __future__ import annotations

import functools
import inspect
import weakref
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, Unpack, overload

from nvdsl import sim
from nvdsl.call import absent, collect, extents, lowering, untraced
from nvdsl.call.compiled import Compiled, Simulated
from nvdsl.call.extents import Bound, Extents, NamedSpec
from nvdsl.call.garbage import none_collected
from nvdsl.call.launches import Launch, Launches, Maker
from nvdsl.call.module import Traced, trace_function
from nvdsl.call.reads import Reads
from nvdsl.call.signature import constants
from nvdsl.call.specialize import Call, Constant, describe_arguments, parameters_of
from nvdsl.driver.stream import Stream
from nvdsl.errors import ArgumentError, NvdslError, TraceError, frames
from nvdsl.errors.tracebacks import at_call, for_user
from nvdsl.mlir import threads
from nvdsl.mlir.threads import Once
from nvdsl.trace import decorated, effects, kept, source
from nvdsl.trace.dependencies import compiled, never
from nvdsl.trace.rewrite import convert

if TYPE_CHECKING:
    from nvdsl.driver.executable import Executable
    from nvdsl.lower.options import ChosenOptions, Options
    from nvdsl.mlir import ir

P = ParamSpec("P")


Mode = bool | None | sim.Options
"""How a specialization is compiled: with ``debug``, or as the environment says, or for the simulator."""


class Jit(Generic[P]):
    """A host function, made by `jit`. A call compiles it if needed and runs it on the device of its arguments.

    Positional arguments are run-time values: arrays (by shape, strides and dtype), and scalars (bool; int as
    i32, or i64 where it doesn't fit; float as f32; NumPy scalars as their dtype). Keyword-only parameters, and
    arguments that are neither, are compile-time constants: a new value compiles anew.
    """

    __name__: str
    __wrapped__: Callable[P, Any]

    def __init__(self, function: Callable[P, Any], options: Options | None = None) -> None:
        decorated.check_host(function)
        functools.update_wrapper(self, function)
        source.keep(function)
        self._function: Any = function
        self._options = options
        self._signature = inspect.signature(function)
        self._keyword_only = {
            name for name, p in self._signature.parameters.items() if p.kind is p.KEYWORD_ONLY
        }
        self._extents = Extents(self.__name__, extents.read(function, self._signature))
        self._launches = Launches()
        self._compiled: Once[Compiled | Simulated] = Once()  # by specialization and mode
        self._repeatable: weakref.WeakSet[Launch] = weakref.WeakSet()  # here, and with whoever calls this function
        self._changes = 0  # times that launches were forgotten
        self._lock = threads.lock()
        self._reads = Reads(function, self._forget)
        self._asked_last: tuple[Any, str | None] = (None, None)  # a tuner asks first whether a call is kept
        self._forms: dict[tuple[int, tuple[str, ...]], list[str]] = {}  # how arguments are given -> their parameters

    @overload  # what an editor shows first: the function's own parameters
    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> None: ...

    @overload  # arrays, where they are annotated as what they are in a trace; and these three
    def __call__(
        self,
        *args: Any,
        stream: Stream | None = None,
        target: str | None = None,
        debug: bool | None = None,
        **kwargs: Any,
    ) -> None: ...

    def __call__(  # type: ignore[misc]  # a parameter of the function that is called as one of these is refused
        self,
        *args: Any,
        stream: Stream | None = None,
        target: str | None = None,
        debug: bool | None = None,
        **kwargs: Any,
    ) -> None:
        """Run the function.

        ``stream``: a CUDA stream (int, torch, CuPy, cuda.core ...). The default is the current stream of the arrays'
        library. ``target``: "gpu", or "sim" for the simulator. The default is NVDSL_TARGET, or else the GPU if there is
        one. ``debug``: on the GPU, end waits that last too long, and check asserts and indices (docs/debugging.md). The
        default is NVDSL_DEBUG. Raises WatchdogError in this mode.
        """
        try:
            rest: Any = (target, debug)
            if kwargs:
                named = constants(kwargs) if kwargs.keys() <= self._keyword_only else None
                rest = None if named is None else (target, debug, named)
            if rest is not None and self._launches.launch(args, rest, stream) is not None:
                return
            decorated.no_call(self.__name__)
            call = self.describe(args, kwargs)
            executable = self.run(call, call.values, stream, target, debug)
            if executable is None or rest is None or len(call.run_time) != len(args):
                return
            launch = self.repeatable(call, executable)
            if launch is not None:
                self._launches.keep(args, rest, launch)
        except NvdslError as error:
            raise for_user(error) from error.__cause__  # NVDSL_TRACEBACK=full shows nvdsl's own lines, too

    def run(
        self,
        call: Call,
        values: Sequence[Any],
        stream: Stream | None = None,
        target: str | None = None,
        debug: bool | None = None,
    ) -> Executable | None:
        """Run for described arguments, compiling first where needed. ``values``: for ``call.run_time_specs``.

        Returns what ran on the GPU; None in the simulator, and where calls shall only compile.
        """
        if collect.active():
            self._find(call, debug)
            return None
        simulated = sim.wanted(target)
        mode = sim.Options.from_environment() if simulated else debug
        executable = self._find(call, mode, runs=not simulated).executable()
        if None in values:
            raise ArgumentError(
                f"{self.__name__} was called with a ShapeDtype",
                rule="a ShapeDtype has no elements: it stands for an array where nothing runs",
                fix=f"pass the array, or only compile: {self.__name__}.compile(...)",
            )
        executable([*values, *call.more] if call.more else values, call.run_time_specs, stream)
        return None if simulated else executable

    def repeatable(
        self,
        call: Call,
        executable: Executable,
        make: Maker | None = None,
        place: int | tuple[int, ...] = 0,
        **operands: Any,
    ) -> Launch | None:
        """What a call like this one launches, after it ran. None where each needs the long way. ``make``, ``place``:
        see `Launch`; ``operands``: see `nvdsl.driver.launcher.Launcher`."""
        launcher, reads = executable.launcher(call.values, call.more, **operands), call.dependencies
        if launcher is None or reads is None:
            return None
        guard = reads.guard  # before the state: another thread may have both changed by now
        launch = Launch(launcher, compiled(guard), make, place)
        with self._lock:
            if reads.state != call.state or call.changes != self._changes:
                return None
            self._repeatable.add(launch)
        return launch

    def prepare(self, call: Call) -> None:
        """Compile what `run` will want of a call on the GPU."""
        self._find(call, None, runs=not collect.active())

    @at_call
    def compile(self, *args: Any, debug: bool | None = None, **kwargs: Any) -> Compiled:
        """Trace, verify and lower for these arguments (arrays or `ShapeDtype`), without a GPU."""
        return self._find(self.describe(args, kwargs), debug)

    @at_call
    def trace(self, *args: Any, **kwargs: Any) -> ir.Module:
        """Only trace and verify; returns the ``ir.Module``."""
        return self._trace(self.describe(args, kwargs))

    def call(self, described: list[tuple[Any, Any]], names: tuple[str, ...], bound: Bound | None = None) -> Call:
        """A call with described arguments (`describe_argument`), the last of them passed by these names. ``bound``:
        what it is compiled for, where that isn't what the annotations say."""
        call = Call(described, names, bound or self._bound([spec for spec, _ in described], names))
        call.changes = self._changes
        reads = self._reads.of(call)
        call.reads(reads, reads.current(call.objects))
        return call

    def _bound(self, specs: list[Any], names: tuple[str, ...]) -> Bound | None:
        """The named extents of a call; None where it has no such array."""
        if not self._extents.named and not any(spec.__class__ is NamedSpec for spec in specs):
            return None
        form = len(specs), names
        parameters = self._forms.get(form)
        if parameters is None:
            try:
                parameters = self._forms[form] = parameters_of(self._signature, *form)
            except TypeError as error:
                raise ArgumentError(f"{self.__name__}(): {error}", where=frames.caller()) from None
        return self._extents.bind(parameters, specs)

    def _find(self, call: Call, mode: Mode, runs: bool = False) -> Any:
        """``runs``: it is wanted on the GPU now; so it may be what was kept, without a trace."""
        key = call.key, mode
        try:
            found = self._compiled.get(key)
        except TypeError:
            raise call.unhashable(self.__name__) from None
        return found or self._compiled.make(key, lambda: self._make(call, mode, runs))

    def _make(self, call: Call, mode: Mode, runs: bool) -> Compiled | Simulated:
        with none_collected():
            return self._simulated(call, mode) if isinstance(mode, sim.Options) else self._lower(call, mode, runs)

    def _simulated(self, call: Call, options: sim.Options) -> Simulated:
        module = self._trace(call)
        kept.write()
        written = effects.written_arguments(module.body.operations[0])
        names = call.run_time_names(self._signature) or None
        return Simulated(sim.executable(module, self.__name__, written=written, names=names, options=options))

    def describe(self, args: Sequence[Any], kwargs: dict[str, Any]) -> Call:
        """A call with these arguments, as `run` takes it."""
        return self.call(self._described(args, kwargs), tuple(kwargs))

    def _described(self, args: Sequence[Any], kwargs: dict[str, Any]) -> list[tuple[Any, Any]]:
        return describe_arguments(self.__name__, list(self._signature.parameters), self._keyword_only, args, kwargs)

    def _forget(self, state: int) -> None:
        """Drop what was compiled in a state of what the function reads."""
        self._compiled.discard(lambda key: key[0][0] == state)
        self._forget_launches()

    def _forget_launches(self) -> None:
        """Let each call find anew what it launches."""
        with self._lock:
            self._changes += 1
            for launch in self._repeatable:
                launch.holds = never
            self._repeatable.clear()
        self._launches.clear()

    def _lower(self, call: Call, debug: bool | None, runs: bool) -> Compiled:
        options = self._lowering(debug)
        found_by = self._kept_under(call, options) if runs else None
        arguments, what = functools.partial(call.run_time_names, self._signature), call.without_values()

        def trace() -> Traced:  # of what is found without one it is kept
            return self._traced(what, found_by is not None)

        return lowering.lower(self.__name__, trace, arguments, options, runs, found_by)

    def _kept_under(self, call: Call, options: Options) -> str | None:
        """What the disk has for a call is found by this; None where it has to be traced."""
        asked = call.key, options
        known, found_by = self._asked_last
        if known != asked:
            found_by = untraced.key(self._function, call, options)
            self._asked_last = asked, found_by
        return found_by

    def _lowering(self, debug: bool | None) -> Options:
        from nvdsl.lower.options import Options

        options = self._options or Options.from_environment()
        return options if debug is None else replace(options, debug=debug)

    def _trace(self, call: Call) -> ir.Module:
        return self._traced(call).verified()

    def _traced(self, call: Call, later: bool = False) -> Traced:
        """``later``: see `Traced`."""
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
                return trace_function(self.__name__, call.traced_specs, trace_body, later)
            except (TypeError, AttributeError, TraceError) as error:
                explained = absent.explain(error, self._function.__code__, absent.parameters(self._signature, call))
                if explained is None:
                    raise
                raise explained from None
            finally:
                if call.dependencies is not None:
                    call.dependencies.settle(call.state, call.objects)

    def __reduce__(self) -> str:
        """By name, as Python's functions are: a copy is the function itself, another process imports it."""
        return self._function.__qualname__


@overload
def jit(function: Callable[P, Any], /, **options: Unpack[ChosenOptions]) -> Jit[P]: ...


@overload
def jit(function: None = None, /, **options: Unpack[ChosenOptions]) -> Callable[[Callable[P, Any]], Jit[P]]: ...


def jit(function: Any = None, /, **options: Any) -> Any:
    """Decorate a host function, which becomes a `Jit`.

    Options are those of `nvdsl.lower.Options`: ``@nv.jit(strict=True)``.
    """
    if function is None:
        return functools.partial(jit, **options)
    chosen = None
    if options:
        from nvdsl.lower.options import Options

        chosen = Options.from_environment(**options)
    return Jit(function, chosen)
