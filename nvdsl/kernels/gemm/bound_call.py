"""A call whose kernel is found: it runs, and says what calls like it launch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from nvdsl.call.launches import Launch
from nvdsl.call.specialize import Call
from nvdsl.driver.executable import Executable
from nvdsl.driver.scratch_memory import PackedLauncher
from nvdsl.driver.stream import Stream
from nvdsl.kernels.arguments import Argument
from nvdsl.kernels.gemm.argument_view import array_of
from nvdsl.kernels.gemm.arguments import check_disjoint, disjoint
from nvdsl.kernels.gemm.bound_kernel import BoundKernel
from nvdsl.kernels.gemm.packing import copying_launcher


class BoundCall:
    """``arguments``: the arrays by name; ``bound``: the kernel that computes it; ``out``: what the caller passed for
    the result, or None. ``positions``: where each argument stands among the values of a repeated call.
    """

    positions: Mapping[str, int]
    arguments: dict[str, Argument]
    bound: BoundKernel
    out: Any
    alpha: float = 1.0
    beta: float = 0.0
    target: str | None = None

    @property
    def in_place(self) -> Sequence[str]:
        """What may be the very array that is written."""
        return ("c",)

    def run(self, stream: Stream | None) -> tuple[Any, Launch | None]:
        """Compute. Returns the result, and what calls like this one launch."""
        arguments, problem = self.arguments, self.bound.problem
        if self.out is None:
            arguments["out"] = Argument.output("out", None, arguments["a"], problem.result, problem.out_dtype)
        else:
            check_disjoint(arguments, self.in_place)
        ran = self.bound.run(self.sources, self.alpha, self.beta, stream, self.target)
        return arguments["out"].result(), self._repeatable(ran)

    def prepare(self) -> None:
        """Compile what `run` will want on the GPU. Of calls with ``out``."""
        self.bound.prepare(self.sources, self.alpha, self.beta)

    @property
    def sources(self) -> dict[str, Any]:
        return {name: argument.source for name, argument in self.arguments.items()}

    def _repeatable(
        self, ran: tuple[Call, Executable | None, tuple[Call, Executable | None] | None] | None
    ) -> Launch | None:
        """What is launched again; None where each call needs the long way."""
        if ran is None or ran[1] is None or not all(x.memory[1].has_signature for x in self.arguments.values()):
            return None
        call, executable, packed = ran
        bound, out, place = self.bound, self.arguments["out"], self.positions["out"]
        if packed and bound.launches > 1:
            return None
        make = out.maker() if self.out is None else None
        apart = {} if make else disjoint(self.arguments, self.in_place)  # a new array is
        pairs = [(place, self.positions[name], pair) for name, pair in apart.items()]
        offsets = bound.offsets()
        launch = bound.function.repeatable(
            call, executable,
            order=[self.positions[array_of(name)] for name in bound.order],
            offsets=offsets if any(map(any, offsets)) else None,
            disjoint=[] if packed else pairs,
            make=make,
            place=place,
        )  # fmt: skip
        if launch is not None and packed:
            how, copying = packed
            copies = [(self.positions[name], packing.bytes) for name, packing in bound.packs.items()]
            copy = None if copying is None else copying_launcher([*bound.packs.values()], how, copying)
            if copy is None:
                return None
            launch.launcher = PackedLauncher(launch.launcher, copy, copies, pairs, out.memory[1])
        return launch
