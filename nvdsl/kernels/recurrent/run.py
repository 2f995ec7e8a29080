"""A call of several launches: it runs them, and remembers them for calls like it.

A sequence takes products, a kernel and arrays between them. The first call of a kind decides all that and describes
each array. Later ones, found by their signature as those of a jit function are, make the new arrays and launch.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Hashable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import nvdsl as nv
from nvdsl import sim
from nvdsl.call import collect
from nvdsl.call.launches import Launch, Launches
from nvdsl.driver import stream as streams
from nvdsl.driver.stream import Stream
from nvdsl.kernels.arguments import Argument
from nvdsl.kernels.gemm.launch import sms
from nvdsl.kernels.gemm.matmul import ProductCall
from nvdsl.kernels.recurrent.part import Part
from nvdsl.lower import ahead

Source = tuple[int, int] | float
"""Where a launch has an argument from: the number of an array and bytes from its start, or the number itself."""


class Run:
    """One call. ``given``: its arrays, in the order in which `Calls` sees them."""

    def __init__(self, given: Sequence[Argument | None], stream: Stream | None, target: str | None) -> None:
        self.stream, self.target, self.sms = stream, target, sms(target)
        self._numbers = {id(array): i for i, array in enumerate(given)}
        self._all: list[Argument | None] = list(given)  # so that no id comes twice
        self._given = len(given)
        self._steps: list[tuple[Launch, list[Source]]] | None = []  # None: calls like this one take the long way

    def new(self, name: str, like: Argument, shape: tuple[int, ...], dtype: nv.DType) -> Argument:
        """A new array beside ``like``: a result, or what lies between launches."""
        with _allocating(like.memory[2], self.stream):
            made = Argument.output(name, None, like, shape, dtype)
        self._numbers[id(made)] = len(self._all)
        self._all.append(made)
        return made

    def between(self, like: Part, shape: tuple[int, ...], dtype: nv.DType) -> Part:
        """New memory between two launches."""
        return Part.of(self.new("workspace", like.array, shape, dtype))

    def launch(self, kernel: Any, *parts: Part | None, **constants: Any) -> None:
        """Call a jit function."""
        call = kernel.describe([None if part is None else part.view() for part in parts], constants)
        executable = kernel.run(call, call.values, self.stream, self.target)
        launch = None if executable is None else kernel.repeatable(call, executable)
        self._remember(launch, [part for part in parts if part is not None])

    def compile(self, kernel: Any, *parts: Part | None, beside: Callable[[], None], **constants: Any) -> None:
        """Compile a jit function, which `launch` will call, and do ``beside`` while ptxas works."""
        if collect.active() or not sim.wanted(self.target):
            views = [None if part is None else part.view() for part in parts]
            with ahead.compiling(beside):
                kernel.prepare(kernel.describe(views, constants))

    def product(
        self, a: Part, b: Part, out: Part, bias: Part | None = None, *, added: bool = False, compiled: bool = False
    ) -> None:
        """``out = a @ b + bias``; ``added``: to what is in ``out``. ``compiled``: it is only compiled, and comes
        later."""
        row = None if bias is None else bias.view()
        call = ProductCall(a.view(), b.view(), out.view(), out.view() if added else None, bias=row, target=self.target)
        if compiled:
            call.prepare()
            return
        _, launch = call.run(self.stream)
        self._remember(launch, [a, b, out, out if added else 0, bias or 0, 0, 0, *([1.0, 1.0] if added else [])])

    def _remember(self, launch: Launch | None, sources: Sequence[Part | float]) -> None:
        known = launch is not None and all(
            part.array.memory[1].has_signature for part in sources if isinstance(part, Part)
        )
        if self._steps is None or launch is None or not known:
            self._steps = None
            return
        self._steps.append((launch, [part if not isinstance(part, Part) else self._source(part) for part in sources]))

    def _source(self, part: Part) -> Source:
        return self._numbers[id(part.array)], part.start * part.array.spec.dtype.bytes

    @property
    def made(self) -> list[Any]:
        """The new arrays, as their library has them."""
        return [array.memory[2] for array in self._all[self._given :] if array is not None]

    def launches(self, results: Sequence[Argument]) -> Launch | None:
        """What calls like this one launch, and the results that they make."""
        if not self._steps:
            return None
        steps, count = self._steps, self._given
        makers = [made.maker() for made in self._all[count:] if made is not None]
        places = [self._numbers[id(array)] - count for array in results]
        launchers = [(launch.launcher, sources) for launch, sources in steps]

        def make() -> tuple[Any, Any]:
            made = [maker() for maker in makers]
            arrays = [array for array, _ in made]
            # All of them, so that none is gone before the last launch.
            return ([arrays[i] for i in places], arrays), (tuple([address for _, address in made]),)

        def run(values: tuple[Any, ...], stream: Stream | None) -> None:
            every = (*values[:count], *values[count])
            for launcher, sources in launchers:
                launcher(tuple([s if s.__class__ is not tuple else every[s[0]] + s[1] for s in sources]), stream)

        return Launch(run, lambda: all(launch.holds() for launch, _ in steps), make, (count,))  # type: ignore[arg-type]


class Calls:
    """The calls of one public function that came before."""

    def __init__(self) -> None:
        self._launches = Launches()

    def again(self, arrays: Sequence[Any], rest: Hashable, stream: Stream | None) -> list[Any] | None:
        """The results of a call like one before; None where there was none. ``rest``: whatever else decides."""
        with _allocating(arrays[0], stream):
            made = self._launches.launch((*arrays, None), rest, stream)
        if made is None:
            return None
        results, every = made
        _hold(every, stream)
        return results

    def keep(
        self, arrays: Sequence[Any], rest: Hashable, run: Run, results: Sequence[Argument], stream: Stream | None
    ) -> list[Any]:
        """Let calls like this one be found. Returns its results."""
        launch = run.launches(results)
        if launch is not None:
            self._launches.keep((*arrays, None), rest, launch)
        _hold(run.made, stream)
        return [array.result() for array in results]


def _allocating(like: Any, stream: Stream | None) -> AbstractContextManager[Any]:
    """Let CuPy take the memory of new arrays beside ``like`` from that of ``stream``, and so give it out anew to later
    work of this stream alone. Its own current stream knows nothing of a stream that a call is given."""
    cupy = sys.modules.get("cupy")
    if stream is None or cupy is None or not isinstance(like, cupy.ndarray):
        return nullcontext()
    return cupy.cuda.ExternalStream(streams.resolve(stream), like.data.device_id)


def _hold(made: Sequence[Any], stream: Stream | None) -> None:
    """Let torch give out no memory of these arrays anew before ``stream`` has come here: it knows of its own current
    stream alone. What lies between launches is dropped when the call returns."""
    torch = sys.modules.get("torch")
    if stream is None or torch is None:
        return
    tensors = [array for array in made if isinstance(array, torch.Tensor) and array.is_cuda]
    if tensors:
        ours = torch.cuda.ExternalStream(streams.resolve(stream))
        for tensor in tensors:
            tensor.record_stream(ours)
