"""The one store of repeated calls: from a call's signature to what it launches.

A jit function has one, and so has `nv.matmul`. What is kept says itself whether it still holds: after a change of what
its kernel was compiled from, and after a tuning, it does not, whoever keeps it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Hashable, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from nvdsl.call import collect
from nvdsl.call.signature import Look, look_at, nothing
from nvdsl.driver.stream import Stream
from nvdsl.errors import ArgumentError
from nvdsl.trace.decorated import current_host
from nvdsl.trace.dependencies import Guard

if TYPE_CHECKING:
    from nvdsl.driver.launcher import Launcher

_MOST = 4096  # launches in one store, before it starts again: shapes may vary without end


Maker = Callable[[], tuple[Any, Any]]
"""Makes an array, or several, and says where it lies."""


class Launch:
    """What calls of one signature launch. ``holds()``: whether a call would still be compiled to it.

    ``make``: for calls that return a new array: makes it, and gives its address with it. ``place``: where that stands
    among the call's values. For several new arrays both are tuples, and so are the places.
    """

    __slots__ = ("__weakref__", "holds", "launcher", "make", "place")

    def __init__(
        self, launcher: Launcher, holds: Guard, make: Maker | None = None, place: int | tuple[int, ...] = 0
    ) -> None:
        self.launcher, self.holds, self.make, self.place = launcher, holds, make, place


_Last: TypeAlias = tuple[Hashable, Hashable, int, Launch | None]
"""A signature, ``rest``, its hash, and what they launch."""
_NONE: _Last = (None, None, hash(None), None)


class Launches:
    """What calls of one function launch, by signature and by what else decides (``rest``, hashable)."""

    def __init__(self) -> None:
        self._known: dict[Hashable, Launch] = {}
        self._look: Look = nothing  # of the last call
        self._last = _NONE  # what was found last

    def launch(
        self, arguments: Sequence[Any], rest: Hashable, stream: Stream | None, numbers: tuple[float, ...] = ()
    ) -> Any:
        """Launch as a call like this one did before, and return the array that was made for it, or else True. None
        where nothing was launched: there was none, it no longer holds, or a call shall not run.

        ``numbers``: further values of the call. Raises what the launch raises.
        """
        if collect.found is not None or current_host.get() is not None:
            return None
        try:
            seen = self._look(arguments)
            if seen is None:
                look = self._look = look_at(arguments)
                seen = look(arguments)
                if seen is None:
                    return None
        except (RuntimeError, ArgumentError):  # the long way says what
            return None
        key, values = seen
        last_key, last_rest, last_hash, known = self._last
        try:
            # To compare takes half as long as to look up. What has another hash isn't compared: it may be an array.
            if key != last_key or rest is not last_rest and (hash(rest) != last_hash or rest != last_rest):
                known = self._known.get((key, rest))
                self._last = key, rest, hash(rest), known
        except TypeError:  # something can't be hashed: so does it here
            return None
        if known is None or not known.holds():
            return None
        made: Any = True
        if known.make is not None:
            made, address = known.make()
            place = known.place
            if place.__class__ is int:
                values = (*values[:place], address, *values[place + 1 :])
            else:
                changed = list(values)
                for i, each in enumerate(place):  # type: ignore[arg-type]
                    changed[each] = address[i]
                values = tuple(changed)
        known.launcher(values + numbers if numbers else values, stream)
        return made

    def keep(self, arguments: Sequence[Any], rest: Hashable, launch: Launch) -> None:
        """Let calls like this one be found."""
        look = self._look = look_at(arguments)  # it may have been written again
        seen = look(arguments)
        if seen is not None:
            if len(self._known) >= _MOST:
                self._known.clear()
            with contextlib.suppress(TypeError):  # something can't be hashed
                self._known[seen[0], rest] = launch
                self._last = seen[0], rest, hash(rest), launch

    def clear(self) -> None:
        self._known.clear()
        self._last = _NONE

    def __len__(self) -> int:
        return len(self._known)
