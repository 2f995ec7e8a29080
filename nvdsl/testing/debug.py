"""Calls in a process of their own, in debug mode: a kernel that hangs or traps ends that process, not the caller's.

    nv.debug.run(gemm, a, b, d)        # raises WatchdogError within seconds; d is filled where all is well

Debug mode itself (NVDSL_DEBUG=1, ``gemm(a, b, d, debug=True)``, ``@nv.jit(debug=True)``): docs/debugging.md.
"""

from __future__ import annotations

import runpy
import sys
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import numpy as np

from nvdsl.errors import ArgumentError

R = TypeVar("R")


def run(
    function: Callable[..., R],
    *args: Any,
    timeout: float = 120.0,
    env: Mapping[str, str] | None = None,
    **kwargs: Any,
) -> R:
    """``function(*args, **kwargs)`` in a child process with NVDSL_DEBUG=1; returns what it returned.

    ``function``: one of a module's or script's top level (a jit function too); arguments and result are pickled, and
    NumPy arrays among the arguments are filled as the child filled them. ``timeout``: seconds until the child
    is killed; ``env``: added to its environment.
    Raises what the function raised (WatchdogError above all), `testing.ChildTimeout`, or `testing.ChildFailed`.
    """
    from nvdsl.testing.child import ChildFailed, run_in_child

    place = _place(function)
    environment = {"NVDSL_DEBUG": "1", **(env or {})}
    try:
        done = run_in_child("nvdsl.testing.debug:_call", (place, args, kwargs), timeout=timeout, env=environment)
    except ChildFailed as failure:
        if failure.exception is None:
            raise
        raise failure.exception from None
    sys.stdout.write(done.stdout)
    sys.stderr.write(done.stderr)
    value, filled = done.value
    for array, new in zip(_arrays(args, kwargs), filled, strict=True):
        if array.flags.writeable:
            array[...] = new
    return value


def _place(function: Callable[..., Any]) -> tuple[str, str, str]:
    """Module, the script's file where it is one, and the name in it."""
    module, name = str(function.__module__), str(getattr(function, "__qualname__", ""))
    script = getattr(sys.modules.get(module), "__file__", None) if module == "__main__" else ""
    if not name or "<" in name or script is None:
        raise ArgumentError(
            f"{name or function!r} of module {module} can't be called in another process",
            rule="the child finds the function by its module and name",
            fix="define it at the top level of a file",
        )
    return module, script, name


def _call(place: tuple[str, str, str], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """In the child: what the function returns, and the arrays as it left them."""
    from nvdsl.testing.child import find

    module, script, name = place
    if script:
        names = runpy.run_path(script, run_name="__nvdsl_child__")
        first, *rest = name.split(".")
        function = names[first]
        for part in rest:
            function = getattr(function, part)
    else:
        function = find(f"{module}:{name}")
    return function(*args, **kwargs), _arrays(args, kwargs)


def _arrays(args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Any]:
    return [x for x in (*args, *kwargs.values()) if isinstance(x, np.ndarray)]
