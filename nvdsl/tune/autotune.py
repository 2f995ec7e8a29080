"""``nv.autotune``: a jit function that knows which values of its keyword-only parameters are fast.

A call looks for them in this order: what the caller passes; the user's cache; a table that comes with the package; the
heuristic; the function's defaults. Only ``tune()``, or NVDSL_TUNE=always, searches.
"""

from __future__ import annotations

import itertools
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Protocol, Unpack, overload

from nvdsl.call import untraced
from nvdsl.call.extents import Bound
from nvdsl.call.garbage import none_collected
from nvdsl.call.jit import Jit, P
from nvdsl.call.module import Traced
from nvdsl.call.specialize import Call, Constant
from nvdsl.errors import ArgumentError, NvdslError, TraceError, TuneError, TuneWarning, Where, frames
from nvdsl.errors.tracebacks import at_call
from nvdsl.lower import cache
from nvdsl.lower.version import __version__
from nvdsl.mlir.threads import Once
from nvdsl.tune import device, names, store, table
from nvdsl.tune import problem as problems
from nvdsl.tune import result as results
from nvdsl.tune.problem import Problem
from nvdsl.tune.progress import Progress
from nvdsl.tune.result import Tuning
from nvdsl.tune.settings import GivenSettings, Settings, mode
from nvdsl.tune.space import Config, Space, SpaceLike

BUDGET = 60.0
"""Seconds, about, of one tuning."""
MOST_TRIED = 16
"""Configurations of a space that are traced in turn, where none is known to fit."""

PATIENCE = 900.0
"""Seconds to wait for tunings of other processes on the GPU. Then it is tuned beside them."""


