"""What one host function reads, for each set of functions and objects that it is called with as constants."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from nvdsl.call.specialize import Call, Constant
from nvdsl.trace.dependencies import Dependencies

_MOST = 1024  # sets of constants that one function keeps compilations of


class Reads:
    """``forget``: called with each state that is dropped, see `Dependencies`."""

    def __init__(self, function: Callable[..., Any], forget: Callable[[int], None]) -> None:
        self._function, self._forget = function, forget
        self._own = Dependencies(function, forget)
        self._with: dict[tuple[Constant, ...], Dependencies] = {}

    def of(self, call: Call) -> Dependencies:
        """What the function reads in such a call."""
        if not call.objects:
            return self._own
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
