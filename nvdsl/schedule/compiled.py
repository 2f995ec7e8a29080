"""A payload and a schedule as something to call."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from nvdsl import sim
from nvdsl.call import collect
from nvdsl.call import module as modules
from nvdsl.call.compiled import Compiled, Stage
from nvdsl.driver.stream import Stream
from nvdsl.errors import ArgumentError, frames
from nvdsl.errors.tracebacks import at_call
from nvdsl.mlir import ir, threads
from nvdsl.schedule.finish import finish
from nvdsl.schedule.masking import mask
from nvdsl.schedule.payload import Payload, check_payload
from nvdsl.schedule.ragged import real_shapes
from nvdsl.schedule.step import Step
from nvdsl.schedule.work import Work
from nvdsl.thin.host_function import HostFunction, describe
from nvdsl.thin.load import LoadedFunction, load
from nvdsl.tune.result import Tuning


class Scheduled(HostFunction):
    """What `compile` makes: ``scheduled(*arguments, stream=None, target=None)`` runs it, on a GPU or simulated.

    Arguments are as the payload's function has them, of these very shapes; the last one is written. ``payload``,
    ``steps``: what it was made of. ``stages``: the module before any step, and after each. ``tuning``: the table of the
    candidates that `tune` chose it from.
    """

    tuning: Tuning | None = None

    def __init__(self, payload: Payload, steps: tuple[Step, ...], stages: tuple[Stage, ...]) -> None:
        super().__init__(payload.name)
        self.payload, self.steps, self.stages = payload, steps, stages
        function = load(self.mlir, name=f"<{payload.name} after {stages[-1].name}>")[payload.name]
        assert isinstance(function, LoadedFunction)
        self._function = function
        self._compiled: Compiled | None = None

    @property
    def mlir(self) -> str:
        """The module that is compiled and simulated, as text."""
        return self.stages[-1].text

    @at_call
    def __call__(self, *args: Any, stream: Stream | None = None, target: str | None = None, **kwargs: Any) -> None:
        """Run it for arrays. On a GPU it is compiled once, and launched on the stream like a kernel of `nv.jit`."""
        if collect.active() or sim.wanted(target):
            super().__call__(*args, stream=stream, target=target, **kwargs)
            return
        if self._compiled is None:
            self._compiled = self.compile(*args, **kwargs)
        described = [describe(argument, position) for position, argument in enumerate(args)]
        values, specs = [value for _, value in described], [spec for spec, _ in described]
        self._compiled.executable()(values, specs, stream)

    def _module(self, specs: list[Any], **kwargs: Any) -> ir.Module:
        return self._function._module(specs, **kwargs)

    def compile(self, *args: Any, **kwargs: Any) -> Compiled:
        """Compile for arguments (arrays, or `nv.ShapeDtype`) without a GPU."""
        made = super().compile(*args, **kwargs)
        made.stages = self.stages
        return made

    def __repr__(self) -> str:
        return f"Scheduled({self.__name__}, [{', '.join(map(str, self.steps))}])"


def compile(payload: Payload, schedule: Iterable[Step]) -> Scheduled:
    """Apply a schedule's steps to a payload, one after the other, then `mask` where extents are no multiples of
    their tiles, and then `finish`.

    Raises ScheduleError, which names the step and its line, where one does not fit; ArgumentError for what is no step.
    What it gives is verified and compiled at its first call.
    """
    check_payload(payload)
    listed = isinstance(schedule, Iterable) and not isinstance(schedule, str)
    steps: tuple[Any, ...] = tuple(schedule) if listed else (schedule,)
    for one in steps:
        if not isinstance(one, Step):
            raise ArgumentError(
                f"{getattr(one, '__name__', one)!r} in a schedule",
                where=frames.caller(),
                rule="a schedule is a list of steps",
                fix="call it, as in tile_warps(64, 32); a function of your own is decorated with step",
            )
    if steps and steps[-1].name == finish.__name__:
        steps = steps[:-1]
    with threads.mlir, modules.context(), ir.Location.unknown():
        work = Work(ir.Module.parse(payload.text))
        stages = [Stage("payload", "What is computed, before any step.", str(work.module))]
        done = []
        for one in _with_ends(steps, work):
            one(work)
            done.append(one)
            stages.append(Stage(str(one), one.says, str(work.module)))
    return Scheduled(payload, tuple(done), tuple(stages))


def _with_ends(steps: tuple[Step, ...], work: Work) -> Iterator[Step]:
    """The steps, and those that end a schedule: `mask`, where there is something to guard by then, and `finish`."""
    yield from steps
    if real_shapes(work):
        yield mask()
    yield finish()