class Autotuned(Jit[P]):
    """A host function that chooses its tuned parameters by itself: called, compiled and traced like a `Jit`."""

    def __init__(self, jit: Jit[P], space: SpaceLike, **settings: Unpack[GivenSettings]) -> None:
        super().__init__(jit._function, jit._options)
        self.space = Space.of(space)
        self._settings = Settings.of(settings)
        self._check_parameters()
        self._chosen: Once[tuple[str, Config, tuple[str, ...], list[Constant]]] = Once()
        self._tried: dict[Any, Traced] = {}  # what was traced to see whether a configuration fits
        self._fitting: set[Any] = set()  # keys of what was traced so: a dynamic kernel is one for many shapes
        self.overrides: dict[str, Any] = {}  # of the tuner's `Job`: another bench, another compiler

    @property
    def kernel(self) -> str:
        """The name by which records are found: ``module:name``."""
        return f"{self._function.__module__}:{self._function.__qualname__}"

    @at_call
    def tune(
        self, *args: Any, budget: float = BUDGET, force: bool = False, progress: Progress | None = None, **kwargs: Any
    ) -> Tuning:
        """Search for the fastest configuration for such arguments, and keep it.

        The arguments are arrays, whose contents are left alone, or `ShapeDtype`. If the cache knows the answer it is
        returned without a search, unless ``force`` is true. After ``budget`` seconds nothing new is begun. ``progress``
        is called with what happens; the default shows bars on a terminal, and lines on stderr elsewhere. Without a GPU
        this warns, and returns what a call would use. Raises TuneError if nothing can be chosen.
        """
        call = self._asked(args, kwargs)
        problem = self._problem(call)
        if why := device.missing():
            self._warn_no_gpu(why)
            return self._tuning(problem, *self._choose(call, problem, "cached")[:2])
        return self._tune(call, problem, budget, force, progress)

    @at_call
    def choice(self, *args: Any, **kwargs: Any) -> tuple[str, Config]:
        """The (source, configuration) that a call with these arguments uses.

        The source is "cache", "table", "heuristic" or "defaults".
        """
        call = self._asked(args, kwargs)
        return self._choice(call)[:2]

    def export(self, path: str | Path | None = None) -> Path:
        """Write all that the cache knows of this function, and that is not out of date, as a table."""
        valid = self._valid_for()
        records = [r for r in store.every(self.kernel) if r.valid_for == valid]
        return table.write(path or self._settings.table or self.__name__, self.kernel, records)

    # --- a call

    def _asked(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Call:
        """The call as it was written: no configuration is chosen."""
        return super().call(self._described(args, kwargs), tuple(kwargs))

    def call(self, described: list[tuple[Any, Any]], names: tuple[str, ...], bound: Bound | None = None) -> Call:
        call = super().call(described, names, bound)
        for name in names:
            if name in self.space.parameters:
                return call  # the caller decides; what is not passed has its default
        return call.extended(*self._choice(call)[2:])

    def _choice(self, call: Call) -> tuple[str, Config, tuple[str, ...], list[Constant]]:
        try:
            found = self._chosen.get(call.asked)
        except TypeError:
            raise call.unhashable(self.__name__) from None
        return found or self._chosen.make(call.asked, lambda: self._first_choice(call))

    def _first_choice(self, call: Call) -> tuple[str, Config, tuple[str, ...], list[Constant]]:
        with none_collected():
            return self._choose(call, self._problem(call), mode())

    def _choose(
        self, call: Call, problem: Problem, how: str
    ) -> tuple[str, Config, tuple[str, ...], list[Constant]]:
        if how == "always":
            if why := device.missing():
                self._warn_no_gpu(why)
            elif self._kept(self._question(problem), device.identity(call)) is None:
                try:
                    found = self._tune(call, problem, BUDGET, False, None)
                    return found.source, found.config, *_constants(found.config)
                except TuneError as error:  # a call shall run if it can
                    self._warn(f"{error.message}\nThe table's, the heuristic's or the default configuration is used")
        refused: NvdslError | None = None
        for source, config in self._candidates(call, problem, how):
            extended = call.extended(*_constants(config))
            if extended.key not in self._fitting:
                try:
                    found_by = self._found_by(extended)
                    if found_by is None or not untraced.is_kept(found_by):  # kept: it was traced before
                        traced = super()._traced(extended)
                        if found_by is None:
                            traced.verified()
                        self._tried[extended.key] = traced
                except NvdslError as error:  # of its class, but not for these very shapes
                    if self._is_of_callers(error):
                        raise
                    refused = refused or error  # the preferred one's reason
                    if source == "heuristic":  # it was asked for these shapes: what follows may be far slower
                        self._warn(
                            f"{self.__name__}: the heuristic chose {config}, which is refused for these arguments "
                            f"({error.message}). Another configuration is used"
                        )
                    continue
                self._fitting.add(extended.key)
            return source, config, *_constants(config)
        assert refused is not None
        raise refused

    def _is_of_callers(self, error: NvdslError) -> bool:
        """Whether what can't be traced is a function that the caller of a finished kernel passed."""
        if not isinstance(error, TraceError) or error.where is None:
            return False
        own = self.__wrapped__.__code__.co_filename.startswith(frames.KERNELS)
        return own and not error.where.file.startswith(frames.KERNELS)

    def _found_by(self, call: Call) -> str | None:
        """What the disk has for a call that is launched is found by this: see `Jit._kept_under`."""
        return None if device.missing() else self._kept_under(call, self._lowering(None))

    def _candidates(self, call: Call, problem: Problem, how: str) -> Iterator[tuple[str, Config]]:
        """What to try, in order: (source, configuration)."""
        if how != "off":
            question, gpu = self._question(problem), device.identity(call)
            if not device.missing():
                record = self._kept(question, gpu)
                if record is not None and (kept := self.space.revive(record.config)):
                    yield "cache", kept
            if self._settings.table is not None:
                entry = table.look_up(self._settings.table, question, gpu)
                if entry is not None and (shipped := self.space.revive(entry)):
                    yield "table", shipped
        defaults = self._defaults()
        if self._settings.heuristic is not None:
            guess = names.call(self._settings.heuristic, problem.arguments, "heuristic")
            yield "heuristic", self._complete(guess, defaults)
        if len(defaults) == len(self.space.parameters):
            yield "defaults", Config(defaults)
            return
        fitting = (config for config, broken in self.space.sift(problem.arguments) if broken is None)
        for config in itertools.islice(fitting, MOST_TRIED):
            yield "space", config
        yield "space", self.space.configs()[0]  # to fail with its own reason

    def _forget(self, state: int) -> None:
        super()._forget(state)
        self._chosen.discard(lambda key: key[0] == state)
        self._fitting = {key for key in self._fitting if key[0] != state}

    def _traced(self, call: Call, later: bool = False) -> Traced:
        return self._tried.pop(call.key, None) or super()._traced(call, later)

    # --- a tuning

    def _tune(self, call: Call, problem: Problem, budget: float, force: bool, progress: Any) -> Tuning:
        from nvdsl.tune import tuner
        from nvdsl.tune.progress import show

        question, gpu, valid = self._file_of(call, problem)
        # One tuning at a time on a GPU: two would disturb each other's times, and find the same twice.
        with cache.alone(f"device-{device.ordinal(call)}", PATIENCE):
            record = None if force else store.load(question, gpu, valid)
            if record is not None and (kept := self.space.revive(record.config)):
                return self._remember(self._tuning(problem, "cache", kept))
            start = time.monotonic()
            shown = progress or show(f"tuning {self.__name__}")
            try:
                candidates = tuner.tune(self._job(call, problem, shown), budget)
            finally:
                shown.close()
            best = tuner.chosen(candidates)
            stamp = time.strftime("%Y-%m-%d")
            measured = results.measured(best, candidates, problem=str(problem), date=stamp)
            store.save(store.Record(question, gpu, valid, best.config.plain(), measured))
        found = self._tuning(problem, "tuned", best.config)
        found.candidates, found.gpu, found.seconds = candidates, gpu["name"], time.monotonic() - start
        return self._remember(found)

    def _job(self, call: Call, problem: Problem, progress: Any) -> Any:
        from dataclasses import replace

        from nvdsl.lower.options import Options
        from nvdsl.tune.tuner import Job

        settings = self._settings
        options = self._options or Options.from_environment()
        defaults = self._defaults()
        return Job(
            name=self.__name__,
            problem=problem,
            space=self.space,
            trace=lambda config: super(Autotuned, self)._trace(call.extended(*_constants(config))),
            options=replace(options, strict=True, dump=frozenset(), debug=False),
            default=Config(defaults) if len(defaults) == len(self.space.parameters) else None,
            reference=settings.reference,
            inputs=settings.inputs,
            tolerance=settings.tolerance,
            min_fill=settings.min_fill,
            sms=device.multiprocessors(call),
            device=device.ordinal(call),
            progress=progress,
            **self.overrides,
        )

    def _remember(self, found: Tuning) -> Tuning:
        """Other shapes of the class shall look again."""
        self._chosen.clear()
        self._forget_launches()
        return found

    # --- names, keys

    def _problem(self, call: Call) -> Problem:
        try:
            return problems.of_call(call, call.parameters(self._signature))
        except TypeError as error:  # too many arguments, or unknown ones
            raise ArgumentError(f"{self.__name__}(): {error}", where=frames.caller()) from None

    def _question(self, problem: Problem) -> dict[str, Any]:
        return problems.question(problem, self.kernel, self._settings.shape_class)

    def _valid_for(self) -> dict[str, str]:
        return {
            "nvdsl's version": __version__,
            "the kernel's source": names.fingerprint(self._function),
            "the search space": self.space.fingerprint(),
        }

    def _file_of(self, call: Call, problem: Problem) -> tuple[dict[str, Any], dict[str, str], dict[str, str]]:
        return self._question(problem), device.identity(call), self._valid_for()

    def _kept(self, question: dict[str, Any], gpu: dict[str, str]) -> store.Record | None:
        """The user's cache's answer. What it has to hold for takes milliseconds to find out: only if there is one."""
        return store.load(question, gpu, self._valid_for()) if store.path(question, gpu).exists() else None

    def _defaults(self) -> dict[str, Any]:
        parameters = self._signature.parameters
        found = {name: parameters[name].default for name in self.space.parameters}
        return {name: value for name, value in found.items() if value is not parameters[name].empty}

    def _complete(self, guess: Any, defaults: dict[str, Any]) -> Config:
        found = {**defaults, **guess} if isinstance(guess, Mapping) else {}
        if set(found) != set(self.space.parameters):
            raise ArgumentError(
                f"the heuristic of {self.__name__} chose {guess!r}",
                where=names.line(self._settings.heuristic),
                rule=f"the tuned parameters are {', '.join(self.space.parameters)}",
                fix="return a dict: a value for each that has no default, and no others",
            )
        return Config(found)

    def _check_parameters(self) -> None:
        wrong = [name for name in self.space.parameters if name not in self._keyword_only]
        if wrong:
            raise ArgumentError(
                f"the space of {self.__name__} sets {', '.join(wrong)}",
                where=names.line(self._function),
                rule="tuned parameters are keyword-only parameters of the function: compile-time constants",
                fix=f"def {self.__name__}(..., *, {', '.join(wrong)}): ...",
            )

    def _tuning(self, problem: Problem, source: str, config: Config) -> Tuning:
        return Tuning(self.__name__, str(problem), config, source)

    def _warn_no_gpu(self, why: str) -> None:
        self._warn(
            f"{self.__name__} can't be tuned here ({why}): timing needs a Hopper GPU. The table's, the heuristic's or "
            "the default configuration is used"
        )

    def _warn(self, text: str) -> None:
        place = frames.caller(kernels=False) or Where("<nvdsl>", 0)
        warnings.warn_explicit(text, TuneWarning, place.file, place.line)


class Decorator(Protocol):
    """Makes a jit function, or a host function that is none yet, choose its own parameters."""

    @overload
    def __call__(self, jit: Jit[P], /) -> Autotuned[P]: ...

    @overload
    def __call__(self, jit: Callable[P, Any], /) -> Autotuned[P]: ...


def autotune(space: SpaceLike, **settings: Unpack[GivenSettings]) -> Decorator:
    """Decorate a jit function whose keyword-only parameters are to be tuned:

        @nv.autotune(nv.Space(stages=[2, 3, 4], tile=[(128, 128, 64), (128, 256, 64)]))
        @nv.jit
        def gemm(a, b, d, *, stages=3, tile=(128, 128, 64)): ...

    ``space`` is a `Space`, a list of dicts, or a dict of lists. The settings are optional. Those that are functions are
    called with what their parameters name: arguments by their specs (``a.shape``, ``a.dtype``), constants by value.

    * ``heuristic``: gives the configuration (a dict of all or some tuned parameters) for arguments that were never
      tuned.
    * ``shape_class``: gives a value (JSON) that arguments with the same answer share.
    * ``reference``: gives the right contents of the arrays that are written (a dict by name, or one array), from NumPy
      arrays. The default is what most candidates agree on.
    * ``tolerance``: how much results may differ in that comparison.
    * ``inputs``: gives NumPy arrays (a dict by name) for arguments that can't be random, indices above all.
    * ``table``: the file of tuned configurations that comes with the package.
    * ``min_fill``: a candidate is dropped if its grid fills the GPU less than this part as well as another's (0.25).

    Raises ArgumentError if the space has other parameters than the keyword-only ones of the function.
    """
    made = Space.of(space)

    def decorate(jit: Any) -> Any:
        return Autotuned(jit if isinstance(jit, Jit) else Jit(jit), made, **settings)

    return decorate


def _constants(config: Config) -> tuple[tuple[str, ...], list[Constant]]:
    return tuple(config), [Constant(value) for value in config.values()]
