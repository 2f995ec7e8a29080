"""What a finished kernel's public function does when a call comes again: it finds its launch by the call's signature.

    _calls = Repeated("x out mean", outputs="out mean")

    def norm(x, out=None, *, eps=1e-5, mean=None, stream=None, target=None):
        arrays, numbers = (x, out, mean), (float(eps),)
        found = _calls.again(arrays, target, stream, numbers)
        if found is not None:
            return found
        ...                                                      # describe and check the arguments
        _calls.run(kernel, (x, y, means, eps), {"config": config}, arrays, target, stream, target, apart)
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any, Protocol

from nvdsl.call.garbage import none_collected
from nvdsl.call.launches import Launches
from nvdsl.driver.stream import Stream
from nvdsl.kernels.arguments import Argument


class Seen(Protocol):
    """An argument as a kernel sees it."""

    @property
    def argument(self) -> Argument:
        """Which one."""

    def view(self) -> Any:
        """What the kernel takes for it."""


class Repeated:
    """The repeated calls of one public function.

    ``names``: of its array arguments, in the order in which a call gives them. ``outputs``: of those that it writes and
    returns, in this order; the first is always there, the others where an array or True is given for them. ``settled``:
    arrays and ``rest`` decide the kernel's numbers, too, and `again` gets none.
    """

    def __init__(self, names: str, outputs: str, *, settled: bool = False) -> None:
        self._settled = settled
        self._places = {name: i for i, name in enumerate(names.split())}
        self._outputs = [self._places[name] for name in outputs.split()]
        self._first, self._second = (*self._outputs, len(self._places))[:2]
        self._launches = Launches()
        self.launch = self._launches.launch
        """`again` for a call of one output: it returns the new array, True where there is none, and None as `again`."""

    def again(
        self, arrays: Sequence[Any], rest: Hashable, stream: Stream | None, numbers: tuple[float, ...] = ()
    ) -> Any:
        """Launch what a call like this one launched, and return what it returns. None where it takes the long way.

        ``arrays``: as the caller gave them, None for none; the last ones may be left out where they are None. ``rest``:
        whatever else decides; ``numbers``: further arguments of the kernel, always of the same types.
        """
        made = self.launch(arrays, rest, stream, numbers)
        if made is None:
            return None
        out = arrays[self._first]
        if len(arrays) <= self._second:
            return made if out is None else out
        if made.__class__ is tuple:  # all that it returns
            return made
        new = iter(made if made.__class__ is list else (made,))
        found = [next(new) if out is None else out]
        for place in self._outputs[1:]:
            array = arrays[place] if place < len(arrays) else None
            if array is not None and array is not False:
                found.append(next(new) if array is True else array)
        return found[0] if len(found) == 1 else tuple(found)

    def run(
        self,
        kernel: Any,
        given: Sequence[Seen | float | None],
        constants: dict[str, Any],
        arrays: Sequence[Any],
        rest: Hashable,
        stream: Stream | None,
        target: str | None,
        apart: Sequence[tuple[Argument, Argument, bool]] = (),
    ) -> None:
        """Run a jit function, and let calls like this one be found.

        ``given``: its positional arguments, numbers in the order in which `again` gets them. ``arrays``, ``rest``: as
        for `again`. ``apart``: an output, what it may share no memory with, and whether they may be one array.
        """
        with none_collected():
            call = kernel.describe([_view(x) for x in given], constants)
        executable = kernel.run(call, call.values, stream, target)
        seen = [x.argument for x in given if x is not None and not isinstance(x, int | float)]
        if executable is None or not all(x.memory[1].has_signature for x in seen):
            return
        order, number = [], len(arrays)
        for x in given:
            if isinstance(x, int | float):
                order.append(number)
                number += 1
            elif x is not None:
                order.append(self._places[x.argument.name])
        new = [x for place in self._outputs for x in seen if x.is_new and self._places[x.name] == place]
        pairs = [
            (self._places[out.name], self._places[other.name], out.apart(other, or_same=same))
            for out, other, same in apart
            if not (out.is_new or other.is_new)
        ]
        more = self._made(new, len(new) == sum(self._places[x.name] in self._outputs for x in seen))
        if self._settled:
            more["numbers"] = tuple([x for x in given if isinstance(x, int | float)])
        launch = kernel.repeatable(call, executable, order=order, disjoint=pairs, **more)
        if launch is not None:
            self._launches.keep(arrays, rest, launch)

    def _made(self, new: Sequence[Argument], whole: bool) -> dict[str, Any]:
        """How a repeated call makes its new arrays; as a tuple where they are the ``whole`` result, else as a list."""
        if not new:
            return {}
        makers, places = [x.maker() for x in new], tuple(self._places[x.name] for x in new)
        if len(new) == 1:
            return {"make": makers[0], "place": places[0]}

        def make() -> tuple[Any, Any]:
            arrays, addresses = [], []
            for maker in makers:
                array, address = maker()
                arrays.append(array)
                addresses.append(address)
            return tuple(arrays) if whole else arrays, addresses

        return {"make": make, "place": places}


def _view(x: Seen | float | None) -> Any:
    return x if x is None or isinstance(x, int | float) else x.view()
