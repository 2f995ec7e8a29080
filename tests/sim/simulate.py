"""Running a traced function on the simulator, with the module at hand for editing."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

from nvdsl import sim
from nvdsl.call.jit import Jit
from nvdsl.errors import SimError
from nvdsl.thin.host_function import HostFunction
from nvdsl.thin.host_function import describe as describe_thin
from nvdsl.trace import effects

SCHEDULES = [sim.Options(order=order, delivery=d) for order in sim.options.ORDERS for d in ("late", "eager")] + [
    sim.Options(delivery="random", order="random", seed=seed) for seed in range(20)
]


@dataclass
class Program:
    """A traced module and the arguments of one call of it. It is decoded at its first run at each level: whoever edits
    the module does so before."""

    module: Any
    name: str
    values: list[Any]
    specs: list[Any]
    written: frozenset[int]
    _decoded: dict[str, Any] = field(default_factory=dict, init=False, repr=False, compare=False)

    def run(self, options: sim.Options | None = None) -> None:
        self.decoded(options or sim.Options())(self.values, self.specs)

    def decoded(self, options: sim.Options) -> Any:
        """What simulates it: raises SimError for an op that has no semantics."""
        executable = self._decoded.get(options.level)
        if executable is None:
            executable = sim.executable(self.module, self.name, written=self.written, options=options)
            self._decoded[options.level] = executable
        executable.simulates.options = options
        return executable


def traced(function: Any, *args: Any, **constants: Any) -> Program:
    """Not verified: many of these kernels are wrong, and the simulator is to say so."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("NVDSL_VERIFY", "off")
        return _traced(function, *args, **constants)


def _traced(function: Any, *args: Any, **constants: Any) -> Program:
    if isinstance(function, Jit):
        call = function.describe(args, constants)
        module, values, specs = function._trace(call), [*call.values, *call.more], call.run_time_specs
    else:
        assert isinstance(function, HostFunction)
        module = function.trace(*args, **constants)
        specs, values = map(list, zip(*[describe_thin(a, i) for i, a in enumerate(args)], strict=True))
    written = effects.written_arguments(module.body.operations[0])
    return Program(module, function.__name__, values, specs, written)


def run(function: Any, *args: Any, options: sim.Options | None = None, **constants: Any) -> None:
    traced(function, *args, **constants).run(options)


def verdict(
    function: Any, *args: Any, options: sim.Options | None = None, **constants: Any
) -> SimError | None:
    """The error that a simulation ends with, None for none."""
    return verdict_of(traced(function, *args, **constants), options)


def verdict_of(program: Program, options: sim.Options | None = None) -> SimError | None:
    try:
        program.run(options)
    except SimError as error:
        return error
    return None


def zeros(*shape: int, dtype: Any = np.float32) -> Any:
    return np.zeros(shape, dtype)
